#include "gateway/prompt/parse/canonical.h"

#include <gtest/gtest.h>

namespace kvgate::prompt::parse {
namespace {

Identity Same(std::string_view json, Content content = Content::kText) {
  const auto facts = ReadCanonical(json, content);
  EXPECT_TRUE(facts.has_value()) << json;
  return facts ? facts->same : Identity{};
}

TEST(Canonical, EqualValuesAreTheSame) {
  EXPECT_EQ(Same(R"({"a":1,"b":[true,null]})"), Same(R"( { "b" : [ true , null ], "a" : 1 } )"));
  EXPECT_EQ(Same(R"("a\u0062\n\/")"), Same(R"("ab\u000a/")"));
  EXPECT_EQ(Same(R"("\ud83d\ude00")"), Same("\"\xF0\x9F\x98\x80\""));
}

TEST(Canonical, NumbersHaveOneSpelling) {
  EXPECT_EQ(Same("1.0"), Same("1"));
  EXPECT_EQ(Same("1e2"), Same("100"));
  EXPECT_EQ(Same("0.10E+1"), Same("1"));
  EXPECT_EQ(Same("0.0"), Same("0"));
  EXPECT_NE(Same("1"), Same("10"));
  EXPECT_NE(Same("0.1"), Same("0.01"));
  EXPECT_NE(Same("1"), Same("\"1\""));
}

TEST(Canonical, IntegersAreExactBeyondDoubles) {
  EXPECT_NE(Same("9007199254740993"), Same("9007199254740992"));
  EXPECT_NE(Same("18446744073709551615"), Same("18446744073709551616"));
  EXPECT_EQ(Same("9007199254740993.0"), Same("9007199254740993"));
  EXPECT_NE(Same("1e99999999999999999999"), Same("1e99999999999999999998"));
}

TEST(Canonical, DifferentValuesDiffer) {
  EXPECT_NE(Same(R"({"a":1})"), Same(R"({"a":2})"));
  EXPECT_NE(Same(R"(["ab"])"), Same(R"(["a","b"])"));
  EXPECT_NE(Same(R"({"a":{"b":1}})"), Same(R"({"a":{},"b":1})"));
  EXPECT_NE(Same(R"({"a":1,"a":2})"), Same(R"({"a":2,"a":1})"));
}

TEST(Canonical, NewlinesAreFoldedWhereTextIsRead) {
  EXPECT_EQ(Same(R"("a\r\nb")"), Same(R"("a\nb")"));
  EXPECT_NE(Same(R"("a\rb")"), Same(R"("a\nb")"));
  EXPECT_NE(Same(R"("a\r\nb")", Content::kThinking), Same(R"("a\nb")", Content::kThinking));
}

TEST(Canonical, ArgumentsOfCallsAreReadAsJson) {
  EXPECT_EQ(Same(R"({"arguments":"{\"a\":1,\"b\":2}"})", Content::kToolCall),
            Same(R"({"arguments":"{ \"b\": 2, \"a\": 1.0 }"})", Content::kToolCall));
  EXPECT_NE(Same(R"({"arguments":"{\"a\":1}"})", Content::kToolCall),
            Same(R"({"arguments":{"a":1}})", Content::kToolCall));
  EXPECT_NE(Same(R"({"arguments":"{\"a\":1"})", Content::kToolCall),
            Same(R"({"arguments":"{\"a\": 1"})", Content::kToolCall));
  EXPECT_NE(Same(R"({"arguments":"{\"a\":1,\"b\":2}"})"),
            Same(R"({"arguments":"{\"b\":2,\"a\":1}"})"));
}

TEST(Canonical, StableLeavesVolatileTextOutButNotIds) {
  const auto stable = [](std::string_view json) {
    return ReadCanonical(json, Content::kToolResult)->stable;
  };
  EXPECT_EQ(stable(R"({"content":"at 10:31:07"})"), stable(R"({"content":"at 10:31:08"})"));
  EXPECT_NE(Same(R"({"content":"at 10:31:07"})"), Same(R"({"content":"at 10:31:08"})"));
  EXPECT_NE(stable(R"({"tool_use_id":"deadbeef01234567"})"),
            stable(R"({"tool_use_id":"deadbeef01234568"})"));
}

TEST(Canonical, VolatileIsATextOfNothingElse) {
  EXPECT_TRUE(ReadCanonical(R"({"text":"<system-reminder>a</system-reminder>\n"})", Content::kText)
                  ->is_volatile);
  EXPECT_FALSE(
      ReadCanonical(R"({"text":"do <system-reminder>a</system-reminder>"})", Content::kText)
          ->is_volatile);
  EXPECT_TRUE(ReadCanonical(R"({"text":" "})", Content::kText)->is_volatile);
}

TEST(Canonical, WhatIsNoJsonIsRefused) {
  for (const std::string_view json :
       {"", "{", "[1,]", "{\"a\"}", "tru", "01", "1.", "+1", "\"\\x\"", "\"\n\"", "1 2", "[1}",
        "nul", "{\"a\":}", "\"\\u12g4\"", "-", "{1:2}", "[,]"}) {
    EXPECT_FALSE(ReadCanonical(json, Content::kText).has_value()) << json;
  }
  EXPECT_FALSE(ReadCanonical(std::string(5000, '['), Content::kText).has_value());
  const std::string deep = std::string(kDepthMax + 2, '[') + std::string(kDepthMax + 2, ']');
  EXPECT_FALSE(ReadCanonical(deep, Content::kText).has_value());
}

}  // namespace
}  // namespace kvgate::prompt::parse
