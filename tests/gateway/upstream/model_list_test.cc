#include "gateway/upstream/model_list.h"

#include <gtest/gtest.h>

namespace kvgate::upstream {

using dialect::form::Api;

namespace {

using std::chrono::seconds;

TEST(ModelListTest, JoinsInTheCallersDialectAndKeepsItsOwnEntries) {
  auto all = ParseModelList(R"({"object":"list","data":[{"id":"a", "created":1.0},{"id":"b"}]})",
                            Api::kOpenAi, "one");
  const auto more = ParseModelList(R"({"data":[{"type":"model","id":"c"},{"id":"a","x":2}]})",
                                   Api::kAnthropic, "two");
  ASSERT_TRUE(all && more);
  all->insert(all->end(), more->begin(), more->end());
  EXPECT_EQ(JoinModelLists(*all, Api::kOpenAi),
            R"({"object":"list","data":[{"id":"a", "created":1.0},{"id":"b"},)"
            R"({"id":"c","object":"model","created":0,"owned_by":"two"}]})");
  EXPECT_EQ(JoinModelLists(*more, Api::kAnthropic),
            R"({"data":[{"type":"model","id":"c"},{"id":"a","x":2}],)"
            R"("has_more":false,"first_id":"c","last_id":"a"})");
  EXPECT_EQ(JoinModelLists({}, Api::kOpenAi), R"({"object":"list","data":[]})");
}

TEST(ModelListTest, WhatIsNoListIsNothing) {
  for (const char* bad : {"", "{}", R"({"data":{}})", R"({"data":[{"name":"x"}]})", "[]"}) {
    EXPECT_FALSE(ParseModelList(bad, Api::kOpenAi, "u")) << bad;
  }
}

TEST(ModelListCacheTest, ForgetsWhatIsOldButCanStillTellIt) {
  ModelListCache cache;
  const ModelListCache::TimePoint now{};
  cache.Put("u t", {{.id = "a", .json = "{}", .owner = "u"}}, now);
  EXPECT_TRUE(cache.Find("u t", now + seconds(9)));
  EXPECT_FALSE(cache.Find("u t", now + seconds(11)));
  EXPECT_TRUE(cache.FindStale("u t"));
  EXPECT_FALSE(cache.FindStale("u other"));
  for (size_t i = 0; i <= ModelListCache::kListsMax; ++i) cache.Put(std::to_string(i), {}, now);
  EXPECT_FALSE(cache.FindStale("u t"));
}

TEST(ModelListTest, GeminisNamesAreIdsBehindAPrefix) {
  using dialect::form::Api;
  const auto models =
      ParseModelList(R"({"models":[{"name":"models/gemini-3","x":1}]})", Api::kGemini, "google");
  ASSERT_TRUE(models);
  EXPECT_EQ(models->front().id, "gemini-3");
  EXPECT_EQ(JoinModelLists(*models, Api::kGemini),
            R"({"models":[{"name":"models/gemini-3","x":1}]})");
  EXPECT_EQ(GeminiModel("m"), R"({"name":"models/m","displayName":"m",)"
                              R"("supportedGenerationMethods":["generateContent","countTokens"]})");
}

}  // namespace
}  // namespace kvgate::upstream
