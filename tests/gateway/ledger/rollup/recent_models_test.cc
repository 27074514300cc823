#include "gateway/ledger/rollup/recent_models.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "gateway/ledger/rollup/rollup_key.h"

namespace kvgate::ledger::rollup {
namespace {

using Json = nlohmann::json;

Json Written(const RecentModels& models, int64_t now_us,
             std::optional<std::string_view> tenant = {}) {
  std::string text;
  dialect::form::JsonWriter json(text);
  models.Write(now_us, tenant, json);
  return Json::parse(text);
}

TEST(RecentModelsTest, ModelsOfTheLastHourHaveTheirSpeed) {
  RecentModels models;
  Bucket bucket{.requests = 1, .decoded_tokens = 50, .decode_us = 500'000};
  bucket.tpot.Add(10'000);
  const int64_t now_us = 1'000 * kMinuteUs;
  models.Add(now_us - 70 * kMinuteUs, {"t", "old", "u"}, bucket);
  models.Add(now_us - 5 * kMinuteUs, {"t", "m", "u"}, bucket);
  models.Add(now_us, {"other", "m", "u"}, bucket);
  models.Add(now_us, {"t", "m", "local"}, {.requests = 2});
  const Json all = Written(models, now_us);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1]["model"], "m");
  EXPECT_EQ(all[1]["upstream"], "u");
  EXPECT_EQ(all[1]["requests"], 2);
  EXPECT_EQ(all[1]["output_tokens_per_second"], 100);
  EXPECT_TRUE(all[0]["output_tokens_per_second"].is_null());
  EXPECT_TRUE(all[0]["ttft_us"].is_null());
  EXPECT_EQ(Written(models, now_us, "other").size(), 1U);
  EXPECT_TRUE(Written(models, now_us + 61 * kMinuteUs).empty());
}

TEST(RecentModelsTest, NamesOfAMinuteAreBounded) {
  RecentModels models;
  for (int i = 0; i < 2'000; ++i) {
    models.Add(kMinuteUs, {"t", "m" + std::to_string(i), "u"}, {.requests = 1});
  }
  EXPECT_EQ(Written(models, kMinuteUs).size(), RecentModels::kPerMinuteMax);
}

}  // namespace
}  // namespace kvgate::ledger::rollup
