#include "gateway/ledger/totals_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvgate::ledger {
namespace {

using ::testing::HasSubstr;

TEST(TotalsMetricsTest, TokensDollarsAndBreaksAreShown) {
  RequestRecord record;
  record.upstream = "main";
  record.model = "claude";
  record.tenant = "t";
  record.prompt_name = "support";
  record.prompt_version = "3";
  record.status = 200;
  record.usage = reply::TokenUsage{.uncached_tokens = 3, .cache_write_tokens = 12304};
  record.cost.emplace();
  record.cost->nanodollars = 54'399'000;
  record.cost->uncached_nanodollars = 60'000'000;
  record.cost->direct_nanodollars = 57'000'000;
  record.attribution = {{.source = "user", .written = 12304, .uncached = 3}};
  record.prefix_break.emplace();
  record.prefix_break->cause = "tool_added";
  record.prefix_break->lost_tokens = 40;
  Totals totals;
  totals.Add(record);
  metrics::Registry registry;
  registry.AddCollector([&](metrics::TextWriter& writer) { WriteTotalsMetrics(totals, writer); });
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("kvgate_ledger_prompt_requests_total{prompt=\"support@3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_ledger_upstream_requests_total{upstream=\"main\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_ledger_upstream_tokens_total{upstream=\"main\","
                              "kind=\"cache_write\"} 12304\n"));
  EXPECT_THAT(text,
              HasSubstr("kvgate_ledger_model_cost_dollars_total{model=\"claude\"} 0.054399\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_ledger_source_tokens_total{source=\"user\","
                              "kind=\"cache_write\"} 12304\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_prefix_break_total{cause=\"tool_added\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_break_tokens_total{cause=\"tool_added\"} 40\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_cost_usd_total{kind=\"actual\"} 0.054399\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_cost_usd_total{kind=\"counterfactual\"} 0.06\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_cost_usd_total{kind=\"direct\"} 0.057\n"));
}

}  // namespace
}  // namespace kvgate::ledger
