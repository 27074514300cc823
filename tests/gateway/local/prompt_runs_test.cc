#include "gateway/local/prompt_runs.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::local {
namespace {

using dialect::form::Message;
using dialect::form::PromptSegment;

Message Of(const std::string& role, int element) {
  Message message{.role = role};
  message.element = element;
  return message;
}

TEST(PromptRunsTest, TurnsUpToTheLastAnswerAreHistory) {
  const std::vector<std::string_view> sources =
      SourcesOf({Of("system", -1), Of("user", 0), Of("tool", 0), Of("assistant", 1), Of("tool", 2),
                 Of("user", 2)});
  EXPECT_EQ(sources, (std::vector<std::string_view>{"system", "history", "history", "history",
                                                    "tool_results", "user"}));
}

TEST(PromptRunsTest, ACutLiesBehindTheLastMessageOfItsElement) {
  const std::vector<Message> messages = {Of("system", -1), Of("user", 0), Of("tool", 2),
                                         Of("user", 2), Of("assistant", 3)};
  const std::vector<int32_t> cuts = {0, 2};
  EXPECT_FALSE(IsCut(messages, 0, cuts));
  EXPECT_TRUE(IsCut(messages, 1, cuts));
  EXPECT_FALSE(IsCut(messages, 2, cuts)) << "its element goes on";
  EXPECT_TRUE(IsCut(messages, 3, cuts));
  EXPECT_FALSE(IsCut(messages, 4, cuts)) << "nothing follows";
  EXPECT_FALSE(IsCut(messages, 1, {}));
}

std::vector<int64_t> Split(size_t begin, size_t end) {
  std::vector<PromptSegment> segments = {{.source = "system", .num_tokens = 50},
                                         {.source = "user", .num_tokens = 20, .last_element = 0}};
  SplitTools({.tools_begin = begin, .tools_end = end}, segments);
  std::vector<int64_t> tokens;
  for (const PromptSegment& segment : segments) {
    tokens.push_back(segment.source == dialect::form::kToolsSource ? -segment.num_tokens
                                                                   : segment.num_tokens);
  }
  return tokens;
}

TEST(PromptRunsTest, ToolsBecomeASegmentOfTheirOwn) {
  EXPECT_EQ(Split(10, 40), (std::vector<int64_t>{10, -30, 10, 20}));
  EXPECT_EQ(Split(0, 40), (std::vector<int64_t>{-40, 10, 20}));
  EXPECT_EQ(Split(10, 50), (std::vector<int64_t>{10, -40, 20}));
  EXPECT_EQ(Split(55, 60), (std::vector<int64_t>{50, 5, -5, 10}));
  EXPECT_EQ(Split(0, 0), (std::vector<int64_t>{50, 20})) << "there are none";
  EXPECT_EQ(Split(45, 55), (std::vector<int64_t>{50, 20})) << "they lie in two";
}

}  // namespace
}  // namespace kvgate::local
