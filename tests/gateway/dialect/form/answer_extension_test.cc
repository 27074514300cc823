#include "gateway/dialect/form/answer_extension.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvgate::dialect::form {
namespace {

// Feeds an answer in pieces of one size and returns the output.
std::string Extended(std::string_view answer, bool events, size_t piece_bytes) {
  AnswerExtension extension(events);
  std::string out;
  for (size_t at = 0; at < answer.size(); at += piece_bytes) {
    out += extension.Feed(answer.substr(at, piece_bytes));
  }
  return out + extension.Finish("kvgate", R"({"n":1})");
}

void Expect(std::string_view answer, bool events, std::string_view expected) {
  for (size_t piece = 1; piece <= answer.size(); ++piece) {
    ASSERT_EQ(Extended(answer, events, piece), expected) << piece << " bytes at a time";
  }
}

TEST(AnswerExtensionTest, ABodyGetsAMemberBehindItsOwn) {
  Expect(R"({"a":{"b":"}"},"c":[{}]})", false, R"({"a":{"b":"}"},"c":[{}],"kvgate":{"n":1}})");
  Expect("{ \"a\": 1\n}\r\n", false, "{ \"a\": 1\n,\"kvgate\":{\"n\":1}}\r\n");
  Expect("{}", false, R"({"kvgate":{"n":1}})");
  Expect(" { } ", false, R"( { "kvgate":{"n":1}} )");
}

TEST(AnswerExtensionTest, WhatIsNoObjectStaysAsItIs) {
  Expect("[1,2]", false, "[1,2]");
  Expect("data: [DONE]\n\n", true, "data: [DONE]\n\n");
  Expect(": comment\n\n", true, ": comment\n\n");
}

TEST(AnswerExtensionTest, TheLastEventWithAnObjectGetsTheMember) {
  Expect("data: {\"a\":1}\n\ndata: {\"b\":\"}\"}\n\ndata: [DONE]\n\n", true,
         "data: {\"a\":1}\n\ndata: {\"b\":\"}\",\"kvgate\":{\"n\":1}}\n\ndata: [DONE]\n\n");
  Expect("event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n", true,
         "event: message_stop\r\ndata: {\"type\":\"message_stop\",\"kvgate\":{\"n\":1}}\r\n\r\n");
  Expect("event: a\ndata: {}\n\n", true, "event: a\ndata: {\"kvgate\":{\"n\":1}}\n\n");
}

TEST(AnswerExtensionTest, NoMoreThanOneEventIsHeldBack) {
  AnswerExtension extension(true);
  EXPECT_EQ(extension.Feed("data: {\"a\":1}\n\n"), "");
  EXPECT_EQ(extension.Feed("data: {\"a\":2}\n\n"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(extension.Feed("data: {\"a\":3}\n\n"), "data: {\"a\":2}\n\n");
}

TEST(AnswerExtensionTest, AStreamThatWasCutIsPassedOnAsFarAsItCame) {
  Expect("data: {\"a\":1}\n\ndata: {\"b\"", true,
         "data: {\"a\":1,\"kvgate\":{\"n\":1}}\n\ndata: {\"b\"");
}

}  // namespace
}  // namespace kvgate::dialect::form
