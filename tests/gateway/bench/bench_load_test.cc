#include "gateway/bench/bench_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tests/gateway/fakes.h"
#include "tests/gateway/http/hosted_server.h"

namespace kvgate::bench {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

struct Fixture {
  explicit Fixture(test::Script script = {}) : gateway(std::move(script)) {}
  BenchLoadOptions Options() const {
    // The fake engine has a thread per request, so a few dozen requests must do.
    return {.url = server->url(),
            .clients = 4,
            .seconds = 0.3,
            .prompt_tokens_min = 1,
            .prompt_tokens_max = 50,
            .output_tokens = 3,
            .prompts = 5,
            .token_id_max = 100};
  }
  test::Gateway gateway;
  http::HostedServer hosted{gateway.service};
  http::Server* server = hosted.server.get();
};

TEST(BenchLoadTest, CountsWhatCameAndHowLongItTook) {
  const Fixture fixture({.first_delay = milliseconds(20), .piece_delay = milliseconds(20)});
  const auto report = RunBenchLoad(fixture.Options());
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_GT(report->num_complete, 4u);
  EXPECT_EQ(report->num_errors + report->num_different + report->num_refused, 0u)
      << report->first_error;
  EXPECT_EQ(report->num_output_tokens, 3 * report->num_complete);
  EXPECT_GE(report->num_prompt_tokens, report->num_complete);
  EXPECT_EQ(report->ttft_ms.size(), report->num_complete);
  EXPECT_GE(Percentile(report->ttft_ms, 0.5), 19.0f);
  EXPECT_GE(Percentile(report->itl_ms, 0.5), 10.0f);
  EXPECT_THAT(ReportText(*report), HasSubstr("0 errors"));
  EXPECT_EQ(nlohmann::json::parse(ReportJson(*report))["complete"], report->num_complete);
}

TEST(BenchLoadTest, AnAnswerThatDiffersFromAnEarlierOneIsCounted) {
  for (const bool numbered : {false, true}) {
    const Fixture fixture({.piece_delay = milliseconds(5), .numbered = numbered});
    BenchLoadOptions options = fixture.Options();
    options.fresh_share = 0;
    options.prompts = 1;
    const auto report = RunBenchLoad(options);
    ASSERT_TRUE(report);
    EXPECT_GT(report->num_complete, 4u);
    EXPECT_EQ(report->num_different, numbered ? report->num_complete - 1 : 0);
  }
}

TEST(BenchLoadTest, RefusalsAndFailuresAreToldApart) {
  const Error full = MakeError(ErrorCode::kOverloaded, "engine", "full");
  const Error broken = MakeError(ErrorCode::kInternal, "engine", "secret reason");
  for (const Error& error : {full, broken}) {
    const Fixture fixture({.pieces = {}, .reason = engine::FinishReason::kError, .error = error});
    const auto report = RunBenchLoad(fixture.Options());
    ASSERT_TRUE(report);
    EXPECT_EQ(report->num_complete, 0u);
    EXPECT_EQ(report->num_refused > 0, error.code == ErrorCode::kOverloaded);
    EXPECT_EQ(report->num_errors > 0, error.code == ErrorCode::kInternal);
  }
}

TEST(BenchLoadTest, CancelledRequestsLeaveTheServer) {
  Fixture fixture(
      {.first_delay = milliseconds(5), .piece_delay = milliseconds(50), .forever = true});
  BenchLoadOptions options = fixture.Options();
  options.cancel_share = 1;
  options.output_tokens = 1000;
  const auto report = RunBenchLoad(options);
  ASSERT_TRUE(report);
  EXPECT_GT(report->num_cancelled, 0u);
  EXPECT_EQ(report->num_complete + report->num_errors, 0u) << report->first_error;
  EXPECT_GT(fixture.gateway.engine.num_cancelled(), 0);
}

TEST(BenchLoadTest, SenselessOptionsAndNobodyThereAreErrors) {
  EXPECT_EQ(RunBenchLoad({.clients = 0}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(RunBenchLoad({.url = "http://127.0.0.1:1"}).error().code, ErrorCode::kUnavailable);
}

TEST(BenchLoadTest, APercentileIsAValueOfTheList) {
  EXPECT_EQ(Percentile({}, 0.5), 0.0f);
  EXPECT_EQ(Percentile({1, 2, 3, 4}, 0.5), 2.0f);
  EXPECT_EQ(Percentile({1, 2, 3, 4}, 0.99), 4.0f);
  EXPECT_EQ(Percentile({7}, 0.0), 7.0f);
}

}  // namespace
}  // namespace kvgate::bench
