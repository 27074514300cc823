#include "engine/model/make_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "engine/sample/sampler.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/model/model_runner.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::model {
namespace {

using ::testing::HasSubstr;

MakeModelOptions Tiny(const std::string& architecture, kernels::DType dtype) {
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

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::unique_ptr<kernels::Backend> MakeBackend() {
  return *kernels::cpu::MakeCpuBackend({.num_threads = 1, .target = ""});
}

struct MadeCase {
  std::string architecture;
  kernels::DType dtype;
};

void PrintTo(const MadeCase& made, std::ostream* out) {
  *out << made.architecture << " " << kernels::DTypeName(made.dtype);
}

class MakeModelTest : public ::testing::TestWithParam<MadeCase> {
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

  // Tokens sampled after `prompt`.
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

  ScratchDirectory scratch_;
  std::filesystem::path path_;
  std::unique_ptr<kernels::Backend> backend_ = MakeBackend();
  LoadedModel loaded_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

INSTANTIATE_TEST_SUITE_P(All, MakeModelTest,
                         ::testing::Values(MadeCase{"llama", kernels::DType::kF32},
                                           MadeCase{"llama", kernels::DType::kQ8_0},
                                           MadeCase{"qwen2", kernels::DType::kF16},
                                           MadeCase{"qwen2", kernels::DType::kQ8_0}));

TEST_P(MakeModelTest, EqualOptionsGiveEqualBytesAndOtherSeedsOthers) {
  MakeModelOptions options = Tiny(GetParam().architecture, GetParam().dtype);
  ASSERT_TRUE(MakeModel(options, scratch_ / "again.gguf").has_value());
  EXPECT_EQ(ReadAll(scratch_ / "again.gguf"), ReadAll(path_));
  options.seed = 6;
  ASSERT_TRUE(MakeModel(options, scratch_ / "other.gguf").has_value());
  EXPECT_NE(ReadAll(scratch_ / "other.gguf"), ReadAll(path_));
  const LoadedModel other = LoadedModel::Open(scratch_ / "other.gguf", *backend_);
  EXPECT_NE(other.model->fingerprint(), loaded_.model->fingerprint());
}

TEST_P(MakeModelTest, TheShapeIsTheOneAskedFor) {
  const ModelConfig& config = loaded_.model->config();
  EXPECT_EQ(config.architecture, GetParam().architecture);
  EXPECT_EQ(config.name, GetParam().architecture + "-random-5");
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.hidden_dim, 128);
  EXPECT_EQ(config.num_heads, 8);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ffn_dim, 256);
  EXPECT_EQ(config.vocab_size, 700);
  EXPECT_EQ(config.context_length, 4096);
  EXPECT_EQ(config.tied_embeddings, GetParam().architecture == "qwen2");
  EXPECT_EQ(tokenizer_->vocab_size(), 700);
}

TEST_P(MakeModelTest, SampledTextIsPrintableWhateverThePrompt) {
  // The last characters of the prompts are ones that must not come out, among them raw bytes.
  for (const std::string prompt : {"Once upon a time", "\xF0\x9F\x98\x80 na\xC3\xAFve \xFF",
                                   "<|im_start|>user\nhi<|im_end|><|im_start|>", "\t\x01\xC3"}) {
    const std::vector<TokenId> tokens = Generate(prompt, 500, 1.0f);
    const std::string text = tokenizer_->Decode(tokens, true);
    for (const char c : text) {
      ASSERT_TRUE((c >= 0x20 && c <= 0x7E) || c == '\n')
          << "byte " << static_cast<int>(static_cast<unsigned char>(c));
    }
    for (const TokenId token : tokens) {
      ASSERT_FALSE(tokenizer_->is_end_of_generation(token));
      ASSERT_FALSE(tokenizer_->TokenBytes(token).empty()) << token;
    }
  }
}

TEST_P(MakeModelTest, LogitsAreNeitherFlatNorCertain) {
  std::vector<TokenId> tokens = tokenizer_->Encode("The old house by the water", {});
  SequenceRunner runner(*loaded_.model, *backend_, {.context = 512});
  sample::Sampler sampler({.temperature = 1.0f, .seed = 3});
  double entropy_sum = 0;
  constexpr int kSteps = 200;
  for (int i = 0; i < kSteps; ++i) {
    const std::vector<float> logits = runner.Last(tokens);
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    double weighted = 0;
    for (const float logit : logits) {
      const double weight = std::exp(logit - largest);
      sum += weight;
      weighted += weight * (logit - largest);
    }
    entropy_sum += std::log(sum) - weighted / sum;
    tokens = {sampler.Sample(logits).token};
  }
  const double entropy = entropy_sum / kSteps;
  RecordProperty("entropy", std::to_string(entropy));
  EXPECT_GT(entropy, 1.0);
  EXPECT_LT(entropy, 0.9 * std::log(700.0));
}

TEST_P(MakeModelTest, GreedyTextDoesNotStickToOneToken) {
  const std::vector<TokenId> tokens = Generate("Once upon a time", 200, 0.0f);
  const std::set<TokenId> distinct(tokens.begin(), tokens.end());
  EXPECT_GT(distinct.size(), 8u);
  EXPECT_GT(std::set<TokenId>(tokens.end() - 50, tokens.end()).size(), 2u);
}

TEST_P(MakeModelTest, EnglishTakesFewTokensAndComesBack) {
  const std::string text =
      "Once upon a time there was a small house by the water, and the people who lived there "
      "would read a story each night. Please write a function that returns the number of words.";
  const std::vector<TokenId> tokens = tokenizer_->Encode(text, {.add_special = false});
  EXPECT_LT(tokens.size(), text.size() / 2);
  std::string decoded = tokenizer_->Decode(tokens);
  if (decoded.starts_with(' ')) decoded.erase(0, 1);
  EXPECT_EQ(decoded, text);
}

TEST_P(MakeModelTest, EveryPieceIsReachable) {
  int num_unreachable = 0;
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    const std::string bytes = tokenizer_->TokenBytes(id);
    if (bytes.empty() || static_cast<unsigned char>(bytes[0]) >= 0x80) continue;
    // SentencePiece puts a space in front, which makes the pieces without one parts of others.
    if (GetParam().architecture == "llama" && bytes[0] != ' ') continue;
    const std::string text = GetParam().architecture == "llama" ? bytes.substr(1) : bytes;
    if (text.empty()) continue;
    const auto tokens = tokenizer_->Encode(text, {.add_special = false, .parse_special = false});
    if (tokens != std::vector<TokenId>{id}) ++num_unreachable;
  }
  EXPECT_EQ(num_unreachable, 0);
}

