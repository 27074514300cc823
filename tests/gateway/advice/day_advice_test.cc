#include "gateway/advice/day_advice.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::advice {
namespace {

using Json = nlohmann::json;

TEST(DayAdviceTest, RecordsAndTheirPartsAreReadBackAndTenantsSeeTheirOwn) {
  store::MemoryMetaStore meta;
  ledger::Ledger ledger({.meta = &meta});
  for (int i = 0; i < 40; ++i) {
    ledger::RequestRecord record;
    record.id = ledger::MakeRequestId();
    record.time_us = WallClock::NowUs();
    record.provider = "anthropic";
    record.upstream = "main";
    record.model = "claude-3-7-sonnet-20250219";
    record.tenant = i % 2 == 0 ? "even" : "odd";
    record.status = 200;
    record.usage = ledger::reply::TokenUsage{.uncached_tokens = 3'000};
    record.attribution = {{.source = "tools", .uncached = 2'000},
                          {.source = "user", .uncached = 1'000}};
    record.segments = {{.source = "tools", .name = "never_called", .uncached = 2'000},
                       {.source = "user", .uncached = 1'000}};
    ledger.Add(record);
  }
  const Json all = Json::parse(AdviseDay(ledger).value());
  ASSERT_EQ(all["data"].size(), 1U);
  EXPECT_EQ(all["data"][0]["id"], "unused_tools");
  EXPECT_EQ(all["data"][0]["requests"], 40);
  EXPECT_NE(all["data"][0]["what"].get<std::string>().find("never_called"), std::string::npos);
  EXPECT_EQ(Json::parse(AdviseDay(ledger, "odd").value())["data"][0]["requests"], 20);
  EXPECT_TRUE(Json::parse(AdviseDay(ledger, "nobody").value())["data"].empty());
}

TEST(DayAdviceTest, WithoutADirectoryThereAreNoRecordsToAdviseFrom) {
  ledger::Ledger ledger({});
  EXPECT_EQ(AdviseDay(ledger).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace kvgate::advice
