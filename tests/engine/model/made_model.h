// The fixture makes a small model of each architecture and loads it with its tokenizer.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/model/make_model.h"
#include "engine/sample/sampler.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/model/model_runner.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::model {

inline MakeModelOptions Tiny(const std::string& architecture, kernels::DType dtype) {
  return {.architecture = architecture,
          .num_layers = 3,
          .hidden_dim = 128,
          .num_heads = 8,
          .num_kv_heads = 2,
          .ffn_dim = 256,
          .vocab_size = 700,
          .context_length = 4096,
          .dtype = dtype,
          .seed = 5,
          .name = ""};
}

inline std::unique_ptr<kernels::Backend> MakeBackend() {
  return *kernels::cpu::MakeCpuBackend({.num_threads = 1, .target = ""});
}

struct SyntheticCase {
  std::string architecture;
  kernels::DType dtype;
};

inline void PrintTo(const SyntheticCase& made, std::ostream* out) {
  *out << made.architecture << " " << kernels::DTypeName(made.dtype);
}

class MadeModelTest : public ::testing::TestWithParam<SyntheticCase> {
 protected:
  void SetUp() override {
    path_ = scratch_ / "made.gguf";
    const auto made = MakeModel(Tiny(GetParam().architecture, GetParam().dtype), path_);
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    loaded_ = LoadedModel::Open(path_, *backend_);
    auto tokenizer = tokenizer::Tokenizer::Load(*loaded_.file);
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
    tokenizer_ = *std::move(tokenizer);
  }

  // Returns `count` tokens sampled after `prompt`.
  std::vector<TokenId> Generate(const std::string& prompt, int count, float temperature) {
    std::vector<TokenId> tokens = tokenizer_->Encode(prompt, {});
    SequenceRunner runner(*loaded_.model, *backend_,
                          {.context = static_cast<int>(tokens.size()) + count});
    sample::Sampler sampler({.temperature = temperature, .seed = 11});
    std::vector<TokenId> generated;
    for (int i = 0; i < count; ++i) {
      const TokenId next = sampler.Sample(runner.Last(tokens)).token;
      generated.push_back(next);
      tokens = {next};
    }
    return generated;
  }

  TempFolder scratch_;
  std::filesystem::path path_;
  std::unique_ptr<kernels::Backend> backend_ = MakeBackend();
  LoadedModel loaded_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

inline auto SyntheticCases() {
  return ::testing::Values(
      SyntheticCase{"llama", kernels::DType::kF32}, SyntheticCase{"llama", kernels::DType::kQ8_0},
      SyntheticCase{"qwen2", kernels::DType::kF16}, SyntheticCase{"qwen2", kernels::DType::kQ8_0},
      SyntheticCase{"gemma", kernels::DType::kF16}, SyntheticCase{"olmoe", kernels::DType::kF16},
      SyntheticCase{"qwen3", kernels::DType::kF16}, SyntheticCase{"gemma2", kernels::DType::kQ8_0},
      SyntheticCase{"gemma3", kernels::DType::kF16}, SyntheticCase{"phi3", kernels::DType::kF16},
      SyntheticCase{"smollm3", kernels::DType::kQ8_0}, SyntheticCase{"olmo2", kernels::DType::kF16},
      SyntheticCase{"granite", kernels::DType::kF16},
      SyntheticCase{"granitemoe", kernels::DType::kF16},
      SyntheticCase{"qwen2moe", kernels::DType::kQ8_0},
      SyntheticCase{"qwen3moe", kernels::DType::kF16},
      SyntheticCase{"gpt-oss", kernels::DType::kMXFP4});
}

}  // namespace kvgate::model
