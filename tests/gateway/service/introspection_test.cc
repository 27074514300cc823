#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/service/service.h"
#include "tests/gateway/fakes.h"
#include "tests/gateway/ledger/memory_meta_store.h"

namespace kvgate::service {
namespace {

using testing::Gateway;
using ::testing::HasSubstr;

TEST(IntrospectionTest, WithoutADiskTierTheStatsSayWhy) {
  Gateway gateway;
  EXPECT_EQ(nlohmann::json::parse(gateway.service.Stats())["store"]["error"], "switched off");
  EXPECT_THAT(gateway.service.Metrics(), HasSubstr("kvgate_store_up 0\n"));
}

TEST(IntrospectionTest, StatsAndMetricsCoverEngineAndStore) {
  testing::FakeKvStore kv;
  Gateway gateway({}, &kv);
  const auto stats = nlohmann::json::parse(gateway.service.Stats());
  EXPECT_EQ(stats["ready"], true);
  EXPECT_EQ(stats["engine"]["device_tokens"], 96);
  EXPECT_EQ(stats["store"]["records"], 7);
  const std::string text = gateway.service.Metrics();
  EXPECT_THAT(text, HasSubstr("kvgate_store_records 7\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_store_up 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_prompt_tokens_total{source=\"device\"} 96\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_ready 1\n"));
}

TEST(IntrospectionTest, StoredTurnsAreCounted) {
  store::MemoryMetaStore meta;
  const auto turns = store::TurnStore::Open({.meta = meta}).value();
  store::Turn turn;
  turn.id = "resp_1";
  turn.items = {{.role = "user", .payload = "[]"}};
  ASSERT_TRUE(turns->Append(turn));
  metrics::Registry registry;
  metrics::GatewayMetrics metrics{registry};
  const Service service(
      {.registry = registry, .metrics = metrics, .turns = turns.get(), .has_local = false});
  const auto stats = nlohmann::json::parse(service.Stats())["turns"];
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
  EXPECT_EQ(nlohmann::json::parse(gateway.service.ListModels())["data"][0]["id"], "fake-model");
  EXPECT_EQ(gateway.service.GetModel("x").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvgate::service
