#include "engine/model/make_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace kvgate::model {
namespace {

using ::testing::HasSubstr;

TEST(MakeEncoderTest, AVocabularyHasEveryCharacterAndNoTokenTwice) {
  const auto vocabulary = MakeBertVocabulary(1000);
  ASSERT_TRUE(vocabulary.has_value());
  EXPECT_EQ(vocabulary->tokens.size(), 1000u);
  EXPECT_EQ(vocabulary->types.size(), 1000u);
  const std::set<std::string> all(vocabulary->tokens.begin(), vocabulary->tokens.end());
  EXPECT_EQ(all.size(), 1000u);
  for (const char* text : {"[CLS]", "[SEP]", "▁a", "a", "▁!", "▁~", "▁7", "7", "▁ba", "ba"}) {
    EXPECT_TRUE(all.contains(text)) << text;
  }
  EXPECT_FALSE(all.contains("▁A"));
  EXPECT_FALSE(all.contains("!"));
}

TEST(MakeEncoderTest, AVocabularyOutOfRangeIsRefused) {
  for (const int size : {-1, 10, 1 << 20}) {
    const auto refused = MakeBertVocabulary(size);
    ASSERT_FALSE(refused.has_value()) << size;
    EXPECT_EQ(refused.error().field, "vocab_size");
    EXPECT_THAT(refused.error().detail, HasSubstr("an encoder's is made with"));
  }
}

TEST(MakeEncoderTest, EachEncoderHasItsTensors) {
  MakeModelOptions options = {.architecture = "bert", .num_layers = 2, .name = ""};
  const auto names = [&] {
    std::set<std::string> all;
    for (const SyntheticTensor& tensor : ListEncoderTensors(options)) all.insert(tensor.name);
    return all;
  };
  EXPECT_EQ(names().size(), 5u + 2 * 16u);
  EXPECT_TRUE(names().contains("position_embd.weight"));
  EXPECT_TRUE(names().contains("blk.1.attn_k.bias"));
  options.architecture = "nomic-bert";
  EXPECT_EQ(names().size(), 4u + 2 * 9u);
  EXPECT_TRUE(names().contains("blk.0.attn_qkv.weight"));
  EXPECT_FALSE(names().contains("blk.0.ffn_up.bias"));
}

}  // namespace
}  // namespace kvgate::model
