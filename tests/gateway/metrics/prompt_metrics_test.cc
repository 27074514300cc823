#include "gateway/metrics/prompt_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::metrics {
namespace {

using testing::HasSubstr;

TEST(PromptMetricsTest, BothCausesAreThereFromTheStart) {
  Registry registry;
  PromptMetrics metrics(registry);
  EXPECT_THAT(registry.Text(), HasSubstr("kvgate_prefix_rewrites_total{cause=\"client\"} 0"));
  EXPECT_THAT(registry.Text(), HasSubstr("kvgate_prefix_rewrites_total{cause=\"gateway\"} 0"));
  metrics.prefix_rewrites.With({"client"}).Add();
  metrics.thinking_dropped.Add(3);
  EXPECT_THAT(registry.Text(), HasSubstr("kvgate_prefix_rewrites_total{cause=\"client\"} 1"));
  EXPECT_THAT(registry.Text(), HasSubstr("kvgate_thinking_dropped_total 3"));
}

}  // namespace
}  // namespace kvgate::metrics
