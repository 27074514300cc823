#include "gateway/cli/terminal/record_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvgate::cli::terminal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Json Record() {
  return Json::parse(R"({
    "id": "0123", "time_us": 1700000000000000, "model": "gpt-6-sol", "upstream": "openai",
    "status": 200, "outcome": "complete",
    "usage": {"input_tokens": 1000, "cache_read_tokens": 900, "output_tokens": 12},
    "cost": {"nanodollars": 1230000, "uncached_nanodollars": 9000000},
    "timings": {"ttft_us": 310000, "total_us": 2000000},
    "edits": [{"rule": "cache_control", "count": 2}],
    "attribution": {"tools": {"cached": 600, "written": 0, "uncached": 0, "nanodollars": 600},
                    "user": {"cached": 300, "written": 50, "uncached": 50, "nanodollars": 77}},
    "segments": [
      {"source": "tools", "name": "read", "server": "files", "cached": 200, "tokens": 200},
      {"source": "tools", "name": "write", "server": "files", "cached": 400, "tokens": 400},
      {"source": "user", "cached": 300, "written": 50, "uncached": 50, "tokens": 400}],
    "break": {"cause": "text_changed", "path": "messages[3]", "reusable_tokens": 950,
              "lost_tokens": 50, "lost_nanodollars": 5000, "verdict": "A line changed.",
              "before": "a", "after": "b"}})");
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(RecordTextTest, ALineSaysWhatWasCachedAndWhyNotMore) {
  const std::string line = RecordLine(Record(), {});
  EXPECT_THAT(line, HasSubstr("gpt-6-sol"));
  EXPECT_THAT(line, HasSubstr("1.00K  90.0 %     12  $0.001230   310 ms  ok"));
  EXPECT_THAT(line, HasSubstr("text_changed (-50)"));
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  EXPECT_THAT(RecordLine(Record(), {.is_styled = true}), HasSubstr("\x1b[33m"));
  Json record = Record();
  record["break"] = {{"cause", "first_seen"}, {"lost_tokens", 0}};
  EXPECT_THAT(RecordLine(record, {.is_styled = true}), HasSubstr("ok  first_seen"));
  EXPECT_THAT(RecordLine(record, {.is_styled = true}), Not(HasSubstr("\x1b")));
}

TEST(RecordTextTest, WhatARecordLacksIsADash) {
  const std::string line = RecordLine(
      Json::parse(R"({"status": 429, "outcome": "refused", "usage": null, "cost": null})"), {});
  EXPECT_THAT(line, HasSubstr("-       -      -          -        -  refused 429"));
  for (const char* odd : {"{}", "[]", "null", "7", R"({"usage": 3, "timings": [], "edits": {}})"}) {
    EXPECT_FALSE(RecordLine(Json::parse(odd), {}).empty()) << odd;
    EXPECT_FALSE(ContextLines(Json::parse(odd), {}).empty()) << odd;
  }
}

TEST(RecordTextTest, TheRibbonShowsSourcesAndStatesInTheirShares) {
  const std::vector<std::string> lines = ContextLines(Record(), {.columns = 42});
  std::vector<std::string> ribbon;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    if (lines[i].starts_with("█")) {
      ribbon = {lines[i], lines[i + 1]};
      break;
    }
  }
  std::string states;
  for (int i = 0; i < 36; ++i) states += "█";
  EXPECT_THAT(ribbon, ElementsAre(states + "▓▓░░", std::string(24, 'T') + std::string(16, 'U')));
}

TEST(RecordTextTest, ToolsStandUnderTheirSourceTheLargestFirst) {
  const std::string text = Joined(ContextLines(Record(), {}));
  EXPECT_THAT(text, HasSubstr("T tools"));
  EXPECT_LT(text.find("files: write"), text.find("files: read"));
  EXPECT_THAT(text, HasSubstr("600  60.0 %"));
  EXPECT_THAT(text, HasSubstr("$0.000001")) << "of the attribution, not of segments";
}

TEST(RecordTextTest, ABreakHasItsCausePathAndBothTexts) {
  const std::string text = Joined(ContextLines(Record(), {}));
  EXPECT_THAT(text, HasSubstr("text_changed at messages[3]"));
  EXPECT_THAT(text, HasSubstr("A line changed."));
  EXPECT_THAT(text, HasSubstr("  - a\n  + b\n"));
  EXPECT_THAT(text, HasSubstr("cache_control ×2"));
}

TEST(RecordTextTest, WithoutSegmentsTheSourcesMakeTheRibbon) {
  Json record = Record();
  record.erase("segments");
  record["estimated"] = true;
  const std::string text = Joined(ContextLines(record, {}));
  EXPECT_THAT(text, HasSubstr("U user"));
  EXPECT_THAT(text, HasSubstr("estimates"));
}

TEST(RecordTextTest, NamesOfOthersCannotMoveTheCursor) {
  Json record = Record();
  for (const char* field : {"model", "upstream", "id", "outcome"}) record[field] = "x\x1b[2Jy";
  record["break"]["before"] = "\x1b]0;title\x07";
  record["segments"][0]["name"] = "\r\x1b[A";
  for (const std::string& line : ContextLines(record, {})) {
    EXPECT_THAT(line, Not(HasSubstr("\x1b"))) << line;
    EXPECT_THAT(line, Not(HasSubstr("\r"))) << line;
  }
  EXPECT_THAT(RecordLine(record, {}), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace kvgate::cli::terminal
