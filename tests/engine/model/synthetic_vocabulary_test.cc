#include "engine/model/synthetic_vocabulary.h"

#include <gtest/gtest.h>

#include "tests/engine/model/made_model.h"

namespace kvgate::model {
namespace {

using SyntheticVocabularyTest = MadeModelTest;
INSTANTIATE_TEST_SUITE_P(All, SyntheticVocabularyTest, SyntheticCases());

TEST_P(SyntheticVocabularyTest, EnglishTakesFewTokensAndComesBack) {
  const std::string text =
      "Once upon a time there was a small house by the water, and the people who lived there "
      "would read a story each night. Please write a function that returns the number of words.";
  const std::vector<TokenId> tokens = tokenizer_->Encode(text, {.add_special = false});
  EXPECT_LT(tokens.size(), text.size() / 2);
  std::string decoded = tokenizer_->Decode(tokens);
  if (decoded.starts_with(' ')) decoded.erase(0, 1);
  EXPECT_EQ(decoded, text);
}

TEST_P(SyntheticVocabularyTest, AnyTextHasTokens) {
  const std::string text = "caf\u00e9 \u6771\u4eac \U0001F642\t.";
  std::string decoded = tokenizer_->Decode(tokenizer_->Encode(text, {.add_special = false}));
  if (decoded.starts_with(' ')) decoded.erase(0, 1);
  EXPECT_EQ(decoded, text);
}

TEST_P(SyntheticVocabularyTest, EveryPieceIsReachable) {
  int num_unreachable = 0;
  // A SentencePiece vocabulary has, after its three special tokens, one token per byte for text
  // that has no piece.
  const bool has_bytes = tokenizer_->TokenBytes(3) == std::string(1, '\0');
  for (TokenId id = has_bytes ? 3 + 256 : 0; id < tokenizer_->vocab_size(); ++id) {
    const std::string bytes = tokenizer_->TokenBytes(id);
    if (bytes.empty() || static_cast<unsigned char>(bytes[0]) >= 0x80) continue;
    // SentencePiece prepends a space, so pieces without one only occur inside others.
    const std::string& architecture = GetParam().architecture;
    const bool adds_space = architecture == "llama" || architecture == "phi3";
    if (adds_space && bytes[0] != ' ') continue;
    const std::string text = adds_space ? bytes.substr(1) : bytes;
    if (text.empty()) continue;
    const auto tokens = tokenizer_->Encode(text, {.add_special = false, .parse_special = false});
    if (tokens != std::vector<TokenId>{id}) ++num_unreachable;
  }
  EXPECT_EQ(num_unreachable, 0);
}

TEST(MadeVocabularySizeTest, TheSmallestVocabulariesWork) {
  const TempFolder scratch;
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
