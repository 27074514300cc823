#include "gateway/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "gateway/ledger/exchange_recorder.h"
#include "tests/manual_clock.h"
#include "tests/store/memory_meta_store.h"
#include "tests/wait_until.h"

namespace kvgate::ledger {
namespace {

using Json = nlohmann::json;
using store::MemoryMetaStore;
using store::meta::MetaTable;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

RequestRecord Record(int number, std::string tenant = "t") {
  RequestRecord record;
  record.id = "id" + std::to_string(1000 + number);
  record.time_us = NowUs();
  record.endpoint = dialect::form::Endpoint::kMessages;
  record.upstream = "main";
  record.provider = "anthropic";
  record.model = "claude-3-7-sonnet-20250219";
  record.tenant = std::move(tenant);
  record.status = 200;
  record.usage =
      reply::TokenUsage{.uncached_tokens = 3, .cache_write_tokens = 12304, .output_tokens = 550};
  return record;
}

Json Stats(const Ledger& ledger) {
  std::string text;
  dialect::form::JsonWriter json(text);
  ledger.WriteStats(json);
  return Json::parse(text);
}

std::vector<std::string> Ids(Ledger& ledger, const Ledger::ListArgs& args) {
  const Json json = Json::parse(ledger.List(args).value());
  std::vector<std::string> ids;
  for (const Json& record : json["data"]) ids.push_back(record["id"]);
  return ids;
}

TEST(LedgerTest, ARecordIsPricedAndFoundAtOnce) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1h});
  ledger.Add(Record(1));
  const Json json = Json::parse(ledger.Get("id1001").value());
  EXPECT_EQ(json["cost"]["nanodollars"], 54'399'000);
  EXPECT_EQ(json["cost"]["price_date"], "2025-04");
  EXPECT_EQ(ledger.Get("id1002").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ledger.Spent("t").dollars_today, 0.054399);
}

TEST(LedgerTest, TheDirectCostIsOfTheUsageThatItWouldHaveHad) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1h});
  RequestRecord record = Record(1);
  record.direct_usage = reply::TokenUsage{.uncached_tokens = 12307, .output_tokens = 550};
  ledger.Add(record);
  const Json cost = Json::parse(ledger.Get("id1001").value())["cost"];
  EXPECT_EQ(cost["nanodollars"], 54'399'000);
  EXPECT_EQ(cost["direct_nanodollars"], cost["uncached_nanodollars"]);
  ledger.Add(Record(2));
  EXPECT_EQ(Json::parse(ledger.Get("id1002").value())["cost"]["direct_nanodollars"], 54'399'000);
}

TEST(LedgerTest, ARequestOfTheGatewaysOwnCountsAsItsPurposeAlone) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1h});
  RequestRecord own = Record(1);
  own.purpose = "summary";
  own.attribution = {{.source = "history", .uncached = 3}, {.source = "user", .written = 12304}};
  ledger.Add(own);
  RequestRecord unknown = Record(2);
  unknown.purpose = "summary";
  unknown.usage.reset();
  ledger.Add(unknown);
  const Json json = Json::parse(ledger.Get("id1001").value())["attribution"];
  EXPECT_EQ(json.size(), 1u);
  EXPECT_EQ(json["summary"]["uncached"], 3);
  EXPECT_EQ(json["summary"]["written"], 12304);
  const Json sums = Stats(ledger)["totals"]["by_source"];
  EXPECT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums["summary"]["written_tokens"], 12304);
  EXPECT_EQ(sums["summary"]["nanodollars"], 54'399'000 - 550 * 15'000);
}

TEST(LedgerTest, EachRecordIsShownOnceWithItsCost) {
  std::vector<std::string> seen;
  int64_t nanodollars = 0;
  const auto show = [&](const RequestRecord& record) {
    seen.push_back(record.id);
    nanodollars += record.cost->nanodollars;
  };
  Ledger ledger({.on_record = show});
  ledger.Add(Record(1));
  ledger.Add(Record(2));
  EXPECT_EQ(seen, (std::vector<std::string>{"id1001", "id1002"}));
  EXPECT_EQ(nanodollars, 2 * 54'399'000);
}

