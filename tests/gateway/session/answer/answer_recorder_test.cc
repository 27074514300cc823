#include "gateway/session/answer/answer_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvgate::session::answer {
namespace {

const std::string kFirst =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hi\"},"
    "\"finish_reason\":null}]}\n\n";
const std::string kPing = ": ping\n\n";
const std::string kEnd =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kDone = "data: [DONE]\n\n";

TEST(AnswerRecorderTest, TheEndIsHeldHoweverTheStreamIsCut) {
  const std::string all = kFirst + kPing + kEnd + kDone;
  for (size_t size = 1; size <= all.size(); ++size) {
    AnswerRecorder recorder(Dialect::kChatCompletions);
    std::string out;
    for (size_t at = 0; at < all.size(); at += size) {
      recorder.Feed(std::string_view(all).substr(at, size), out);
    }
    ASSERT_EQ(out, kFirst + kPing) << size;
    ASSERT_TRUE(recorder.is_complete()) << size;
    EXPECT_EQ(recorder.Take().messages.size(), 1u);
    ASSERT_EQ(out + recorder.Release(), all) << size;
  }
}

TEST(AnswerRecorderTest, EveryLineBreakEndsAnEvent) {
  for (const std::string line : {"\n", "\r\n", "\r"}) {
    std::string all = kFirst + kEnd + kDone;
    std::string changed;
    for (const char c : all) changed += c == '\n' ? line : std::string(1, c);
    AnswerRecorder recorder(Dialect::kChatCompletions);
    std::string out;
    for (const char c : changed) recorder.Feed(std::string_view(&c, 1), out);
    recorder.Finish();
    EXPECT_TRUE(recorder.is_complete());
    EXPECT_EQ(out + recorder.Release(), changed);
  }
}

TEST(AnswerRecorderTest, AStreamWithoutAnEndPassesOnAndIsNoAnswer) {
  AnswerRecorder recorder(Dialect::kChatCompletions);
  const std::string piece(size_t{1} << 20, 'x');
  std::string out;
  size_t num_fed = 0;
  for (; num_fed <= kAnswerBytesMax; num_fed += piece.size()) recorder.Feed(piece, out);
  EXPECT_EQ(out.size(), num_fed) << "it holds nothing back any more";
  recorder.Feed("\n\n" + kFirst + kEnd + kDone, out);
  recorder.Finish();
  EXPECT_FALSE(recorder.is_complete());
  EXPECT_TRUE(out.ends_with(kDone));
}

TEST(AnswerRecorderTest, AStreamMayEndWithoutItsLastMark) {
  AnswerRecorder recorder(Dialect::kChatCompletions);
  std::string out;
  recorder.Feed(kFirst + kEnd.substr(0, kEnd.size() - 2), out);
  EXPECT_EQ(out, kFirst);
  EXPECT_FALSE(recorder.is_complete());
  recorder.Finish();
  EXPECT_TRUE(recorder.is_complete());
  EXPECT_EQ(out + recorder.Release(), kFirst + kEnd.substr(0, kEnd.size() - 2));
}

TEST(AnswerRecorderTest, AStreamThatIsCutIsNoAnswerAndStillPasses) {
  AnswerRecorder recorder(Dialect::kChatCompletions);
  std::string out;
  recorder.Feed(kFirst + "data: {\"cho", out);
  recorder.Finish();
  EXPECT_FALSE(recorder.is_complete());
  EXPECT_EQ(out + recorder.Release(), kFirst + "data: {\"cho");
}

TEST(AnswerRecorderTest, WhatFollowsTheEndPassesUnread) {
  AnswerRecorder recorder(Dialect::kChatCompletions);
  std::string out;
  recorder.Feed(kFirst + kEnd + kDone, out);
  out += recorder.Release();
  recorder.Feed("more", out);
  EXPECT_EQ(out, kFirst + kEnd + kDone + "more");
}

TEST(AnswerRecorderTest, BodiesAreReadWhole) {
  AnswerRecorder recorder(Dialect::kMessages);
  recorder.TakeBody(R"({"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"})");
  EXPECT_TRUE(recorder.is_complete());
  AnswerRecorder other(Dialect::kMessages);
  other.TakeBody("{}");
  EXPECT_FALSE(other.is_complete());
}

}  // namespace
}  // namespace kvgate::session::answer
