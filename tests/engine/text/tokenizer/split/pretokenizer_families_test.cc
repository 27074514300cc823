#include "engine/text/tokenizer/split/pretokenizer_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace kvgate::tokenizer::split {
namespace {

TEST(PretokenizerFamiliesTest, EveryNameLeadsToOneFamilyThatCuts) {
  std::istringstream in(PretokenizerNames());
  std::set<std::string> seen;
  for (std::string name; std::getline(in >> std::ws, name, ',');) {
    EXPECT_TRUE(seen.insert(name).second) << name << " is listed twice";
    const PretokenizerFamily* family = FindPretokenizerFamily(name);
    ASSERT_NE(family, nullptr) << name;
    EXPECT_NE(family->rules[0].kind, CutRule::Kind::kNone) << name;
  }
  for (const char* name : {"gpt-2", "llama-bpe", "qwen2", "qwen35", "deepseek-llm", "deepseek-v3",
                           "starcoder", "refact", "falcon", "mpt", "command-r", "tekken", "smollm",
                           "gpt-4o", "chatglm-bpe", "gemma4", "kimi-k2"}) {
    EXPECT_TRUE(seen.contains(name)) << name;
  }
}

TEST(PretokenizerFamiliesTest, NoNameIsTheDefaultAndAPartOfANameIsNone) {
  EXPECT_EQ(FindPretokenizerFamily(""), FindPretokenizerFamily("default"));
  EXPECT_EQ(FindPretokenizerFamily("gpt"), nullptr);
  EXPECT_EQ(FindPretokenizerFamily("gpt-2 phi-2"), nullptr);
}

TEST(PretokenizerFamiliesTest, FlagsFollowTheModels) {
  EXPECT_TRUE(FindPretokenizerFamily("llama-bpe")->ignores_merges);
  EXPECT_TRUE(FindPretokenizerFamily("llama-bpe")->adds_bos);
  EXPECT_FALSE(FindPretokenizerFamily("dbrx")->ignores_merges);
  EXPECT_TRUE(FindPretokenizerFamily("tekken")->ignores_merges);
  EXPECT_FALSE(FindPretokenizerFamily("gpt-4o")->adds_bos);
  EXPECT_TRUE(FindPretokenizerFamily("gemma4")->always_adds_bos);
}

}  // namespace
}  // namespace kvgate::tokenizer::split
