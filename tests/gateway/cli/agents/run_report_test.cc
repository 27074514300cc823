#include "gateway/cli/agents/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::cli::agents {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::json;

Json Record(const char* cause, int64_t lost) {
  return {{"status", 200},
          {"outcome", "complete"},
          {"upstream", "anthropic"},
          {"usage", {{"input_tokens", 1000}, {"cache_read_tokens", 750}, {"output_tokens", 20}}},
          {"cost", {{"nanodollars", 2'000'000}, {"uncached_nanodollars", 5'000'000}}},
          {"break", {{"cause", cause}, {"lost_tokens", lost}, {"lost_nanodollars", 1'000'000}}}};
}

TEST(RunReportTest, SumsUpWhatTheRequestsUsedCostAndLost) {
  RunReport report;
  report.Add(Record("none", 0));
  report.Add(Record("first_seen", 0));
  report.Add(Record("tools_changed", 100));
  report.Add(Record("expired", 4000));
  EXPECT_THAT(report.Lines(),
              ElementsAre("4 requests, 4.00K tokens in (75.0 % cached), 80 out",
                          "cost $0.008000, without a cache $0.020000",
                          "the cached prefix broke 1 time: expired, 4.00K tokens lost, $0.001000",
                          "the cached prefix broke 1 time: tools_changed, 100 tokens lost, "
                          "$0.001000"));
}

TEST(RunReportTest, WhatIsNotKnownIsSaid) {
  RunReport report;
  Json record = Record("none", 0);
  record["cost"] = nullptr;
  report.Add(record);
  record["upstream"] = "local";  // costs nothing
  report.Add(record);
  report.Add({{"status", 429}, {"outcome", "complete"}, {"usage", nullptr}});
  report.Add({{"status", 200}, {"outcome", "complete"}, {"usage", nullptr}});
  EXPECT_THAT(report.Lines(),
              ElementsAre("4 requests, 2.00K tokens in (75.0 % cached), 40 out; 1 failed; usage "
                          "unknown of 1",
                          "no price is known for 1 request"));
  EXPECT_THAT(RunReport().Lines(), ElementsAre("no request came through kvgate"));
}

}  // namespace
}  // namespace kvgate::cli::agents
