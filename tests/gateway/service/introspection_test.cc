#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "gateway/service/service.h"
#include "tests/gateway/fakes.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::service {

using access::CallerRole;

namespace {

using test::Gateway;
using ::testing::HasSubstr;

TEST(IntrospectionTest, WithoutADiskTierTheStatsSayWhy) {
  Gateway gateway;
  EXPECT_EQ(
      nlohmann::json::parse(gateway.service.Stats({.role = CallerRole::kAdmin}))["store"]["error"],
      "switched off");
  EXPECT_THAT(gateway.service.Metrics(), HasSubstr("kvgate_store_up 0\n"));
}

TEST(IntrospectionTest, StatsAndMetricsCoverEngineAndStore) {
  test::FakeKvStore kv;
  Gateway gateway({}, &kv);
  const auto stats = nlohmann::json::parse(gateway.service.Stats({.role = CallerRole::kAdmin}));
  EXPECT_EQ(stats["ready"], true);
  EXPECT_EQ(stats["engine"]["device_tokens"], 96);
  EXPECT_EQ(stats["store"]["records"], 7);
  const std::string text = gateway.service.Metrics();
  EXPECT_THAT(text, HasSubstr("kvgate_store_records 7\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_store_up 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_engine_prompt_tokens_total{source=\"device\"} 96\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_ready 1\n"));
}

TEST(IntrospectionTest, StoredTurnsAreCounted) {
  store::MemoryMetaStore meta;
  const auto turns = store::meta::TurnStore::Open({.meta = meta}).value();
  store::meta::Turn turn;
  turn.id = "resp_1";
  turn.items = {{.role = "user", .payload = "[]"}};
  ASSERT_TRUE(turns->Append(turn));
  metrics::Registry registry;
  metrics::GatewayMetrics metrics{registry};
  const Service service(
      {.registry = registry, .metrics = metrics, .turns = turns.get(), .has_local = false});
  const auto stats = nlohmann::json::parse(service.Stats({.role = CallerRole::kAdmin}))["turns"];
  EXPECT_EQ(stats["enabled"], true);
  EXPECT_EQ(stats["turns"], 1);
  EXPECT_EQ(stats["conversations"], 1);
  EXPECT_GT(stats["bytes"], 0);
  const std::string text = service.Metrics();
  EXPECT_THAT(text, HasSubstr("kvgate_turns 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_turns_appended_total 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_turn_capacity_bytes 1073741824\n"));
}

TEST(IntrospectionTest, AModelIsShownUnderTheNameItWasAskedFor) {
  Gateway gateway;
  EXPECT_EQ(nlohmann::json::parse(*gateway.service.GetModel("local"))["id"], "local");
  const auto list =
      nlohmann::json::parse(gateway.service.ListModels([](auto) { return true; }))["data"];
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["id"], "fake-model");
  EXPECT_EQ(list[1]["id"], "local");
  EXPECT_EQ(gateway.service.GetModel("x").error().code, ErrorCode::kNotFound);
}

TEST(IntrospectionTest, AModelIsListedUnderANameThatTheCallerMayUse) {
  Gateway gateway;
  const auto ids = [&](std::string_view only) {
    return nlohmann::json::parse(
        gateway.service.ListModels([&](std::string_view id) { return id == only; }))["data"];
  };
  EXPECT_EQ(ids("local")[0]["id"], "local");
  EXPECT_TRUE(ids("gpt-5").empty());
}

TEST(IntrospectionTest, AUserSeesNothingOfTheEngineTheStoreOrOthers) {
  store::MemoryMetaStore meta;
  ledger::Ledger ledger({.meta = &meta});
  for (const char* tenant : {"alice", "bob", "bob"}) {
    ledger::RequestRecord record;
    record.id = ledger::MakeRequestId();
    record.tenant = tenant;
    record.time_us = std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    ledger.Add(std::move(record));
  }
  metrics::Registry registry;
  metrics::GatewayMetrics metrics{registry};
  const Service service(
      {.registry = registry, .metrics = metrics, .ledger = &ledger, .has_local = false});
  const access::Caller bob{.role = CallerRole::kUser, .tenant = "bob"};
  const auto stats = nlohmann::json::parse(service.Stats(bob));
  EXPECT_FALSE(stats.contains("engine"));
  EXPECT_TRUE(stats["store"].is_null());
  EXPECT_EQ(stats["ledger"]["totals"]["requests"], 2);
  EXPECT_EQ(stats["ledger"]["totals"]["by_tenant"].size(), 1u);
  EXPECT_EQ(stats["ledger"]["totals"]["by_tenant"]["bob"]["requests"], 2);
  const auto records = nlohmann::json::parse(service.ListRequests(bob, {}).value())["data"];
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["tenant"], "bob");
  const auto all =
      nlohmann::json::parse(service.ListRequests({.role = CallerRole::kAdmin}, {}).value())["data"];
  ASSERT_EQ(all.size(), 3u);
  const std::string others = all[2]["id"];
  EXPECT_TRUE(service.GetRequest({.role = CallerRole::kAdmin}, others));
  EXPECT_TRUE(service.GetRequest({.role = CallerRole::kUser, .tenant = "alice"}, others));
  const auto hidden = service.GetRequest(bob, others);
  const auto absent = service.GetRequest(bob, std::string(24, '0'));
  EXPECT_EQ(hidden.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(hidden.error().code, absent.error().code);
  EXPECT_EQ(hidden.error().detail.size(), absent.error().detail.size()) << "but for the id";
}

}  // namespace
}  // namespace kvgate::service