TEST(LedgerTest, RecordsAreChosenByAFilter) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1h});
  for (int i = 0; i < 6; ++i) {
    RequestRecord record = Record(i, i < 3 ? "a" : "b");
    record.session = i % 2 == 0 ? "even" : "odd";
    ledger.Add(record);
  }
  Ledger::ListArgs args;
  ASSERT_TRUE(args.filter.Take("session", "even"));
  EXPECT_EQ(Ids(ledger, args), (std::vector<std::string>{"id1004", "id1002", "id1000"}));
  args.limit = 1;
  const Json page = Json::parse(ledger.List(args).value());
  EXPECT_EQ(page["data"].size(), 1U);
  EXPECT_EQ(page["has_more"], true);
  args.tenant = "b";
  EXPECT_EQ(Ids(ledger, args), (std::vector<std::string>{"id1004"}));
  ASSERT_TRUE(args.filter.Take("tenant", "a"));
  EXPECT_TRUE(Ids(ledger, args).empty()) << "it asks for another's";
}

TEST(LedgerTest, SegmentsAreShownWithTheirOwnRecordAloneAndBoundedByNumber) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .segments_max = 2, .write_interval = 1h});
  for (int i = 0; i < 4; ++i) {
    RequestRecord record = Record(i);
    record.attribution = {{.source = "system", .written = 12304},
                          {.source = "user", .uncached = 3}};
    record.segments = {{.source = "system", .path = "/system", .written = 12304},
                       {.source = "user", .path = "/messages/0", .uncached = 3}};
    ledger.Add(record);
    ledger.Flush();
  }
  const Json newest = Json::parse(ledger.Get("id1003").value());
  ASSERT_EQ(newest["segments"].size(), 2U);
  EXPECT_EQ(newest["segments"][0]["path"], "/system");
  EXPECT_EQ(newest["segments"][0]["tokens"], 12304);
  EXPECT_FALSE(Json::parse(ledger.Get("id1000").value()).contains("segments"));
  EXPECT_FALSE(Json::parse(ledger.List({}).value())["data"][0].contains("segments"));
}

TEST(LedgerTest, AnInputThatNobodyHasReadIsTheUsers) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1h});
  ledger.Add(Record(1));
  const Json record = Json::parse(ledger.Get("id1001").value());
  EXPECT_EQ(record["attribution"]["user"]["written"], 12304);
  EXPECT_EQ(record["estimated"], false);
  EXPECT_EQ(record["segments"][0]["tokens"], 12307);
}

TEST(LedgerTest, RollupsAgreeWithRecordsAfterARestartAndShowATenantItsOwn) {
  MemoryMetaStore meta;
  const auto sums = [](Ledger& ledger, std::optional<std::string_view> tenant = {}) {
    return Json::parse(
        ledger.Rollups({.step = rollup::Step::kDay, .by = rollup::By::kModel}, tenant)
            .value())["data"];
  };
  {
    Ledger ledger({.meta = &meta, .write_interval = 1h});
    ledger.Add(Record(1, "a"));
    ledger.Add(Record(2, "b"));
    EXPECT_EQ(sums(ledger)[0]["requests"], 2);
  }
  Ledger ledger({.meta = &meta, .write_interval = 1h});
  ledger.Add(Record(3, "b"));
  const Json row = sums(ledger)[0];
  EXPECT_EQ(row["name"], "claude-3-7-sonnet-20250219");
  EXPECT_EQ(row["requests"], 3);
  EXPECT_EQ(row["written_tokens"], 3 * 12304);
  EXPECT_EQ(row["nanodollars"], 3 * 54'399'000);
  EXPECT_EQ(sums(ledger, "b")[0]["requests"], 2);
  EXPECT_TRUE(sums(ledger, "c").empty());
}

