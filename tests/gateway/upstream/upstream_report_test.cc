#include "gateway/upstream/upstream_report.h"

#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"
#include "tests/manual_clock.h"

namespace kvgate::upstream {
namespace {

using namespace std::chrono_literals;

std::string Report(const Upstreams& upstreams) {
  std::string text;
  dialect::form::JsonWriter json(text);
  WriteUpstreams(upstreams, json);
  return text;
}

std::unique_ptr<Upstreams> Open() {
  config::UpstreamConfig config;
  config.name = "main";
  config.dialect = "anthropic";
  config.base_url = "http://127.0.0.1:9";
  config.models = {"claude-*"};
  config.breaker_failures = 1;
  config.breaker_seconds = 5;
  return Upstreams::Open({config}, [](const char*) { return std::string(); }).value();
}

TEST(UpstreamReportTest, AnUpstreamThatNobodyAskedHasNoTimes) {
  EXPECT_EQ(Report(*Open()),
            R"([{"name":"main","provider":"anthropic","dialect":"anthropic","mode":"pin",)"
            R"("models":["claude-*"],"breaker":"closed","retry_us":0,"requests_active":0,)"
            R"("requests":0,"failed":0,"ttft_us":{"p50":null,"p90":null,"p99":null},)"
            R"("tpot_us":{"p50":null,"p90":null,"p99":null}}])");
}

TEST(UpstreamReportTest, TheBreakerAndTheTimesShow) {
  test::ManualClock clock;
  const auto upstreams = Open();
  Upstream& upstream = *upstreams->all()[0];
  upstream.meter()->Begin();
  upstream.meter()->Begin();
  upstream.meter()->End({.status = 200, .first_body = 1s, .ended = 2s}, 11);
  upstream.breaker().Fail(SteadyClock::now());
  const std::string open = Report(*upstreams);
  const std::string retry = std::to_string(WallClock::NowUs() + 5'000'000);
  EXPECT_NE(open.find(R"("breaker":"open","retry_us":)" + retry), std::string::npos) << open;
  EXPECT_NE(open.find(R"("requests_active":1,"requests":1,"failed":0)"), std::string::npos) << open;
  EXPECT_EQ(open.find("null"), std::string::npos) << open;
  clock.Advance(6s);
  EXPECT_NE(Report(*upstreams).find(R"("breaker":"half_open")"), std::string::npos);
  upstream.breaker().Succeed();
  EXPECT_NE(Report(*upstreams).find(R"("breaker":"closed","retry_us":0)"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::upstream
