#include "gateway/prompt/diagnose/repetition.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/gateway/prompt/sent_request.h"

namespace kvgate::prompt::diagnose {

using history::SentRequest;

namespace {

using Json = nlohmann::ordered_json;

std::string Filler(char letter) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::string(3, letter) + " ";
  return text;
}

// Makes a request whose system prompt is `system` and whose turns are named by letters.
SentRequest With(const std::string& system, const std::string& turns) {
  Json body = {{"model", "m"}, {"system", system}, {"messages", Json::array()}};
  for (const char c : turns) {
    const char* role = body["messages"].size() % 2 == 0 ? "user" : "assistant";
    body["messages"].push_back({{"role", role}, {"content", Filler(c)}});
  }
  return SentAs(dialect::form::Endpoint::kMessages, body.dump());
}

double TokensOf(const SentRequest& request, size_t segment) {
  return request.segments[segment].num_tokens;
}

TEST(RepetitionTest, WhatBothRequestsHaveIsNeitherNewNorGoneWhateverItsPlace) {
  const SentRequest before = With(Filler('s'), "abcde");
  const SentRequest longer = With(Filler('s'), "abcdef");
  Repetition found = FindRepetition(before, longer, true);
  EXPECT_DOUBLE_EQ(found.new_tokens, TokensOf(longer, 6));
  EXPECT_DOUBLE_EQ(found.gone_tokens, 0);
  const SentRequest window = With(Filler('s'), "cdefg");
  found = FindRepetition(before, window, true);
  EXPECT_DOUBLE_EQ(found.new_tokens, TokensOf(window, 4) + TokensOf(window, 5));
  EXPECT_DOUBLE_EQ(found.gone_tokens, TokensOf(before, 1) + TokensOf(before, 2));
}

TEST(RepetitionTest, ATextThatIsSaidTwiceCountsTwice) {
  const SentRequest before = With(Filler('s'), "aba");
  const SentRequest now = With(Filler('s'), "abaab");
  const Repetition found = FindRepetition(before, now, true);
  EXPECT_DOUBLE_EQ(found.new_tokens, TokensOf(now, 4) + TokensOf(now, 5));
}

TEST(RepetitionTest, AnEditedTextCountsByTheShareThatDiffers) {
  const SentRequest before = With(Filler('s') + "ten o'clock" + Filler('t'), "a");
  const SentRequest now = With(Filler('s') + "half past ten" + Filler('t'), "a");
  const Repetition found = FindRepetition(before, now, true);
  EXPECT_GT(found.new_tokens, 0);
  EXPECT_LT(found.new_tokens, 0.05 * TokensOf(now, 0));
  EXPECT_GT(found.gone_tokens, 0);
  EXPECT_LT(found.gone_tokens, 0.05 * TokensOf(before, 0));
  const SentRequest other = With(Filler('x'), "a");
  EXPECT_DOUBLE_EQ(FindRepetition(before, other, true).new_tokens, TokensOf(other, 0));
}

TEST(RepetitionTest, OfAnotherConversationOnlyItsBeginningCounts) {
  const SentRequest before = With(Filler('s'), "rabc");
  const SentRequest now = With(Filler('s'), "rxbc");
  const Repetition found = FindRepetition(before, now, false);
  EXPECT_DOUBLE_EQ(found.new_tokens, TokensOf(now, 2) + TokensOf(now, 3) + TokensOf(now, 4));
  EXPECT_DOUBLE_EQ(found.gone_tokens,
                   TokensOf(before, 2) + TokensOf(before, 3) + TokensOf(before, 4));
}

TEST(RepetitionTest, BytesThatAreNotKeptAreComparedAsAWhole) {
  SentRequest before = With(Filler('s') + "one", "a");
  const SentRequest now = With(Filler('s') + "two", "a");
  history::SentSegments without;
  for (history::SentSegment segment : before.segments) {
    segment.bytes = nullptr;
    without.push_back(std::move(segment));
  }
  before.segments = std::move(without);
  EXPECT_DOUBLE_EQ(FindRepetition(before, now, true).new_tokens, TokensOf(now, 0));
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
