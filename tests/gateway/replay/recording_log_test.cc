#include "gateway/replay/recording_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/temp_folder.h"

namespace kvgate::replay {
namespace {

namespace fs = std::filesystem;
using upstream::ExchangeEnd;

class FakeObserver final : public upstream::ExchangeObserver {
 public:
  explicit FakeObserver(std::string& calls) : calls_(calls) {}
  void OnPrepared(std::shared_ptr<upstream::ExchangePreparation>) override {
    calls_ += "prepared ";
  }
  void OnTranslated(dialect::form::Endpoint sent_endpoint,
                    const std::vector<std::string>& left_out) override {
    EXPECT_EQ(sent_endpoint, dialect::form::Endpoint::kChatCompletions);
    calls_ += "translated:" + left_out.at(0) + " ";
  }
  void OnSent(std::string_view, std::string_view) override { calls_ += "sent "; }
  std::string Explain(const ExchangeEnd&) override { return "{}"; }
  void OnHead(const upstream::ExchangeHead&) override { calls_ += "head "; }
  void OnBody(std::string_view) override { calls_ += "body "; }
  upstream::ExchangeTotals OnEnd(const ExchangeEnd&) override {
    calls_ += "end";
    return {.input_tokens = 7, .output_tokens = 8};
  }

 private:
  std::string& calls_;
};

class FakeLog final : public upstream::ExchangeLog {
 public:
  std::unique_ptr<upstream::ExchangeObserver> Begin(const upstream::ExchangeStart&) override {
    return std::make_unique<FakeObserver>(calls);
  }
  upstream::Spending Spent(std::string_view) const override { return {.dollars_today = 3}; }
  std::string calls;
};

TEST(RecordingLog, KeepsARequestWithoutItsCredentialAndPassesEverythingOn) {
  const TempFolder folder;
  const fs::path file = folder / "trace.jsonl";
  FakeLog inner;
  {
    auto writer = TraceWriter::Open({.path = file});
    ASSERT_TRUE(writer.has_value());
    RecordingLog log(inner, **writer);
    EXPECT_EQ(log.Spent("t").dollars_today, 3);
    const upstream::wire::HeaderFields fields = {
        {.name = "Authorization", .value = "Bearer secret"},
        {.name = "X-Api-Key", .value = "secret"},
        {.name = "Session_Id", .value = "s1"}};
    const auto observer =
        log.Begin({.request_id = "r",
                   .received_at = std::chrono::system_clock::time_point(std::chrono::seconds(5)),
                   .upstream = "main",
                   .provider = "anthropic",
                   .endpoint = dialect::form::Endpoint::kMessages,
                   .method = "POST",
                   .path = "/v1/messages",
                   .model = "m",
                   .tenant = "t",
                   .key = "",
                   .body = R"({"model":"m"})",
                   .content_encoding = "",
                   .fields = &fields,
                   .is_subscription = true});
    observer->OnPrepared(std::make_shared<upstream::ExchangePreparation>());
    observer->OnSent(R"({"model":"m"})", R"({"model":"m","more":1})");
    observer->OnHead({.status = 200,
                      .content_type = "application/json",
                      .content_encoding = "",
                      .upstream_request_id = ""});
    observer->OnBody(R"({"usage":{"input_tokens":10,"output_tokens":3,)");
    observer->OnBody(R"("cache_read_input_tokens":90}})");
    EXPECT_EQ(observer->Explain({}), "{}");
    const auto totals = observer->OnEnd({.status = 200,
                                         .first_byte = std::chrono::milliseconds(20),
                                         .ended = std::chrono::milliseconds(30)});
    EXPECT_EQ(totals.input_tokens, 7u);
    EXPECT_EQ(inner.calls, "prepared sent head body body end");
  }
  auto reader = TraceReader::Open(file);
  ASSERT_TRUE(reader.has_value());
  const Result<TraceRequest> request = (*reader)->Read(0);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->time_us, 5'000'000);
  EXPECT_EQ(request->body, R"({"model":"m"})");
  EXPECT_TRUE(request->is_oauth);
  ASSERT_EQ(request->headers.size(), 1u);
  EXPECT_EQ(request->Header("session_id"), "s1");
  ASSERT_TRUE(request->usage.has_value());
  EXPECT_EQ(request->usage->cache_read_tokens, 90);
  EXPECT_EQ(request->ttft_us, 20'000);
  EXPECT_EQ(request->total_us, 30'000);
}

TEST(RecordingLog, ATranslatedAnswerIsReadInTheDialectOfTheUpstream) {
  const TempFolder folder;
  const fs::path file = folder / "trace.jsonl";
  FakeLog inner;
  {
    auto writer = TraceWriter::Open({.path = file});
    ASSERT_TRUE(writer.has_value());
    RecordingLog log(inner, **writer);
    upstream::ExchangeStart start;
    start.provider = "openai";
    start.endpoint = dialect::form::Endpoint::kMessages;
    const auto observer = log.Begin(start);
    observer->OnTranslated(dialect::form::Endpoint::kChatCompletions, {"thinking"});
    observer->OnSent("{}", R"({"messages":[]})");
    upstream::ExchangeHead head;
    head.status = 200;
    head.content_type = "application/json";
    observer->OnHead(head);
    observer->OnBody(R"({"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":3,)"
                     R"("prompt_tokens_details":{"cached_tokens":64}}})");
    observer->OnEnd({.status = 200});
    EXPECT_EQ(inner.calls, "translated:thinking sent head body end");
  }
  auto reader = TraceReader::Open(file);
  ASSERT_TRUE(reader.has_value());
  const Result<TraceRequest> request = (*reader)->Read(0);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->endpoint, dialect::form::Endpoint::kMessages);
  ASSERT_TRUE(request->usage.has_value());
  EXPECT_EQ(request->usage->uncached_tokens, 36);
  EXPECT_EQ(request->usage->cache_read_tokens, 64);
  EXPECT_EQ(request->usage->output_tokens, 3);
}

TEST(RecordingLog, WhatWasNeverSentIsNotKept) {
  const TempFolder folder;
  const fs::path file = folder / "trace.jsonl";
  FakeLog inner;
  {
    auto writer = TraceWriter::Open({.path = file});
    ASSERT_TRUE(writer.has_value());
    RecordingLog log(inner, **writer);
    log.Begin({})->OnEnd({.outcome = upstream::ExchangeOutcome::kRefused, .status = 404});
    const auto first = log.Begin({});  // another upstream has answered instead
    first->OnSent("{}", "{}");
    first->OnEnd({.superseded = true});
  }
  EXPECT_EQ((*TraceReader::Open(file))->num_requests(), 0u);
}

}  // namespace
}  // namespace kvgate::replay