TEST(LedgerTest, RollupsCountWhatWasWrittenBeforeAKill) {
  const rollup::Query query{.step = rollup::Step::kDay};
  MemoryMetaStore meta;
  {
    Ledger ledger({.meta = &meta, .write_interval = 1h, .rollups_interval = 1h});
    for (int i = 0; i < 3; ++i) {
      ledger.Add(Record(i));
      ledger.Flush();
    }
    EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "j/"), 3U);
    EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "u/"), 0U);
    meta.refuses = true;  // nothing that it would do at its end
  }
  meta.refuses = false;
  Ledger ledger({.meta = &meta, .write_interval = 1h});
  EXPECT_TRUE(test::WaitUntil([&] { return meta.CountRows(MetaTable::kLedger, "j/") == 0; },
                              "what was noted is summed without being asked for"));
  EXPECT_EQ(Json::parse(ledger.Rollups(query).value())["data"][0]["requests"], 3);
  ledger.Add(Record(4));
  EXPECT_EQ(Json::parse(ledger.Rollups(query).value())["data"][0]["requests"], 4);
}

TEST(LedgerTest, SumsAreWrittenLaterThanRecordsAndWithoutBeingAskedFor) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1ms, .rollups_interval = 50ms});
  ledger.Add(Record(1));
  EXPECT_TRUE(test::WaitUntil([&] { return meta.CountRows(MetaTable::kLedger, "u/") > 0; },
                              "sums are written"));
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "j/"), 0U);
  EXPECT_EQ(meta.num_batches, 2);
}

TEST(LedgerTest, SumsThatTheDiskRefusesComeLater) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1ms, .rollups_interval = 5ms});
  ledger.Add(Record(1));
  ledger.Flush();
  meta.refuses = true;
  EXPECT_TRUE(test::WaitUntil([&] { return meta.num_refused > 1; }, "it tries again"));
  meta.refuses = false;
  EXPECT_TRUE(test::WaitUntil([&] { return meta.CountRows(MetaTable::kLedger, "j/") == 0; },
                              "sums are written"));
  EXPECT_EQ(Stats(ledger)["records_dropped"], 0);
  const Json sums = Json::parse(ledger.Rollups({.step = rollup::Step::kDay}).value())["data"];
  EXPECT_EQ(sums[0]["requests"], 1);
}

TEST(LedgerTest, WarmCachesHaveClocksThatOutliveTheProcess) {
  MemoryMetaStore meta;
  RequestRecord record = Record(1);
  record.mode = "pin";
  record.conversation = "c1";
  record.session = "mine";
  {
    Ledger ledger({.meta = &meta, .write_interval = 1h});
    ledger.Add(record);
  }
  const Ledger ledger({.meta = &meta, .write_interval = 1h});
  const Json clocks = Stats(ledger)["clocks"];
  ASSERT_EQ(clocks.size(), 1U);
  EXPECT_EQ(clocks[0]["session"], "mine");
  EXPECT_EQ(clocks[0]["tokens"], 12304);
  EXPECT_EQ(clocks[0]["cold_nanodollars"], 12304 * 3'450);
}

TEST(LedgerTest, TheModelThatAnsweredHasThePriceElseTheOneAskedFor) {
  Ledger ledger({});
  RequestRecord routed = Record(1, "routed");
  routed.answered_by = "claude-opus-4-1";
  ledger.Add(routed);
  EXPECT_GT(ledger.Spent("routed").dollars_today, 0.2);
  RequestRecord alias = Record(2, "alias");
  alias.answered_by = "deployment-7";
  ledger.Add(alias);
  EXPECT_EQ(ledger.Spent("alias").dollars_today, 0.054399);
}

TEST(LedgerTest, RecordsAreListedNewestFirstAndPageByPage) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta});
  for (int i = 0; i < 5; ++i) ledger.Add(Record(i));
  EXPECT_EQ(Ids(ledger, {.limit = 2}), (std::vector<std::string>{"id1004", "id1003"}));
  EXPECT_EQ(Ids(ledger, {.limit = 2, .before = "id1003"}),
            (std::vector<std::string>{"id1002", "id1001"}));
  EXPECT_EQ(Json::parse(ledger.List({.limit = 2}).value())["has_more"], true);
  EXPECT_EQ(Json::parse(ledger.List({.limit = 5}).value())["has_more"], false);
  EXPECT_EQ(ledger.List({.limit = 0}).error().field, "limit");
  EXPECT_EQ(ledger.List({.limit = 1001}).error().field, "limit");
}

