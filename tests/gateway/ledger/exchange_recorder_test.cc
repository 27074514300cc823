#include "gateway/ledger/exchange_recorder.h"

#include <gtest/gtest.h>

#include <string>

#include "base/digest.h"

namespace kvgate::ledger {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kBody = R"({"model":"claude-opus-5"})";

PrefixDigest DigestOfBody(std::string_view body) { return Sha256().Update(body).Finish(); }

upstream::ExchangeStart Start() {
  return {.request_id = "id1",
          .received_at = std::chrono::system_clock::time_point(5s),
          .upstream = "main",
          .provider = "anthropic",
          .dialect = dialect::form::Api::kAnthropic,
          .endpoint = dialect::form::Endpoint::kMessages,
          .method = "POST",
          .path = "/v1/messages",
          .model = "claude-opus-5",
          .tenant = "t",
          .key = {},
          .body = kBody,
          .content_encoding = {}};
}

class ExchangeRecorderTest : public testing::Test {
 protected:
  std::unique_ptr<ExchangeRecorder> Begin() {
    return std::make_unique<ExchangeRecorder>(
        Start(), ExchangeRecorder::Hooks{
                     .sink = [this](RequestRecord record) { record_ = std::move(record); },
                     .digests = digests_});
  }
  upstream::BodyDigests digests_;
  RequestRecord record_;
};

TEST_F(ExchangeRecorderTest, TheTimesOfAStreamsPiecesAreThoseOfItsTokens) {
  SteadyClock::time_point now;
  SteadyClock::Simulate(&now);
  auto recorder = Begin();
  recorder->OnHead({.status = 200,
                    .content_type = "text/event-stream; charset=utf-8",
                    .content_encoding = {},
                    .upstream_request_id = {}});
  for (const auto& [gap, event] :
       {std::pair(100ms, R"({"type":"message_start","message":{"usage":{"input_tokens":3}}})"),
        std::pair(20ms, R"({"type":"content_block_delta"})"),
        std::pair(70ms, R"({"type":"content_block_delta"})"),
        std::pair(10ms, R"({"type":"message_delta","usage":{"output_tokens":5}})")}) {
    now += gap;
    recorder->OnBody("data: " + std::string(event) + "\n\n");
  }
  recorder->OnEnd({.status = 200, .error = {}});
  SteadyClock::Simulate(nullptr);
  EXPECT_EQ(record_.timings.decode_us, 100'000);
  EXPECT_EQ(record_.timings.itl_us_max, 70'000);
  EXPECT_EQ(record_.timings.tpot_us, 25'000);
}

TEST_F(ExchangeRecorderTest, TheSpanOfTheCallerIsThatOfItsTraceparent) {
  const upstream::wire::HeaderFields fields = {
      {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}};
  upstream::ExchangeStart start = Start();
  start.fields = &fields;
  ExchangeRecorder recorder(
      start,
      {.sink = [this](RequestRecord record) { record_ = std::move(record); }, .digests = digests_});
  recorder.OnEnd({.status = 200, .error = {}});
  EXPECT_EQ(record_.caller_trace.value().span_id, "00f067aa0ba902b7");
  Begin()->OnEnd({.status = 200, .error = {}});
  EXPECT_FALSE(record_.caller_trace);
}

TEST_F(ExchangeRecorderTest, AWholeExchangeIsRecordedAsItWas) {
  auto recorder = Begin();
  recorder->OnSent(kBody, kBody);
  recorder->OnHead({.status = 200,
                    .content_type = "application/json",
                    .content_encoding = {},
                    .upstream_request_id = "req_9"});
  const std::string answer =
      R"({"model":"claude-opus-5-x","usage":{"input_tokens":3,"output_tokens":5,)"
      R"("cache_read_input_tokens":1000}})";
  recorder->OnBody(answer.substr(0, 20));
  recorder->OnBody(answer.substr(20));
  const upstream::ExchangeTotals totals = recorder->OnEnd({.status = 200,
                                                           .error = {},
                                                           .num_attempts = 1,
                                                           .body_bytes = answer.size(),
                                                           .body_read = 1ms,
                                                           .connected = 3ms,
                                                           .sent = 4ms,
                                                           .first_byte = 50ms,
                                                           .first_body = 51ms,
                                                           .ended = 60ms});
  EXPECT_EQ(totals.input_tokens, 1003u);
  EXPECT_EQ(totals.output_tokens, 5u);
  EXPECT_EQ(record_.id, "id1");
  EXPECT_EQ(record_.time_us, 5'000'000);
  EXPECT_EQ(record_.answered_by, "claude-opus-5-x");
  EXPECT_EQ(record_.upstream_request_id, "req_9");
  EXPECT_EQ(record_.usage->cache_read_tokens, 1000);
  EXPECT_EQ(record_.timings.queue_us, 2000);
  EXPECT_EQ(record_.timings.ttft_us, 51'000);
  EXPECT_EQ(record_.timings.total_us, 60'000);
  EXPECT_EQ(record_.timings.decode_us, -1) << "it is no stream";
  EXPECT_EQ(record_.timings.tpot_us, -1);
  EXPECT_EQ(record_.answer_bytes, answer.size());
  EXPECT_EQ(record_.outcome, "complete");
  EXPECT_EQ(record_.received_sha256, DigestOfBody(kBody));
  EXPECT_EQ(record_.sent_sha256, record_.received_sha256);
}

TEST_F(ExchangeRecorderTest, ABodyThatWasEditedHasAnotherDigest) {
  auto recorder = Begin();
  const std::string edited = std::string(kBody) + " ";
  recorder->OnSent(kBody, edited);
  recorder->OnEnd({.outcome = upstream::ExchangeOutcome::kFailed, .status = 502, .error = {}});
  EXPECT_EQ(record_.received_sha256, DigestOfBody(kBody));
  EXPECT_EQ(record_.sent_sha256, DigestOfBody(edited));
  EXPECT_EQ(record_.sent_bytes, edited.size());
}

TEST_F(ExchangeRecorderTest, OneThatEndsBeforeItBeganIsRecordedToo) {
  const upstream::ExchangeTotals totals =
      Begin()->OnEnd({.outcome = upstream::ExchangeOutcome::kRefused,
                      .status = 404,
                      .error = "There is no such model."});
  EXPECT_EQ(totals.input_tokens, 0u);
  EXPECT_EQ(record_.outcome, "refused");
  EXPECT_EQ(record_.status, 404);
  EXPECT_EQ(record_.error, "There is no such model.");
  EXPECT_EQ(record_.received_bytes, kBody.size());
  EXPECT_EQ(record_.received_sha256, std::nullopt);
  EXPECT_EQ(record_.timings.total_us, -1);
  EXPECT_EQ(record_.usage_unknown, "no answer");
}

TEST_F(ExchangeRecorderTest, AnAnswerInAnUnknownCodingHasNoUsageAndTheRecordSaysWhy) {
  auto recorder = Begin();
  recorder->OnSent(kBody, kBody);
  recorder->OnHead({.status = 200,
                    .content_type = "application/json",
                    .content_encoding = "compress",
                    .upstream_request_id = {}});
  recorder->OnBody(R"({"usage":{"input_tokens":3,"output_tokens":5}})");
  EXPECT_EQ(recorder->OnEnd({.status = 200, .error = {}}).output_tokens, 0u);
  EXPECT_EQ(record_.usage, std::nullopt);
  EXPECT_EQ(record_.usage_unknown, "encoded");
}

struct Preparation final : upstream::ExchangePreparation {
  std::string mode = "pin";
};

TEST_F(ExchangeRecorderTest, APreparationCompletesTheRecordOnceWithTheUsageTaken) {
  int num_calls = 0;
  ExchangeRecorder recorder(Start(),
                            {.sink = [this](RequestRecord record) { record_ = std::move(record); },
                             .digests = digests_,
                             .complete =
                                 [&](RequestRecord& record, const reply::ReplyFacts& facts,
                                     upstream::ExchangePreparation& prepared) {
                                   ++num_calls;
                                   EXPECT_EQ(record.usage->input_tokens(), 3);
                                   EXPECT_EQ(record.outcome, "complete");
                                   EXPECT_EQ(facts.model.view(), "m");
                                   EXPECT_FALSE(record.cost);
                                   record.mode = static_cast<Preparation&>(prepared).mode;
                                 }});
  recorder.OnPrepared(std::make_shared<Preparation>());
  recorder.OnSent(kBody, kBody);
  recorder.OnHead({.status = 200,
                   .content_type = "application/json",
                   .content_encoding = {},
                   .upstream_request_id = {}});
  recorder.OnBody(R"({"model":"m","usage":{"input_tokens":3,"output_tokens":5}})");
  EXPECT_EQ(num_calls, 0);
  recorder.OnEnd({.status = 200, .error = {}});
  EXPECT_EQ(num_calls, 1);
  EXPECT_EQ(record_.mode, "pin");
}

TEST_F(ExchangeRecorderTest, APreparationOfARequestWithoutAnAnswerIsToldOfToo) {
  std::string outcome;
  const auto complete = [&](RequestRecord& record, const reply::ReplyFacts& facts,
                            upstream::ExchangePreparation&) {
    outcome = record.outcome;
    EXPECT_TRUE(facts.usage.empty());
  };
  ExchangeRecorder with(
      Start(),
      {.sink = [](RequestRecord) {}, .digests = digests_, .complete = complete, .price = {}});
  with.OnPrepared(std::make_shared<Preparation>());
  with.OnEnd({.outcome = upstream::ExchangeOutcome::kFailed, .status = 502, .error = {}});
  EXPECT_EQ(outcome, "failed");
  outcome.clear();
  ExchangeRecorder without(
      Start(),
      {.sink = [](RequestRecord) {}, .digests = digests_, .complete = complete, .price = {}});
  without.OnEnd({.outcome = upstream::ExchangeOutcome::kFailed, .status = 502, .error = {}});
  EXPECT_EQ(outcome, "");
}

}  // namespace
}  // namespace kvgate::ledger
