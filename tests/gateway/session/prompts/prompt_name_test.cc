#include "gateway/session/prompts/prompt_name.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kvgate::session::prompts {
namespace {

TEST(PromptNameTest, AHeaderNamesAPromptAndPerhapsAVersion) {
  EXPECT_EQ(*ReadPromptName("support"), (PromptName{.name = "support", .version = {}}));
  EXPECT_EQ(*ReadPromptName("a.b-c_D@1.0"), (PromptName{.name = "a.b-c_D", .version = "1.0"}));
  EXPECT_EQ(LabelOf(*ReadPromptName("support@3")), "support@3");
  EXPECT_EQ(LabelOf(*ReadPromptName("support")), "support");
}

TEST(PromptNameTest, WhatIsNoNameIsRefusedAndTheHeaderNamed) {
  for (const std::string& text : {std::string("@3"), std::string("a@"), std::string("a b"),
                                  std::string("a/b"), std::string("a@1@2"), std::string("ä"),
                                  std::string(65, 'a'), "a@" + std::string(33, '1')}) {
    const auto name = ReadPromptName(text);
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(name.error().field, kPromptHeader);
  }
  EXPECT_TRUE(ReadPromptName(std::string(64, 'a') + "@" + std::string(32, '1')));
}

TEST(PromptNameTest, APathsPartsAreCheckedByTheirOwnNames) {
  EXPECT_TRUE(CheckPromptName({.name = "a", .version = "1"}));
  EXPECT_EQ(CheckPromptName({.name = "a b", .version = "1"}).error().field, "name");
  EXPECT_EQ(CheckPromptName({.name = "a", .version = ""}).error().field, "version");
}

TEST(PromptNameTest, NumbersInVersionsCompareAsNumbers) {
  const std::vector<std::string> ordered = {"1",   "1.9", "1.10",     "2",  "9",   "10",
                                            "010", "100", "2024-1-2", "a2", "a10", "b"};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = 0; j < ordered.size(); ++j) {
      if (ordered[i] == "010" || ordered[j] == "010") continue;
      EXPECT_EQ(IsOlder(ordered[i], ordered[j]), i < j) << ordered[i] << " " << ordered[j];
    }
  }
  EXPECT_NE(IsOlder("010", "10"), IsOlder("10", "010")) << "an order of all versions";
  EXPECT_TRUE(IsOlder("9", "010"));
  EXPECT_FALSE(IsOlder("0", "0"));
}

}  // namespace
}  // namespace kvgate::session::prompts