TEST(LedgerTest, ATenantSeesItsOwnRecordsAndSumsAlone) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta});
  for (int i = 0; i < 6; ++i) ledger.Add(Record(i, i % 3 == 0 ? "a" : "b"));
  EXPECT_EQ(Ids(ledger, {.tenant = "a"}), (std::vector<std::string>{"id1003", "id1000"}));
  EXPECT_EQ(Ids(ledger, {.limit = 1, .before = "id1003", .tenant = "a"}),
            (std::vector<std::string>{"id1000"}));
  // A page has only what the tenant may see; other records between do not count.
  const Json page = Json::parse(ledger.List({.limit = 2, .tenant = "a"}).value());
  EXPECT_EQ(page["data"].size(), 2u);
  EXPECT_EQ(page["has_more"], false);
  EXPECT_TRUE(Ids(ledger, {.tenant = ""}).empty()) << "nobody's is not everybody's";
  EXPECT_TRUE(ledger.Get("id1000", "a"));
  EXPECT_EQ(ledger.Get("id1001", "a").error().code, ErrorCode::kNotFound);
  std::string text;
  dialect::form::JsonWriter json(text);
  ledger.WriteStats(json, "a");
  const Json stats = Json::parse(text)["totals"];
  EXPECT_EQ(stats["requests"], 2);
  EXPECT_EQ(stats["nanodollars"], 2 * 54'399'000);
  EXPECT_EQ(stats["by_tenant"].size(), 1u);
  EXPECT_FALSE(stats.contains("by_upstream"));
  std::string none;
  dialect::form::JsonWriter writer(none);
  ledger.WriteStats(writer, "c");
  EXPECT_EQ(Json::parse(none)["totals"]["requests"], 0);
}

TEST(LedgerTest, WhatGathersIsWrittenInOneStep) {
  MemoryMetaStore meta;
  {
    Ledger ledger({.meta = &meta, .write_interval = 1h});
    for (int i = 0; i < 60; ++i) ledger.Add(Record(i));
  }
  EXPECT_EQ(meta.num_batches, 1);
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "r/"), 60u);
}

TEST(LedgerTest, AStepDoesNotWaitForMoreThanItsRecords) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1h, .step_records = 10});
  for (int i = 0; i < 10; ++i) ledger.Add(Record(i));
  EXPECT_TRUE(test::WaitUntil([&] { return meta.CountRows(MetaTable::kLedger, "r/") == 10; },
                              "ten records are written"));
}

TEST(LedgerTest, TheThreadWritesWithoutBeingAsked) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 20ms});
  ledger.Add(Record(1));
  EXPECT_TRUE(test::WaitUntil([&] { return meta.num_batches == 1; }, "a batch is written"));
}

TEST(LedgerTest, SumsAndRecordsAgreeAfterARestart) {
  MemoryMetaStore meta;
  {
    Ledger ledger({.meta = &meta});
    ledger.Add(Record(1));
    ledger.Add(Record(2, "u"));
  }
  Ledger ledger({.meta = &meta});
  ledger.Add(Record(3));
  const Json totals = Stats(ledger)["totals"];
  EXPECT_EQ(totals["requests"], 3);
  EXPECT_EQ(totals["by_tenant"]["t"]["requests"], 2);
  EXPECT_EQ(totals["nanodollars"], 3 * 54'399'000);
  EXPECT_DOUBLE_EQ(ledger.Spent("t").dollars_this_month, 2 * 0.054399);
  EXPECT_EQ(Ids(ledger, {}).size(), 3u);
}

