#include "gateway/bench/bench_work.h"

#include <gtest/gtest.h>

#include "engine/model/make_model.h"

namespace kvgate::bench {
namespace {

struct Made {
  std::unique_ptr<modelfile::ModelFile> file;
  model::ModelConfig config;
};

Made Make(const model::MakeModelOptions& options) {
  Made made{.file = *model::MakeModelInMemory(options, 1), .config = {}};
  made.config = *model::ReadModelConfig(*made.file);
  return made;
}

constexpr int kHidden = 128;
constexpr int kFfn = 256;
constexpr int kVocab = 700;

model::MakeModelOptions Shape() {
  return {.num_layers = 3,
          .hidden_dim = kHidden,
          .num_heads = 8,
          .num_kv_heads = 2,
          .ffn_dim = kFfn,
          .vocab_size = kVocab,
          .dtype = kernels::DType::kF16,
          .name = ""};
}

// The weights of one layer are q and output, k and v, and the feed-forward part.
constexpr double kLayer = 2.0 * kHidden * kHidden + 2.0 * kHidden * 32 + 3.0 * kHidden * kFfn;

TEST(BenchWorkTest, OneTokenTakesEveryWeightOnceAndAttendsToWhatIsBeforeIt) {
  const Made made = Make(Shape());
  EXPECT_EQ(DecodeOperations(made.config, 9),
            2 * (3 * kLayer + 1.0 * kHidden * kVocab) + 4.0 * kHidden * 3 * 10);
  EXPECT_EQ(PrefillOperations(made.config, 1), DecodeOperations(made.config, 0));
}

TEST(BenchWorkTest, APrefillIsAsMuchAsItsTokensButForTheLastLayer) {
  const Made made = Make(Shape());
  const double all = 2 * 100 * 3 * kLayer;
  EXPECT_LT(PrefillOperations(made.config, 100), all);
  EXPECT_GT(PrefillOperations(made.config, 100), 2 * 100 * 2 * kLayer);
}

TEST(BenchWorkTest, TheBytesAreThoseOfTheMatricesAndNormsWithoutTheTable) {
  const Made made = Make(Shape());
  const double norms = 7.0 * kHidden * sizeof(float);
  EXPECT_EQ(WeightBytesRead(*made.file, made.config),
            2 * (3 * kLayer + 1.0 * kHidden * kVocab) + norms);
}

TEST(BenchWorkTest, OfExpertsOnlyTheUsedOnesAreRead) {
  model::MakeModelOptions options = Shape();
  options.architecture = "qwen3moe";
  options.num_experts = 8;
  options.num_experts_used = 2;
  const Made two = Make(options);
  options.num_experts_used = 4;
  const Made four = Make(options);
  const double expert = 3 * 3.0 * kHidden * kFfn * 2;
  EXPECT_EQ(WeightBytesRead(*four.file, four.config) - WeightBytesRead(*two.file, two.config),
            2 * expert);
}

}  // namespace
}  // namespace kvgate::bench
