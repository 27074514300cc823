#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/service/service.h"
#include "tests/gateway/fakes.h"

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

TEST(IntrospectionTest, AModelIsShownUnderTheNameItWasAskedFor) {
  Gateway gateway;
  EXPECT_EQ(nlohmann::json::parse(*gateway.service.GetModel("local"))["id"], "local");
  EXPECT_EQ(nlohmann::json::parse(gateway.service.ListModels())["data"][0]["id"], "fake-model");
  EXPECT_EQ(gateway.service.GetModel("x").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvgate::service
