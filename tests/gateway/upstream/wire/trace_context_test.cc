#include "gateway/upstream/wire/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::upstream::wire {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kSpan = "00f067aa0ba902b7";
const std::string kStart = "00-" + kTrace + "-" + kSpan;
const std::string kRequestId = "0123456789abcdef01234567";

TEST(TraceContextTest, AValidTraceparentIsReadByItsFourFields) {
  const struct {
    std::string value;
    uint8_t flags;
  } kCases[] = {
      {kStart + "-00", 0},
      {kStart + "-01", 1},
      {kStart + "-02", 2},
      {kStart + "-03", 3},
      // Flags that nobody knows are dropped.
      {kStart + "-ff", 3},
      {kStart + "-f8", 0},
      {kStart + "-0a", 2},
      // Later versions, with and without more fields.
      {"01" + kStart.substr(2) + "-01", 1},
      {"fe" + kStart.substr(2) + "-01", 1},
      {"cc" + kStart.substr(2) + "-00-", 0},
      {"cc" + kStart.substr(2) + "-01-what-the-future-will-be-like", 1},
  };
  for (const auto& [value, flags] : kCases) {
    const TraceContext expected = {.trace_id = kTrace, .span_id = kSpan, .flags = flags};
    ASSERT_TRUE(ParseTraceparent(value)) << value;
    EXPECT_EQ(*ParseTraceparent(value), expected) << value;
    EXPECT_EQ(ParseTraceparent(value)->is_sampled(), (flags & 1) != 0) << value;
  }
}

TEST(TraceContextTest, AnInvalidTraceparentIsNone) {
  const std::string kCases[] = {
      "",
      "-",
      "00",
      "00-",
      "garbage",
      kStart,
      kStart + "-",
      kStart + "-0",
      kStart + "-1",
      kStart + "-0x",
      kStart + "-0A",
      kStart + "-.0",
      // Version 00 ends there.
      kStart + "-01-",
      kStart + "-01-more",
      kStart + "-01.",
      kStart + "-010",
      kStart + "-01 ",
      " " + kStart + "-01",
      // What follows in a later version follows a hyphen.
      "cc" + kStart.substr(2) + "-01.more",
      "cc" + kStart.substr(2) + "-012",
      "cc" + kStart.substr(2),
      "ff" + kStart.substr(2) + "-01",
      "ff" + kStart.substr(2) + "-01-more",
      "FE" + kStart.substr(2) + "-01",
      "0" + kStart.substr(2) + "-01",
      "000" + kStart.substr(2) + "-01",
      "x0" + kStart.substr(2) + "-01",
      "00-" + std::string(32, '0') + "-" + kSpan + "-01",
      "00-" + kTrace + "-" + std::string(16, '0') + "-01",
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + kSpan + "-01",
      "00-" + kTrace + "-00F067AA0BA902B7-01",
      "00-" + kTrace.substr(1) + "-" + kSpan + "-01",
      "00-" + kTrace + "0-" + kSpan + "-01",
      "00-" + kTrace + "-" + kSpan.substr(1) + "-01",
      "00-" + kTrace + "-" + kSpan + "0-01",
      "00-" + kTrace.substr(1) + "g-" + kSpan + "-01",
      "00_" + kTrace + "_" + kSpan + "_01",
      kStart + "-01," + kStart + "-01",
      kStart + std::string("-0\0", 3),
  };
  for (const std::string& value : kCases) EXPECT_FALSE(ParseTraceparent(value)) << value;
  // Nor is any beginning of a valid one.
  const std::string whole = kStart + "-01";
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_FALSE(ParseTraceparent(whole.substr(0, i))) << i;
}

TEST(TraceContextTest, ACallerHasOneTraceparent) {
  const std::string value = kStart + "-01";
  EXPECT_FALSE(TraceOfCaller({}));
  EXPECT_FALSE(TraceOfCaller({{"tracestate", "a=b"}, {"x-traceparent", value}}));
  EXPECT_EQ(TraceOfCaller({{"a", "b"}, {"TraceParent", value}})->span_id, kSpan);
  EXPECT_FALSE(TraceOfCaller({{"traceparent", value}, {"Traceparent", value}}));
  EXPECT_FALSE(TraceOfCaller({{"traceparent", "garbage"}}));
}

TEST(TraceContextTest, TheOwnSpanIsInTheCallersTraceOrBeginsOne) {
  const TraceContext alone = OwnTrace(kRequestId, std::nullopt);
  EXPECT_EQ(TraceparentOf(alone), "00-00000000" + kRequestId + "-89abcdef01234567-01");
  EXPECT_EQ(ParseTraceparent(TraceparentOf(alone)), alone);
  for (const uint8_t flags : {0, 1, 2, 3}) {
    const TraceContext caller = {.trace_id = kTrace, .span_id = kSpan, .flags = flags};
    const TraceContext own = OwnTrace(kRequestId, caller);
    EXPECT_EQ(own.trace_id, kTrace);
    EXPECT_EQ(own.span_id, alone.span_id);
    EXPECT_EQ(own.flags, flags);
    EXPECT_EQ(TraceparentOf(own),
              "00-" + kTrace + "-89abcdef01234567-0" + std::to_string(int{flags}));
  }
  EXPECT_EQ(OwnTrace("7", std::nullopt).trace_id, std::string(31, '0') + "7");
}

}  // namespace
}  // namespace kvgate::upstream::wire
