#include "gateway/service/local_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/store/memory_meta_store.h"

namespace kvgate::service {
namespace {

using Json = nlohmann::json;

class LocalRecordTest : public testing::Test {
 protected:
  LocalRecord::Args Args() {
    return {.ledger = &ledger_, .request_id = "id1", .tenant = "t", .key = "k", .session = "s"};
  }
  Json Recorded() { return Json::parse(ledger_.Get("id1").value()); }

  store::MemoryMetaStore meta_;
  ledger::Ledger ledger_{{.meta = &meta_}};
};

TEST_F(LocalRecordTest, TheSpanOfTheCallerIsTold) {
  std::optional<upstream::wire::TraceContext> told;
  ledger::Ledger ledger(
      {.meta = &meta_, .on_record = [&](const auto& record) { told = record.caller_trace; }});
  LocalRecord::Args args = Args();
  args.ledger = &ledger;
  LocalRecord(args).End();
  EXPECT_FALSE(told);
  args.caller_trace = {.trace_id = std::string(32, 'a'), .span_id = std::string(16, 'b')};
  LocalRecord(args).End();
  EXPECT_EQ(told, args.caller_trace);
}

TEST_F(LocalRecordTest, WhatTheEngineDoesBehindTheLastTokenIsNoDecoding) {
  {
    LocalRecord record(Args());
    record.OnFinish({.stats = {.num_output_tokens = 7,
                               .ttft_seconds = 0.25,
                               .itl_seconds_max = 0.05,
                               .total_seconds = 0.85}},
                    true);
  }
  const Json timings = Recorded()["timings"];
  EXPECT_EQ(timings["decode_us"], 300'000) << "six gaps, none of them longer than the longest";
  EXPECT_EQ(timings["tpot_us"], 50'000);
}

TEST_F(LocalRecordTest, AnAnswerIsRecordedWithWhatTheEngineMeasured) {
  {
    LocalRecord record(Args());
    dialect::form::CompletionRequest request;
    request.model = "local";
    request.stream = true;
    record.OnRequest(request);
    record.OnModel("Tiny");
    record.OnBody("{}");
    record.OnAnswer(10);
    record.OnAnswer(5);
    record.OnFinish({.stats = {.num_prompt_tokens = 100,
                               .num_output_tokens = 7,
                               .num_cached_tokens = 64,
                               .num_device_tokens = 60,
                               .num_disk_tokens = 4,
                               .queue_seconds = 0.001,
                               .prefill_seconds = 0.2,
                               .ttft_seconds = 0.25,
                               .itl_seconds_max = 0.15,
                               .total_seconds = 0.85}},
                    true);
  }
  const Json json = Recorded();
  EXPECT_EQ(json["upstream"], "local");
  EXPECT_EQ(json["model"], "Tiny");
  EXPECT_EQ(json["asked_model"], "local");
  EXPECT_EQ(json["key"], "k");
  EXPECT_EQ(json["session"], "s");
  EXPECT_EQ(json["tiers"],
            Json::parse(R"({"device":60,"host":0,"disk":4,"shared":0,"computed":36})"));
  EXPECT_EQ(json["timings"]["prefill_us"], 200'000);
  EXPECT_EQ(json["timings"]["decode_us"], 600'000);
  EXPECT_EQ(json["timings"]["tpot_us"], 100'000);
  EXPECT_EQ(json["timings"]["itl_us_max"], 150'000);
  EXPECT_EQ(json["tenant"], "t");
  EXPECT_EQ(json["status"], 200);
  EXPECT_EQ(json["outcome"], "complete");
  EXPECT_EQ(json["stream"], true);
  EXPECT_EQ(json["usage"]["uncached_tokens"], 36);
  EXPECT_EQ(json["usage"]["cache_read_tokens"], 64);
  EXPECT_EQ(json["usage"]["output_tokens"], 7);
  EXPECT_EQ(json["cost"]["nanodollars"], 0);
  EXPECT_EQ(json["timings"]["queue_us"], 1000);
  EXPECT_EQ(json["timings"]["ttft_us"], 250'000);
  EXPECT_EQ(json["bytes"], Json::parse(R"({"received":2,"sent":0,"answer":15})"));
  EXPECT_EQ(json["sha256"]["received"].get<std::string>().substr(0, 8), "44136fa3");
}

TEST_F(LocalRecordTest, ItSpeaksTheDialectThatItsCallerSpoke) {
  LocalRecord::Args args = Args();
  args.dialect = dialect::form::Dialect::kMessages;
  LocalRecord(args).OnRefused(MakeError(ErrorCode::kNotFound, "x", "x"));
  const Json json = Recorded();
  EXPECT_EQ(json["dialect"], "anthropic");
  EXPECT_EQ(json["endpoint"], "messages");
}

TEST_F(LocalRecordTest, ARefusalHasItsStatusAndNoTextOfTheRequest) {
  LocalRecord record(Args());
  record.OnRefused(MakeError(ErrorCode::kNotFound, "x", "The model 'secret words' is not here."));
  const Json json = Recorded();
  EXPECT_EQ(json["status"], 404);
  EXPECT_EQ(json["outcome"], "refused");
  EXPECT_TRUE(json["usage"].is_null());
  EXPECT_EQ(json.dump().find("secret words"), std::string::npos);
}

TEST_F(LocalRecordTest, StoredKvThatWasComputedAnewIsToldWithTheReason) {
  for (const auto& [reason, said] :
       {std::pair("late",
                  "restore_late: 640 stored tokens were computed anew (load 141 ms so far, "
                  "computing 2790 ms)"),
        std::pair("not_worth_it",
                  "restore_not_worth_it: 640 stored tokens were computed anew (load "
                  "141 ms expected, computing 2790 ms)")}) {
    {
      LocalRecord record(Args());
      record.OnFinish({.stats = {.given_up = {.reason = reason,
                                              .num_tokens = 640,
                                              .load_seconds = 0.141,
                                              .compute_seconds = 2.79}}},
                      true);
    }
    EXPECT_EQ(Recorded()["provider_reason"], said);
  }
}

TEST_F(LocalRecordTest, AFailureBeforeAndBehindTheFirstByteDiffer) {
  const dialect::form::FinishEvent failed{
      .error = MakeError(ErrorCode::kOverloaded, "engine", "no KV blocks left")};
  {
    LocalRecord record(Args());
    record.OnFinish(failed, false);
  }
  EXPECT_EQ(Recorded()["status"], 503);
  EXPECT_EQ(Recorded()["outcome"], "failed");
  {
    LocalRecord record(Args());
    record.OnFinish(failed, true);
  }
  EXPECT_EQ(Recorded()["status"], 200);
  EXPECT_EQ(Recorded()["outcome"], "upstream_cut");
}

TEST_F(LocalRecordTest, AClientThatLeftIsRecorded) {
  { LocalRecord record(Args()); }
  EXPECT_EQ(Recorded()["status"], 499);
  EXPECT_EQ(Recorded()["outcome"], "client_left");
}

TEST_F(LocalRecordTest, OneThatEndedIsRecordedOnce) {
  {
    LocalRecord record(Args());
    record.OnFinish({}, false);
  }
  std::string text;
  dialect::form::JsonWriter json(text);
  ledger_.WriteStats(json);
  EXPECT_EQ(Json::parse(text)["totals"]["requests"], 1);
}

}  // namespace
}  // namespace kvgate::service
