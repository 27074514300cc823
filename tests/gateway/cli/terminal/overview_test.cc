#include "gateway/cli/terminal/overview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvgate::cli::terminal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr int64_t kNowUs = int64_t{1'700'000'000} * 1'000'000;

std::string Page(const Overview& overview, ScreenSize size = {.columns = 100, .rows = 30}) {
  std::string text;
  const std::vector<std::string> lines = overview.Lines(size, false, kNowUs);
  EXPECT_LE(lines.size(), size.rows);
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Json StatsEvent() {
  return Json::parse(R"({"requests_running": 3, "requests_waiting": 1, "connections": 12,
    "minute": {"requests": 9, "failed": 1, "cached_tokens": 900, "written_tokens": 50,
               "uncached_tokens": 50, "output_tokens": 77, "nanodollars": 2000000},
    "tiers": [{"tier": "device", "used_bytes": 512, "capacity_bytes": 1024},
              {"tier": "disk", "used_bytes": 0, "capacity_bytes": 0}]})");
}

TEST(OverviewTest, AnEmptyServerSaysThatNothingHasHappened) {
  const std::string page = Page(Overview("http://127.0.0.1:1"));
  EXPECT_THAT(page, HasSubstr("http://127.0.0.1:1"));
  EXPECT_THAT(page, HasSubstr("no request has ended"));
  EXPECT_THAT(page, HasSubstr("q ends"));
}

TEST(OverviewTest, TheLastMinuteAndAllTimeStandBesideEachOther) {
  Overview overview("s");
  overview.TakeStats(Json::parse(R"({"ledger": {"totals": {"cache_read_tokens": 3,
    "cache_write_tokens": 0, "uncached_tokens": 1, "nanodollars": 1000000000}}})"));
  overview.TakeEvent("stats", StatsEvent());
  const std::string page = Page(overview);
  EXPECT_THAT(page, HasSubstr("3 running, 1 waiting"));
  EXPECT_THAT(page, HasSubstr("last minute  90.0 %  █"));
  EXPECT_THAT(page, HasSubstr("in all       75.0 %  3 of 4 tokens"));
  EXPECT_THAT(page, HasSubstr("device 512 B of 1.0 KiB (50.0 %)"));
  EXPECT_THAT(page, Not(HasSubstr("disk"))) << "there is none";
}

TEST(OverviewTest, ANumberThatIsNotToldIsNotShown) {
  Overview overview("s");
  overview.TakeEvent("stats", Json::parse(R"({"minute": {"requests": 9}})"));
  const std::string page = Page(overview);
  EXPECT_THAT(page, HasSubstr("9 requests"));
  EXPECT_THAT(page, Not(HasSubstr("running"))) << "a user does not see what others do";
}

TEST(OverviewTest, WarmCachesSayWhenTheyGoCold) {
  Overview overview("s");
  overview.TakeStats({{"ledger",
                       {{"clocks",
                         {{{"session", "s1"},
                           {"tokens", 24'000},
                           {"model", "m"},
                           {"expires_us", kNowUs + 240'000'000},
                           {"cold_nanodollars", 1'600'000'000}},
                          {{"conversation", "gone"}, {"expires_us", kNowUs - 1}}}}}}});
  const std::string page = Page(overview);
  EXPECT_THAT(page, HasSubstr("s1"));
  EXPECT_THAT(page, HasSubstr("24.0K"));
  EXPECT_THAT(page, HasSubstr("4 min    $1.600000"));
  EXPECT_THAT(page, Not(HasSubstr("gone")));
}

TEST(OverviewTest, TheNewestRequestsThatFitAreShown) {
  Overview overview("s");
  for (int i = 0; i < 300; ++i) {
    overview.TakeEvent("request", {{"model", "m" + std::to_string(i) + "."}});
  }
  overview.TakeEvent("dropped", {{"count", 5}});
  const std::string page = Page(overview);
  EXPECT_THAT(page, HasSubstr("m299."));
  EXPECT_THAT(page, Not(HasSubstr("m200.")));
  EXPECT_THAT(page, HasSubstr("5 requests came too fast"));
  for (const size_t rows : {size_t{1}, size_t{3}, size_t{10}}) {
    EXPECT_LE(overview.Lines({.columns = 40, .rows = rows}, true, kNowUs).size(),
              std::max<size_t>(rows, 11));
  }
}

TEST(OverviewTest, OddEventsAreLeftOut) {
  Overview overview("s");
  overview.TakeEvent("stats", Json::parse("[]"));
  overview.TakeEvent("request", Json());
  overview.TakeEvent("other", Json::object());
  overview.TakeEvent("stats", Json::parse(R"({"minute": 7, "tiers": {"a": 1}})"));
  EXPECT_THAT(Page(overview), HasSubstr("no request has ended"));
}

}  // namespace
}  // namespace kvgate::cli::terminal