TEST(MakeModelOptionsTest, ABadOptionIsNamed) {
  const ScratchDirectory scratch;
  const auto refused = [&](std::string_view field, auto change) {
    MakeModelOptions options = Tiny("llama", kernels::DType::kQ8_0);
    change(options);
    const Result<void> made = MakeModel(options, scratch / "bad.gguf");
    ASSERT_FALSE(made.has_value()) << field;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(made.error().field, field);
    EXPECT_THAT(made.error().detail, HasSubstr(std::string(field)));
    EXPECT_FALSE(std::filesystem::exists(scratch / "bad.gguf"));
  };
  refused("architecture", [](MakeModelOptions& o) { o.architecture = "gpt2"; });
  refused("num_layers", [](MakeModelOptions& o) { o.num_layers = 0; });
  refused("hidden_dim", [](MakeModelOptions& o) { o.hidden_dim = 32; });
  refused("hidden_dim", [](MakeModelOptions& o) { o.hidden_dim = 144; });
  refused("num_heads", [](MakeModelOptions& o) { o.num_heads = 5; });
  refused("num_kv_heads", [](MakeModelOptions& o) { o.num_kv_heads = 3; });
  refused("num_kv_heads", [](MakeModelOptions& o) { o.num_kv_heads = 16; });
  refused("ffn_dim", [](MakeModelOptions& o) { o.ffn_dim = 100; });
  refused("vocab_size", [](MakeModelOptions& o) { o.vocab_size = 98; });
  refused("vocab_size", [](MakeModelOptions& o) {
    o.architecture = "qwen2";
    o.vocab_size = 258;
  });
  refused("context_length", [](MakeModelOptions& o) { o.context_length = 0; });
  refused("dtype", [](MakeModelOptions& o) { o.dtype = kernels::DType::kBF16; });
}

TEST(MakeModelOptionsTest, TheSmallestVocabulariesWork) {
  const ScratchDirectory scratch;
  const auto backend = MakeBackend();
  for (const auto& [architecture, size] :
       std::vector<std::pair<std::string, int>>{{"llama", 99}, {"qwen2", 259}}) {
    MakeModelOptions options = Tiny(architecture, kernels::DType::kF16);
    options.vocab_size = size;
    ASSERT_TRUE(MakeModel(options, scratch / "small.gguf").has_value());
    const LoadedModel loaded = LoadedModel::Open(scratch / "small.gguf", *backend);
    EXPECT_EQ(loaded.model->config().vocab_size, size);
    const auto tokenizer = tokenizer::Tokenizer::Load(*loaded.file);
    ASSERT_TRUE(tokenizer.has_value());
    EXPECT_EQ((*tokenizer)->Decode((*tokenizer)->Encode("a b", {.add_special = false})).back(),
              'b');
  }
}

}  // namespace
}  // namespace kvgate::model
