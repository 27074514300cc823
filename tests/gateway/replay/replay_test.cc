#include "gateway/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/base/temp_folder.h"

namespace kvgate::replay {
namespace {

namespace fs = std::filesystem;
using prompt::Mode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ColumnTotals Totals(int64_t cached, int64_t uncached, int64_t nanodollars) {
  ColumnTotals totals;
  totals.num_requests = 1;
  totals.usage = {.uncached_tokens = uncached, .cache_read_tokens = cached};
  totals.nanodollars = nanodollars;
  return totals;
}

ReplayResult Result3(const ColumnTotals& mode) {
  return {.num_requests = 1,
          .columns = {{.name = "direct", .totals = {{"p", Totals(100, 900, 1000)}}},
                      {.name = "pin", .totals = {{"p", mode}}},
                      {.name = "oracle", .totals = {{"p", Totals(800, 200, 500)}}}}};
}

TEST(Misses, TellsEachBoundThatIsNotMet) {
  const ReplayResult result = Result3(Totals(400, 600, 1100));
  EXPECT_THAT(Misses(result, {}), IsEmpty());
  EXPECT_THAT(Misses(result, {.hit_rate_min = 0.4, .cost_ratio_max = 1.1, .oracle_ratio_min = 0.5}),
              IsEmpty());
  EXPECT_THAT(
      Misses(result, {.hit_rate_min = 0.41, .cost_ratio_max = 1.05, .oracle_ratio_min = 0.51}),
      ElementsAre(HasSubstr("hit rate 0.4"), HasSubstr("cost 1.1"), HasSubstr("0.5000")));
}

TEST(Misses, ACostThatIsNotKnownMeetsNoBound) {
  ColumnTotals totals = Totals(400, 600, 0);
  totals.num_unpriced = 1;
  EXPECT_THAT(Misses(Result3(totals), {.cost_ratio_max = 100}), ElementsAre(HasSubstr("cost -")));
}

TEST(ReplayText, ShowsRatiosAndBreaks) {
  ColumnTotals totals = Totals(400, 600, 1100);
  totals.breaks["tool_added"] = {.count = 2, .lost_tokens = 300, .lost_nanodollars = 4};
  const std::string text = ReplayText(Result3(totals));
  EXPECT_THAT(text, HasSubstr("1.100"));
  EXPECT_THAT(text, HasSubstr("0.500"));
  EXPECT_THAT(text, HasSubstr("tool_added"));
  EXPECT_THAT(ReplayJson(Result3(totals)), HasSubstr(R"("lost_tokens":300)"));
}

class RunReplayTest : public ::testing::Test {
 protected:
  ~RunReplayTest() override { fs::remove(file_); }

  void Write(std::vector<TraceRequest> requests) const {
    std::ofstream out(file_, std::ios::binary);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].time_us = static_cast<int64_t>(i) * 1'000'000;
      out << *ToTraceLine(requests[i]) << '\n';
    }
  }
  static TraceRequest Request(std::string body) {
    return {.tenant = "t",
            .conversation = "",
            .endpoint = dialect::form::Endpoint::kChatCompletions,
            .upstream = "u",
            .provider = "openai",
            .headers = {},
            .body = std::move(body),
            .usage = {}};
  }
  kvgate::Result<ReplayResult> Run(const ReplayOptions& options) const {
    return RunReplay(**TraceReader::Open(file_), options, {});
  }

  const TempFolder folder_;
  const fs::path file_ = folder_ / "trace.jsonl";
  const std::string body_ = R"({"model":"gpt-5.6-sol","messages":[{"role":"user","content":")" +
                            std::string(8000, 'a') + R"("}]})";
};

TEST_F(RunReplayTest, ComparesDirectModesAndOracle) {
  Write({Request(body_), Request(body_)});
  const auto result = Run({.columns = {}, .modes = {Mode::kObserve}, .model = ""});
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->columns.size(), 3u);
  EXPECT_EQ(result->columns[1].name, "observe");
  const ColumnTotals& direct = result->columns[0].totals.at("openai");
  EXPECT_EQ(direct.num_requests, 2);
  EXPECT_NEAR(direct.hit_rate(), 0.5, 0.01);
  EXPECT_EQ(result->columns[1].totals.at("openai").usage, direct.usage);
  EXPECT_NEAR(result->columns[2].totals.at("openai").hit_rate(), 0.5, 0.01);
}

TEST_F(RunReplayTest, WhatOnlyTeachesIsNotCounted) {
  Write({Request(body_), Request(body_)});
  const auto result = Run({.columns = {}, .modes = {}, .model = "", .num_warmup = 1});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->columns[0].totals.at("openai").num_requests, 1);
  EXPECT_GT(result->columns[0].totals.at("openai").hit_rate(), 0.9);
}

TEST_F(RunReplayTest, ProviderAndModelCanBeOthers) {
  Write({Request(body_)});
  std::string sent;
  const auto result =
      Run({.columns = {.provider = "xai", .sent = [&](const SentBody& body) { sent = body.body; }},
           .modes = {},
           .model = "grok-\"5\""});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->columns[0].totals.count("xai"), 1u);
  std::string wanted = body_;
  wanted.replace(wanted.find("gpt-5.6-sol"), 11, R"(grok-\"5\")");
  EXPECT_EQ(sent, wanted);
}

TEST_F(RunReplayTest, OtherEndpointsAreLeftOutAndTheOtherDialectIsAnError) {
  TraceRequest models = Request("{}");
  models.endpoint = dialect::form::Endpoint::kModels;
  Write({models, Request(body_)});
  const auto result = Run({.columns = {}, .modes = {}, .model = ""});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->num_skipped, 1u);
  EXPECT_EQ(result->num_requests, 1u);
  EXPECT_EQ(Run({.columns = {.provider = "anthropic"}, .modes = {}, .model = ""}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST_F(RunReplayTest, RefusedRequestsAreCounted) {
  Write({Request(R"({"model":"gpt-5.5","prompt_cache_options":{},"messages":[]})")});
  const auto result = Run({.columns = {}, .modes = {}, .model = ""});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->columns[0].totals.at("openai").num_refused, 1);
  EXPECT_THAT(ReplayText(*result), HasSubstr("1 refused: Unsupported parameter"));
}

TEST_F(RunReplayTest, ASubscriptionsBytesAreNeverChanged) {
  TraceRequest request = Request(body_);
  request.is_oauth = true;
  Write({request, request});
  int num_sent = 0;
  const auto result = Run({.columns = {.sent =
                                           [&](const SentBody& body) {
                                             ++num_sent;
                                             EXPECT_EQ(body.body, body_);
                                           }},
                           .modes = {Mode::kPin, Mode::kStabilize},
                           .model = ""});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(num_sent, 6);
}

}  // namespace
}  // namespace kvgate::replay
