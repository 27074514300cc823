#include "gateway/ledger/rollup/warm_caches.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::ledger::rollup {
namespace {

using Json = nlohmann::json;

Json Written(const WarmCaches& caches, int64_t now_us,
             std::optional<std::string_view> tenant = {}) {
  std::string text;
  dialect::form::JsonWriter json(text);
  caches.Write(now_us, tenant, json);
  return Json::parse(text);
}

WarmCache Of(const std::string& conversation, int64_t last_us, int64_t expires_us) {
  return {.conversation = conversation,
          .tenant = "t",
          .upstream = "u",
          .tokens = 5,
          .last_us = last_us,
          .expires_us = expires_us};
}

TEST(WarmCachesTest, TheSoonestToGoColdIsFirstAndColdOnesAreNotShown) {
  WarmCaches caches;
  caches.Note(Of("a", 0, 100));
  caches.Note(Of("b", 0, 50));
  caches.Note(Of("c", 0, 200));
  caches.Note(Of("a", 10, 300));  // used again
  const Json shown = Written(caches, 60);
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown[0]["conversation"], "c");
  EXPECT_EQ(shown[1]["expires_us"], 300);
  EXPECT_FALSE(shown[0].contains("session"));
  EXPECT_TRUE(Written(caches, 60, "another").empty());
}

TEST(WarmCachesTest, AnAnswerThatTookLongDoesNotReplaceALaterOne) {
  WarmCaches caches;
  caches.Note(Of("a", 10, 300));
  caches.Note(Of("a", 5, 100));
  EXPECT_EQ(Written(caches, 0)[0]["expires_us"], 300);
}

TEST(WarmCachesTest, MemoryAndTheListAreBounded) {
  WarmCaches caches;
  for (int i = 0; i < 20'000; ++i) caches.Note(Of("c" + std::to_string(i), i, 1'000'000 + i));
  const Json shown = Written(caches, 0);
  EXPECT_EQ(shown.size(), WarmCaches::kShownMax);
  EXPECT_GT(shown[0]["expires_us"].get<int64_t>(), 1'000'000 + 20'000 - 5'000);
}

}  // namespace
}  // namespace kvgate::ledger::rollup