TEST(LedgerTest, OnlyTheNewestAreKeptAndSumsCountAll) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .records_max = 10});
  for (int i = 0; i < 100; ++i) {
    ledger.Add(Record(i));
    if (i % 7 == 0) ledger.Flush();
  }
  ledger.Flush();
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "r/"), 10u);
  EXPECT_EQ(Ids(ledger, {}).back(), "id1090");
  EXPECT_EQ(Stats(ledger)["totals"]["requests"], 100);
}

// A step begins where the last one ended, so what comes late into the part in front of it waits for
// the next look at ages.
TEST(LedgerTest, ARecordThatComesLateInFrontOfThoseThatWentGoesToo) {
  MemoryMetaStore meta;
  test::ManualClock clock;
  Ledger ledger({.meta = &meta, .records_max = 10});
  for (int i = 100; i < 200; ++i) ledger.Add(Record(i));
  ledger.Flush();
  ledger.Add(Record(1));
  ledger.Flush();
  EXPECT_EQ(Ids(ledger, {}).back(), "id1001");
  test::ManualClock::Advance(61s);
  ledger.Add(Record(200));
  ledger.Flush();
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "r/"), 10u);
  EXPECT_EQ(Ids(ledger, {}).back(), "id1191");
}

TEST(LedgerTest, OldRecordsGo) {
  MemoryMetaStore meta;
  {
    Ledger ledger({.meta = &meta, .retention_days = 3});
    RequestRecord old = Record(1);
    old.time_us -= int64_t{4} * 86'400 * 1'000'000;
    ledger.Add(old);
    ledger.Add(Record(2));
    EXPECT_EQ(Ids(ledger, {}), std::vector<std::string>{"id1002"});
  }
  Ledger none({.meta = &meta, .records_max = 0});
  none.Add(Record(3));
  none.Flush();
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "r/"), 0u);
}

TEST(LedgerTest, ADiskThatRefusesCostsRecordsAndNoSums) {
  MemoryMetaStore meta;
  {
    Ledger ledger({.meta = &meta});
    meta.refuses = true;
    ledger.Add(Record(1));
    ledger.Flush();
    EXPECT_EQ(Stats(ledger)["records_dropped"], 1);
    meta.refuses = false;
    ledger.Add(Record(2, "u"));
    EXPECT_EQ(Ids(ledger, {}), std::vector<std::string>{"id1002"});
  }
  Ledger ledger({.meta = &meta});
  EXPECT_EQ(Stats(ledger)["totals"]["by_tenant"]["t"]["requests"], 1) << "written with the next";
  EXPECT_EQ(Stats(ledger)["totals"]["requests"], 2);
}

// Like records that the disk refuses, these are counted, also on the writer's own thread, which
// continues.
TEST(LedgerTest, RecordsWithoutMemoryToWriteThemAreCountedAsLost) {
  MemoryMetaStore meta;
  {
    Ledger ledger({.meta = &meta, .write_interval = 1ms});
    meta.has_no_memory = true;
    ledger.Add(Record(1));
    EXPECT_TRUE(
        test::WaitUntil([&] { return Stats(ledger)["records_dropped"] == 1; }, "it is dropped"));
    ledger.Add(Record(2));
    EXPECT_EQ(Ids(ledger, {}), std::vector<std::string>{});
    EXPECT_EQ(Stats(ledger)["records_dropped"], 2);
    meta.has_no_memory = false;
    ledger.Add(Record(3));
    EXPECT_EQ(Ids(ledger, {}), std::vector<std::string>{"id1003"});
    EXPECT_EQ(Stats(ledger)["records_dropped"], 2);
    meta.has_no_memory = true;
    ledger.Add(Record(4));
  }
  meta.has_no_memory = false;
  Ledger ledger({.meta = &meta});
  EXPECT_EQ(Stats(ledger)["totals"]["requests"], 3) << "the sums of the last write";
}

