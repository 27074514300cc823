#include "gateway/bench/gpu/requests.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/gateway/bench/gpu/tiny_engine.h"

namespace kvgate::bench::gpu {
namespace {

TEST(RequestsTest, RandomTokensAreOfTheVocabularyAndSeedsShareNothing) {
  std::set<std::vector<TokenId>> blocks;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<TokenId> tokens = RandomTokens(96, 1024, seed);
    EXPECT_EQ(tokens, RandomTokens(96, 1024, seed));
    for (size_t at = 0; at + 32 <= tokens.size(); ++at) {
      blocks.emplace(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                     tokens.begin() + static_cast<std::ptrdiff_t>(at) + 32);
    }
    for (const TokenId token : tokens) EXPECT_TRUE(token >= 0 && token < 1024);
  }
  EXPECT_EQ(blocks.size(), 50u * 65);
}

TEST(RequestsTest, EveryTokenOfAnAnswerHasItsTime) {
  const OpenedEngine opened = OpenTinyEngine();
  const auto answer =
      AskOne(*opened.engine, {.prompt = RandomTokens(64, 1024, 1), .max_tokens = 5});
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  EXPECT_EQ(answer->tokens.size(), 5u);
  EXPECT_EQ(answer->times.size(), 5u);
  EXPECT_TRUE(std::is_sorted(answer->times.begin(), answer->times.end()));
  EXPECT_EQ(answer->stats.num_prompt_tokens, 64);
}

TEST(RequestsTest, AnswersCarryTheAskersIdsAndOneSaltSharesWhatAnotherDoesNot) {
  const OpenedEngine opened = OpenTinyEngine();
  const std::vector<TokenId> prompt = RandomTokens(128, 1024, 2);
  ASSERT_TRUE(AskOne(*opened.engine, {.prompt = prompt, .salt = "a"}).has_value());
  Requests requests(*opened.engine);
  ASSERT_TRUE(requests.Submit(7, {.prompt = prompt, .salt = "a"}).has_value());
  ASSERT_TRUE(requests.Submit(8, {.prompt = prompt, .salt = "b"}).has_value());
  std::set<size_t> ids;
  while (requests.num_running() > 0) {
    const auto answer = requests.Next(Clock::now() + std::chrono::seconds(60));
    ASSERT_TRUE(answer.has_value());
    ids.insert(answer->id);
    EXPECT_EQ(answer->stats.num_cached_tokens > 0, answer->id == 7);
  }
  EXPECT_EQ(ids, (std::set<size_t>{7, 8}));
}

TEST(RequestsTest, WhatTakesTooLongIsCancelled) {
  const OpenedEngine opened = OpenTinyEngine();
  const auto answer = AskOne(
      *opened.engine, {.prompt = RandomTokens(64, 1024, 3), .max_tokens = 4000}, /*seconds_max=*/0);
  EXPECT_EQ(answer.error().code, ErrorCode::kDeadline);
  EXPECT_EQ(opened.engine->Stats().num_running, 0u);
}

TEST(RequestsTest, ARefusedPromptIsAnError) {
  const OpenedEngine opened = OpenTinyEngine();
  EXPECT_EQ(AskOne(*opened.engine, {.prompt = {}}).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvgate::bench::gpu
