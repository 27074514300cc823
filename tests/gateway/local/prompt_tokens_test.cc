#include "gateway/local/prompt_tokens.h"

#include <gtest/gtest.h>

#include "gateway/dialect/form/errors.h"
#include "tests/gateway/fakes.h"

namespace kvgate::local {
namespace {

TEST(PromptTokensTest, AQuarterIsLeftForTheAnswerUnlessLessIsWanted) {
  EXPECT_EQ(RoomForPrompt({.prompt_tokens_max = 8000, .wanted = 8000}), 6000);
  EXPECT_EQ(RoomForPrompt({.prompt_tokens_max = 8000, .wanted = 100}), 7900);
  EXPECT_EQ(RoomForPrompt({.prompt_tokens_max = 8000, .wanted = 100'000}), 6000);
  EXPECT_EQ(RoomForPrompt({.prompt_tokens_max = 8000, .caller_tokens_max = 400, .wanted = 100}),
            300);
}

TEST(PromptTokensTest, WhatIsWantedIsTheRequestsWithinItsKeysLimit) {
  dialect::form::CompletionRequest request;
  EXPECT_EQ(WantedTokens(request, {}, 500), 500);
  EXPECT_EQ(WantedTokens(request, {.fallback = 70, .most = 90}, 500), 70);
  EXPECT_EQ(WantedTokens(request, {.most = 90}, 500), 90);
  request.max_tokens = 40;
  EXPECT_EQ(WantedTokens(request, {.fallback = 70, .most = 90}, 500), 40);
  request.max_tokens = 400;
  EXPECT_EQ(WantedTokens(request, {.fallback = 70, .most = 90}, 500), 90);
}

TEST(PromptTokensTest, APromptAboveItsCallersLimitIsRefused) {
  using dialect::form::Dialect;
  EXPECT_TRUE(CheckPromptTokens(1'000'000, 0, Dialect::kResponses));
  EXPECT_TRUE(CheckPromptTokens(100, 100, Dialect::kResponses));
  const auto refused = CheckPromptTokens(101, 100, Dialect::kResponses);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().source, dialect::form::kContextLengthSource);
}

TEST(PromptTokensTest, AllThatAMessageSaysCounts) {
  test::FakeTokenizer tokenizer;
  dialect::form::Message message;
  const int64_t empty = MessageTokens(tokenizer, message);
  message.content = "text";
  const int64_t text = MessageTokens(tokenizer, message);
  message.reasoning = "why";
  const int64_t reasoned = MessageTokens(tokenizer, message);
  message.tool_calls = {{.id = "c", .name = "read", .arguments = "{}"}};
  EXPECT_GT(text, empty);
  EXPECT_GT(reasoned, text);
  EXPECT_GT(MessageTokens(tokenizer, message), reasoned);
}

}  // namespace
}  // namespace kvgate::local
