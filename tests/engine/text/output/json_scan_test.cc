#include "engine/text/output/json_scan.h"

#include <gtest/gtest.h>

namespace kvgate::output {
namespace {

TEST(JsonScanTest, AValueEndsWhereItEnds) {
  const auto scan = [](std::string_view text) {
    JsonScan value_scan;
    std::string value;
    for (const char byte : text) {
      const ScanStatus status = value_scan.Step(byte, value);
      if (status == ScanStatus::kFailed) return std::string("failed");
      if (status != ScanStatus::kMore) return value;
    }
    return value + "…";
  };
  EXPECT_EQ(scan(R"({"a":"}\"]"} more)"), R"({"a":"}\"]"})");
  EXPECT_EQ(scan(R"("x\\" more)"), R"("x\\")");
  EXPECT_EQ(scan("12.5, more"), "12.5");
  EXPECT_EQ(scan("null}"), "null");
  EXPECT_EQ(scan("[1, [2]]]"), "[1, [2]]");
  EXPECT_EQ(scan("{\"a\": ["), "{\"a\": […");
  EXPECT_EQ(scan("{]"), "failed");
  EXPECT_EQ(scan("?"), "failed");
  EXPECT_EQ(scan("\"a\x01\nb\""), "\"a\\u0001\\nb\"");
}

TEST(JsonScanTest, StringsAreDecodedAndEncoded) {
  EXPECT_EQ(DecodeJsonString(R"("a\"\\\/\n\u00e9\ud83c\udf26")"),
            "a\"\\/\n\xC3\xA9\xF0\x9F\x8C\xA6");
  EXPECT_EQ(DecodeJsonString(R"("\ud800x")"), "\xEF\xBF\xBDx");
  EXPECT_FALSE(DecodeJsonString("\"a"));
  EXPECT_FALSE(DecodeJsonString(R"("\x")"));
  EXPECT_FALSE(DecodeJsonString(R"("\")"));
  EXPECT_EQ(EncodeJsonString("a\"\\\n\x02"), R"("a\"\\\n\u0002")");
}

TEST(JsonScanTest, OnlyOneWholeValueIsJson) {
  for (const char* good :
       {"1", " -0.5e+3 ", "\"x\"", "[]", "{}", R"({"a":[1,{"b":null}]})", "true"}) {
    EXPECT_TRUE(IsJson(good)) << good;
  }
  for (const char* bad : {"", "01", "1 2", "'x'", "[1,]", "{a:1}", "{\"a\"}", "nul", "-", "1.",
                          "\"\n\"", "[", "\"\\"}) {
    EXPECT_FALSE(IsJson(bad)) << bad;
  }
}

}  // namespace
}  // namespace kvgate::output
