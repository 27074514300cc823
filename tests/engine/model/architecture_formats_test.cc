// Every architecture is made, loaded and run in every weight format, and stays as near to the same
// weights in F32 as the format allows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/model/architecture.h"
#include "engine/model/make_model.h"
#include "engine/model/weight_recipe.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/model/model_runner.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::model {
namespace {

using Logits = std::vector<float>;

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const Architecture& architecture : Architectures()) {
    names.emplace_back(architecture.name);
  }
  return names;
}

class ArchitectureFormatsTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Returns the logits after a prompt longer than the window, and after two tokens more.
  Logits Run(const WeightRecipe& recipe) {
    const TempFolder scratch;
    const bool has_window = FindArchitecture(GetParam())->window_rule != WindowRule::kNever;
    const auto made = MakeModel({.architecture = GetParam(),
                                 .num_layers = 2,
                                 .hidden_dim = 256,
                                 .num_heads = 4,
                                 .num_kv_heads = 2,
                                 .ffn_dim = 256,
                                 .vocab_size = 512,
                                 .context_length = 512,
                                 .window = has_window ? 48 : 0,
                                 .dtype = recipe.dtype,
                                 .is_mixed = recipe.is_mixed,
                                 .seed = 5,
                                 .name = ""},
                                scratch / "m.gguf");
    EXPECT_TRUE(made.has_value()) << made.error().ToString();
    const auto backend = *kernels::cpu::MakeCpuBackend({.num_threads = 2, .target = ""});
    const LoadedModel loaded = LoadedModel::Open(scratch / "m.gguf", *backend);
    SequenceRunner runner(*loaded.model, *backend, {.context = 128});
    std::vector<TokenId> prompt;
    for (int i = 0; i < 70; ++i) prompt.push_back(static_cast<TokenId>(40 + i * 7 % 90));
    Logits all = runner.Last(prompt);
    for (const TokenId token : {TokenId{50}, TokenId{77}}) {
      const Logits next = runner.Last({&token, 1});
      all.insert(all.end(), next.begin(), next.end());
    }
    return all;
  }
};
std::string TestName(const ::testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, ArchitectureFormatsTest, ::testing::ValuesIn(Names()), TestName);

double RelativeDistance(const Logits& got, const Logits& wanted) {
  double distance = 0;
  double norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    distance += std::pow(static_cast<double>(got[i]) - wanted[i], 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(distance / norm);
}

// Returns the allowed error by the bits per weight; an unrelated model is off by more than 1.
double BoundOf(const WeightRecipe& recipe, bool has_experts) {
  if (recipe.dtype == kernels::DType::kF32) return 0;
  const double bits = 8.0 * static_cast<double>(kernels::DTypeBytes(recipe.dtype, 256)) / 256;
  // A token near the edge between two experts may take the other one.
  const double routing = has_experts ? 0.3 : 0;
  return routing + (bits >= 16 ? 0.02 : bits >= 8 ? 0.06 : bits >= 6 ? 0.2 : bits > 4 ? 0.6 : 0.9);
}

TEST_P(ArchitectureFormatsTest, EachRunsNearTheSameWeightsInF32) {
  const Logits wanted = Run({.dtype = kernels::DType::kF32});
  const bool has_experts = FindArchitecture(GetParam())->experts == ExpertRule::kAlways;
  for (const std::string& name : RecipeNames()) {
    const WeightRecipe recipe = *FindRecipe(name);
    EXPECT_LE(RelativeDistance(Run(recipe), wanted), BoundOf(recipe, has_experts)) << name;
  }
}

}  // namespace
}  // namespace kvgate::model
