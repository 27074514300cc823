#include "gateway/metrics/token_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TokenMetricsTest, EverySeriesIsThereFromTheStart) {
  Registry registry;
  const TokenMetrics metrics(registry);
  const std::string text = registry.Text();
  for (const std::string_view source : TokenMetrics::kSources) {
    for (const char* state : {"cached", "written", "uncached"}) {
      EXPECT_THAT(text, HasSubstr("kvgate_prompt_tokens_total{source=\"" + std::string(source) +
                                  "\",state=\"" + state + "\"} 0\n"));
    }
  }
  for (const char* tier : {"gpu", "ram", "disk", "shared", "upstream", "compute"}) {
    EXPECT_THAT(text, HasSubstr(std::string("kvgate_prompt_tokens_by_tier_total{tier=\"") + tier +
                                "\"} 0\n"));
  }
}

TEST(TokenMetricsTest, AnUnknownSourceIsTheUser) {
  Registry registry;
  TokenMetrics metrics(registry);
  metrics.AddPrompt("tools", TokenState::kWritten, 7);
  metrics.AddPrompt("a name that a client chose", TokenState::kCached, 5);
  metrics.AddPrompt("user", TokenState::kCached, -3);
  const std::string text = registry.Text();
  EXPECT_THAT(text,
              HasSubstr("kvgate_prompt_tokens_total{source=\"tools\",state=\"written\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_prompt_tokens_total{source=\"user\",state=\"cached\"} 5\n"));
  EXPECT_THAT(text, Not(HasSubstr("client chose")));
}

}  // namespace
}  // namespace kvgate::metrics