TEST(LedgerTest, AFullQueueDropsAndNeverWaits) {
  MemoryMetaStore meta;
  meta.holds = true;
  Ledger ledger({.meta = &meta, .queue_max = 1, .write_interval = 1h});
  for (int i = 0; i < 50; ++i) ledger.Add(Record(i));
  const Json stats = Stats(ledger);
  EXPECT_EQ(stats["totals"]["requests"], 50);
  // One record may be in the write that is blocked, and one waits.
  EXPECT_GE(stats["records_dropped"], 48);
  meta.holds = false;
}

TEST(LedgerTest, WithoutADirectoryThereAreSumsAndNoRecords) {
  Ledger ledger({});
  ledger.Add(Record(1));
  EXPECT_EQ(Stats(ledger)["totals"]["requests"], 1);
  EXPECT_EQ(ledger.List({}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(ledger.Get("id1001").error().code, ErrorCode::kNotFound);
}

TEST(LedgerTest, AForwardedRequestBecomesARecord) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta});
  const auto observer = ledger.Begin({.request_id = "id9",
                                      .received_at = std::chrono::system_clock::now(),
                                      .upstream = "main",
                                      .provider = "openai",
                                      .endpoint = dialect::form::Endpoint::kChatCompletions,
                                      .method = "POST",
                                      .path = "/v1/chat/completions",
                                      .model = "gpt-6-sol",
                                      .tenant = "t",
                                      .key = {},
                                      .body = "{}",
                                      .content_encoding = {}});
  observer->OnSent("{}", "{}");
  observer->OnHead({.status = 200,
                    .content_type = "application/json",
                    .content_encoding = {},
                    .upstream_request_id = {}});
  observer->OnBody(R"({"usage":{"prompt_tokens":1000,"completion_tokens":1}})");
  observer->OnEnd({.status = 200, .error = {}, .num_attempts = 1});
  const Json json = Json::parse(ledger.Get("id9").value());
  EXPECT_EQ(json["cost"]["nanodollars"], 1000 * 2000 + 10'000);
}

// What is kept for rent is paid beside the tokens that were written, and nobody would have paid it
// without the gateway.
TEST(LedgerTest, APrefixThatIsKeptCostsItsRent) {
  const Result<Prices> prices = Prices::Parse(
      R"({"date": "2026-11-28", "providers": {"gemini": [
        {"models": ["*"], "input": 1, "output": 4, "cache_read_factor": 0.1,
         "cache_write_factor": 1, "cache_rent_hour_factor": 3, "source": "s", "date": "2026"}]}})",
      "prices.json");
  ASSERT_TRUE(prices) << prices.error().detail;
  for (const bool is_written : {true, false}) {
    MemoryMetaStore meta;
    Ledger ledger({.meta = &meta, .prices = *prices});
    const auto observer = ledger.Begin({.request_id = "id9",
                                        .received_at = std::chrono::system_clock::now(),
                                        .upstream = "google",
                                        .provider = "gemini",
                                        .method = "POST",
                                        .path = "/v1beta/cachedContents",
                                        .model = "gemini-2.5-pro",
                                        .tenant = "t",
                                        .key = {},
                                        .body = "{}",
                                        .content_encoding = {},
                                        .purpose = "explicit_cache"});
    observer->OnSent("{}", "{}");
    observer->OnKept({.num_tokens = 10'000, .seconds = 600, .is_written = is_written});
    observer->OnEnd({.status = 200, .error = {}, .num_attempts = 1});
    const Json json = Json::parse(ledger.Get("id9").value());
    EXPECT_EQ(json["usage"]["cache_write_tokens"], is_written ? 10'000 : 0);
    const int64_t written = is_written ? 10'000'000 : 0;
    EXPECT_EQ(json["cost"]["nanodollars"], written + 5'000'000);
    EXPECT_EQ(json["cost"]["uncached_nanodollars"], 0);
    EXPECT_TRUE(json["attribution"].contains("explicit_cache")) << json.dump();
  }
}

TEST(LedgerTest, ANameAsLongAsABodyIsCut) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta});
  RequestRecord record = Record(1);
  record.model = std::string(1 << 20, 'm');
  ledger.Add(record);
  EXPECT_LT(ledger.List({}).value().size(), 4000u);
  EXPECT_LT(Stats(ledger).dump().size(), 8000u);
}

