#include "gateway/upstream/upstream_meter.h"

#include <gtest/gtest.h>

namespace kvgate::upstream {
namespace {

using namespace std::chrono_literals;

TEST(UpstreamMeterTest, RequestsUnderWayEndedAndFailedAreCounted) {
  UpstreamMeter meter;
  for (int i = 0; i < 6; ++i) meter.Begin();
  EXPECT_EQ(meter.numbers().active, 6);
  meter.End({.status = 200}, {});
  meter.End({.status = 429}, {});
  meter.End({.outcome = ExchangeOutcome::kUpstreamCut, .status = 200}, {});
  meter.End({.outcome = ExchangeOutcome::kClientLeft, .status = 499}, {});
  meter.End({.outcome = ExchangeOutcome::kFailed, .status = 502, .superseded = true}, {});
  const UpstreamMeter::Numbers numbers = meter.numbers();
  EXPECT_EQ(numbers.active, 1);
  EXPECT_EQ(numbers.requests, 4u);
  EXPECT_EQ(numbers.failed, 2u);
  EXPECT_FALSE(numbers.ttft);
}

TEST(UpstreamMeterTest, OnlyStreamsThatAreCompleteAreTimed) {
  const ExchangeEnd end{.status = 200, .first_body = 500ms, .ended = 1500ms};
  UpstreamMeter meter;
  meter.End(end, {});
  ExchangeEnd cut = end;
  cut.outcome = ExchangeOutcome::kUpstreamCut;
  meter.End(cut, 11);
  EXPECT_FALSE(meter.numbers().ttft);
  meter.End(end, 1);
  EXPECT_FALSE(meter.numbers().tpot) << "one token has no gap";
  meter.End(end, 11);
  EXPECT_NEAR(static_cast<double>(meter.numbers().ttft->p50_us), 500'000, 50'000);
  EXPECT_NEAR(static_cast<double>(meter.numbers().tpot->p99_us), 100'000, 10'000);
}

}  // namespace
}  // namespace kvgate::upstream
