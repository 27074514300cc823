#include "gateway/session/truncation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvgate::session {
namespace {

using dialect::form::CompletionRequest;
using dialect::form::Message;

int64_t BytesOf(const CompletionRequest& request) {
  int64_t bytes = 0;
  for (const Message& message : std::get<std::vector<Message>>(request.prompt)) {
    bytes += static_cast<int64_t>(message.content.size()) + 10;
  }
  return bytes;
}

TruncateArgs ArgsOf(int64_t tokens_max) {
  return {
      .tokens_max = tokens_max,
      .tokens = [](const Message& message) { return static_cast<int64_t>(message.content.size()); },
      .count = [](const CompletionRequest& request) -> Result<int64_t> {
        return BytesOf(request);
      }};
}

CompletionRequest RequestOf(std::vector<Message> messages) {
  CompletionRequest request;
  request.prompt = std::move(messages);
  return request;
}

std::vector<std::string> TextsOf(const CompletionRequest& request) {
  std::vector<std::string> texts;
  for (const Message& message : std::get<std::vector<Message>>(request.prompt)) {
    texts.push_back(message.role + ":" + message.content.substr(0, 4));
  }
  return texts;
}

Message Say(std::string role, const std::string& name, size_t bytes = 100) {
  Message message;
  message.role = std::move(role);
  message.content = name + std::string(bytes - name.size(), '.');
  return message;
}

TEST(TruncationTest, TheOldestTurnsGoAndTheSystemStays) {
  CompletionRequest request =
      RequestOf({Say("system", "sys"), Say("user", "u1"), Say("assistant", "a1"), Say("user", "u2"),
                 Say("assistant", "a2"), Say("user", "u3")});
  const auto truncated = Truncate(ArgsOf(500), request);
  ASSERT_TRUE(truncated);
  ASSERT_TRUE(*truncated);
  EXPECT_EQ((*truncated)->before, 660);
  EXPECT_LE((*truncated)->after, 500);
  const std::vector<std::string> texts = TextsOf(request);
  EXPECT_EQ(texts.front(), "system:sys.");
  EXPECT_EQ(texts.back(), "user:u3..");
  EXPECT_EQ(texts[1].substr(0, 5), "user:");
}

TEST(TruncationTest, CallsAndResultsGoTogetherAndTheirUserStays) {
  std::vector<Message> messages = {Say("user", "u1")};
  for (int i = 0; i < 12; ++i) {
    messages.push_back(Say("assistant", "a" + std::to_string(i)));
    messages.push_back(Say("tool", "x" + std::to_string(i)));
    messages.push_back(Say("tool", "y" + std::to_string(i)));
  }
  CompletionRequest request = RequestOf(messages);
  const auto truncated = Truncate(ArgsOf(2000), request);
  ASSERT_TRUE(truncated && *truncated);
  EXPECT_LE((*truncated)->after, 2000);
  const std::vector<std::string> texts = TextsOf(request);
  ASSERT_GT(texts.size(), 4u);
  EXPECT_EQ(texts[0], "user:u1..");
  for (size_t i = 1; i < texts.size(); i += 3) {
    EXPECT_EQ(texts[i].substr(0, 11), "assistant:a");
    const std::string number = texts[i].substr(11, 1);
    EXPECT_EQ(texts[i + 1].substr(0, 6), "tool:x");
    EXPECT_EQ(texts[i + 1].substr(6, 1), number);
    EXPECT_EQ(texts[i + 2].substr(0, 6), "tool:y");
  }
}

TEST(TruncationTest, WhatGrowsKeepsItsBeginningMostly) {
  std::vector<Message> messages = {Say("system", "sys", 300)};
  std::vector<std::string> last;
  int num_changed = 0;
  int num_truncated = 0;
  for (int turn = 0; turn < 100; ++turn) {
    const std::string name = std::to_string(turn);
    messages.push_back(Say("user", "u" + name, 40));
    CompletionRequest request = RequestOf(messages);
    if (BytesOf(request) > 3000) {
      const auto truncated = Truncate(ArgsOf(3000), request);
      ASSERT_TRUE(truncated && *truncated) << turn;
      ++num_truncated;
    }
    std::vector<std::string> texts = TextsOf(request);
    const size_t common = std::min(last.size(), texts.size());
    num_changed +=
        std::equal(last.begin(), last.begin() + static_cast<std::ptrdiff_t>(common), texts.begin())
            ? 0
            : 1;
    last = std::move(texts);
    messages.push_back(Say("assistant", "a" + name, 60));
  }
  EXPECT_GT(num_truncated, 60);
  EXPECT_LE(num_changed, 10);
}

TEST(TruncationTest, WhatDoesNotFitByItselfIsLeftAsItIs) {
  CompletionRequest request = RequestOf({Say("user", "u1"), Say("user", "long", 5000)});
  const auto before = TextsOf(request);
  const auto truncated = Truncate(ArgsOf(500), request);
  ASSERT_TRUE(truncated);
  EXPECT_FALSE(*truncated);
  EXPECT_EQ(TextsOf(request), before);
  CompletionRequest one = RequestOf({Say("user", "long", 5000)});
  const auto refused = Truncate(ArgsOf(500), one);
  ASSERT_TRUE(refused);
  EXPECT_FALSE(*refused);
}

}  // namespace
}  // namespace kvgate::session