TEST(LedgerTest, NothingIsLostBetweenThreads) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1ms});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 250; ++i) ledger.Add(Record(t * 1000 + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ledger.Flush();
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "r/"), 1000u);
  EXPECT_EQ(Stats(ledger)["totals"]["requests"], 1000);
}

TEST(LedgerTest, IdsAreDifferentAndSortByTime) {
  std::set<std::string> ids;
  std::string last;
  for (int i = 0; i < 100; ++i) {
    const std::string id = MakeRequestId();
    EXPECT_EQ(id.size(), 24u);
    EXPECT_GE(id.substr(0, 13), last);
    last = id.substr(0, 13);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 100u);
}

RequestRecord Broken(int number) {
  RequestRecord record = Record(number);
  record.mode = "pin";
  record.attribution = {{.source = "tools", .written = 12'000},
                        {.source = "user", .written = 304, .uncached = 3}};
  record.prefix_break = RecordBreak{.cause = "tool_added",
                                    .path = "tools[3]",
                                    .reusable_tokens = 5,
                                    .lost_tokens = 12'000,
                                    .lost_nanodollars = 41'400'000};
  return record;
}

TEST(LedgerTest, ATokensSourceIsPaidForAndSumsToTheInputsCost) {
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta, .write_interval = 1h});
  ledger.Add(Broken(1));
  const Json json = Json::parse(ledger.Get("id1001").value());
  const auto paid = [&](const char* source) {
    return json["attribution"][source]["nanodollars"].get<int64_t>();
  };
  EXPECT_EQ(paid("tools"), 45'000'000) << "12,000 at 3.75 dollars a million";
  EXPECT_EQ(paid("tools") + paid("user"), 54'399'000 - 550 * 15'000);
  EXPECT_EQ(json["break"]["cause"], "tool_added");
}

