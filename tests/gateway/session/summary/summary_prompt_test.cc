#include "gateway/session/summary/summary_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/base/temp_folder.h"

namespace kvgate::session::summary {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SummaryPromptTest : public ::testing::Test {
 protected:
  Result<SummaryPrompt> LoadText(std::string_view text) {
    std::ofstream(path) << text;
    return SummaryPrompt::Load(path);
  }

  const TempFolder folder;
  const std::string path = folder / "prompt.txt";
};

TEST_F(SummaryPromptTest, TheBuiltInOneAsksForAllHeadingsWithinTheLimit) {
  const SummaryPrompt prompt;
  EXPECT_EQ(prompt.name(), "builtin@1");
  const std::string asked = prompt.Ask({.tokens_max = 321, .kept_from = "and then", .part = {}});
  for (const char* part : {"321 tokens", "\"and then\"", "## Goals", "## Decisions", "## Facts",
                           "## Open ends", "## Files", "merge it"}) {
    EXPECT_THAT(asked, HasSubstr(part));
  }
  EXPECT_THAT(asked, Not(HasSubstr("{{")));
}

TEST_F(SummaryPromptTest, APartStandsBehindTheWords) {
  const std::string asked =
      SummaryPrompt().Ask({.tokens_max = 1, .kept_from = "x", .part = "User: {{tokens}}\n"});
  EXPECT_THAT(asked, EndsWith("<part>\nUser: {{tokens}}\n</part>"));
}

TEST_F(SummaryPromptTest, AFileStandsForIt) {
  const auto prompt = LoadText("Sum up {{part}} in {{tokens}} until {{kept_from}}. {a} }} {{");
  ASSERT_TRUE(prompt) << prompt.error().detail;
  EXPECT_THAT(prompt->name(), StartsWith("file@"));
  EXPECT_EQ(prompt->name().size(), 13u);
  EXPECT_THAT(prompt->Ask({.tokens_max = 7, .kept_from = "k", .part = {}}),
              testing::MatchesRegex("Sum up everything.* in 7 until k. \\{a\\} \\}\\} \\{\\{"));
}

TEST_F(SummaryPromptTest, AFileThatCannotBeUsedIsNamed) {
  for (const auto& [text, why] :
       {std::pair(" \n", "is empty"), std::pair("{{token}}", "token"), std::pair("", "is empty")}) {
    const auto refused = LoadText(text);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().detail, HasSubstr("sessions.summary_prompt: " + path));
    EXPECT_THAT(refused.error().detail, HasSubstr(why));
  }
  EXPECT_FALSE(SummaryPrompt::Load(path + ".missing"));
}

TEST_F(SummaryPromptTest, AWholeConversationHasWordsOfItsOwnUnlessTheCallerHas) {
  for (const char* blank : {"", " \n"}) {
    const SummaryPrompt prompt = SummaryPrompt::OfWhole(blank);
    EXPECT_EQ(prompt.name(), "compaction@1");
    const std::string ask = prompt.Ask({.tokens_max = 70});
    EXPECT_THAT(ask, HasSubstr("Summarise everything above"));
    EXPECT_THAT(ask, HasSubstr("at most 70 tokens"));
    EXPECT_THAT(ask, Not(HasSubstr("{{")));
  }
  const SummaryPrompt own = SummaryPrompt::OfWhole("Keep {{names}}.");
  EXPECT_EQ(own.name(), "caller");
  EXPECT_EQ(own.Ask({.tokens_max = 70}), "Keep {{names}}.");
  EXPECT_THAT(own.Ask({.tokens_max = 70, .part = "user: a\n"}),
              EndsWith("<part>\nuser: a\n</part>"));
}

}  // namespace
}  // namespace kvgate::session::summary