TEST(LedgerTest, SourcesAndBreaksAreSummedAndOutliveTheProcess) {
  MemoryMetaStore meta;
  {
    Ledger ledger({.meta = &meta});
    ledger.Add(Broken(1));
    ledger.Add(Broken(2));
    RequestRecord whole = Broken(3);
    whole.prefix_break = RecordBreak{.cause = "none"};
    ledger.Add(whole);
  }
  Ledger ledger({.meta = &meta});
  const Json totals = Stats(ledger)["totals"];
  EXPECT_EQ(totals["by_source"]["tools"]["written_tokens"], 36'000);
  EXPECT_EQ(totals["by_source"]["user"]["uncached_tokens"], 9);
  EXPECT_EQ(totals["by_source"]["tools"]["nanodollars"], 135'000'000);
  EXPECT_EQ(totals["breaks"], Json::parse(R"({"tool_added":{"breaks":2,"lost_tokens":24000,)"
                                          R"("lost_nanodollars":82800000}})"));
  std::string text;
  metrics::TextWriter writer(text);
  ledger.Collect(writer);
  EXPECT_THAT(text, HasSubstr("kvgate_ledger_source_tokens_total{source=\"tools\","
                              "kind=\"cache_write\"} 36000\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_ledger_source_cost_dollars_total{source=\"tools\"} 0.135\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_prefix_break_total{cause=\"tool_added\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_break_tokens_total{cause=\"tool_added\"} 24000\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_cost_usd_total{kind=\"actual\"} "));
  EXPECT_THAT(text, HasSubstr("kvgate_prefix_breaks_total{cause=\"tool_added\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_prefix_break_lost_tokens_total{cause=\"tool_added\"} 24000"));
  EXPECT_THAT(text,
              HasSubstr("kvgate_prefix_break_lost_dollars_total{cause=\"tool_added\"} 0.0828\n"));
}

TEST(LedgerTest, APreparationAddsToTheRecordBeforeItIsPricedAndCounted) {
  struct Preparation final : upstream::ExchangePreparation {};
  MemoryMetaStore meta;
  Ledger ledger({.meta = &meta,
                 .complete = [](RequestRecord& record, const reply::ReplyFacts& facts,
                                upstream::ExchangePreparation&) {
                   EXPECT_EQ(facts.provider_reason.view(), "tools_changed");
                   record.attribution = {{.source = "tools", .uncached = 3}};
                 }});
  const auto observer = ledger.Begin({.request_id = "id1",
                                      .received_at = std::chrono::system_clock::now(),
                                      .upstream = "main",
                                      .provider = "anthropic",
                                      .endpoint = dialect::form::Endpoint::kMessages,
                                      .method = "POST",
                                      .path = "/v1/messages",
                                      .model = "claude-3-7-sonnet",
                                      .tenant = {},
                                      .key = {},
                                      .body = "{}",
                                      .content_encoding = {}});
  observer->OnPrepared(std::make_shared<Preparation>());
  observer->OnSent("{}", "{}");
  observer->OnHead({.status = 200,
                    .content_type = "application/json",
                    .content_encoding = {},
                    .upstream_request_id = {}});
  observer->OnBody(R"({"usage":{"input_tokens":3,"output_tokens":1},)"
                   R"("diagnostics":{"cache_miss_reason":{"type":"tools_changed"}}})");
  observer->OnEnd({.status = 200, .error = {}});
  const Json json = Json::parse(ledger.Get("id1").value());
  EXPECT_EQ(json["attribution"]["tools"]["nanodollars"], 9'000);
  EXPECT_EQ(json["provider_reason"], "tools_changed");
  EXPECT_EQ(Stats(ledger)["totals"]["by_source"]["tools"]["uncached_tokens"], 3);
}

TEST(LedgerTest, UsesOfATenantFollowOneAnotherWithoutAGap) {
  MemoryMetaStore meta;
  std::mutex mutex;
  std::vector<Ledger::Use> uses;
  const auto on_use = [&](std::string_view tenant, const Ledger::Use& use) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(tenant, "t");
    uses.push_back(use);
  };
  {
    Ledger ledger({.meta = &meta, .on_use = on_use});
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 50; ++i) ledger.Add(Record(thread * 50 + i));
      });
    }
    for (std::thread& thread : threads) thread.join();
    RequestRecord silent = Record(900);
    silent.usage.reset();
    ledger.Add(silent);
    ASSERT_EQ(ledger.AllSpent().size(), 1u);
    EXPECT_EQ(ledger.AllSpent()[0].first, "t");
  }
  ASSERT_EQ(uses.size(), 200u) << "a record without a usage uses nothing";
  std::sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) {
    return a.after.tokens_today < b.after.tokens_today;
  });
  int64_t tokens = 0;
  for (const Ledger::Use& use : uses) {
    EXPECT_EQ(use.before.tokens_today, tokens);
    tokens = use.after.tokens_today;
  }
  Ledger again({.meta = &meta, .on_use = on_use});
  again.Add(Record(901));
  EXPECT_EQ(uses.back().before.tokens_today, tokens) << "a restart keeps the sums";
}

}  // namespace
}  // namespace kvgate::ledger
