#include "gateway/service/explicit_cache/explicit_caching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/metrics/registry.h"

namespace kvgate::service::explicit_cache {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr int64_t kSecondUs = 1'000'000;
const std::string kSystem = R"({"parts":[{"text":")" + std::string(20'000, 'x') + R"("}]})";
constexpr const char* kMade =
    R"({"name":"cachedContents/a","usageMetadata":{"totalTokenCount":5000}})";

class ExplicitCachingTest : public ::testing::Test {
 protected:
  std::optional<CacheUse> Decide(const std::string& body, std::string_view tenant = "alice",
                                 std::string_view model = "gemini-2.5-pro") {
    now_us_ += kSecondUs;
    return caching_.Decide({.body = body,
                            .tenant = tenant,
                            .upstream = "google",
                            .provider = "gemini",
                            .credential = "key-1",
                            .model = model,
                            .now_us = now_us_});
  }
  // Requests that nothing is cached of, until a cache is ordered.
  CacheOrder Order(const std::string& body, std::string_view tenant = "alice") {
    for (int i = 0; i < 20; ++i) {
      std::optional<CacheUse> use = Decide(body, tenant);
      if (!use) break;
      caching_.NoteAnswer(*use, {.input_tokens = 5'100, .now_us = now_us_});
      if (use->order) return *std::move(use->order);
    }
    ADD_FAILURE() << "nothing was ordered";
    return {};
  }
  std::string Sent(const std::string& body, const CacheUse& use) {
    return prompt::parse::ApplyEdits(body, use.edits, {0, static_cast<uint32_t>(body.size())});
  }
  uint64_t Counted(std::string_view event) {
    return metrics_.explicit_caches.With({event}).value();
  }

  metrics::Registry registry_;
  metrics::PromptMetrics metrics_{registry_};
  ExplicitCaching caching_{ledger::Prices::Builtin(), &metrics_};
  int64_t now_us_ = 1'000 * kSecondUs;
};

TEST_F(ExplicitCachingTest, WhatACacheHoldsIsNamedInItsPlace) {
  const std::string system = R"("systemInstruction":)" + kSystem;
  const std::string tools = R"("tools":[{"functionDeclarations":[]}])";
  const std::string config = R"("tool_config" : {"functionCallingConfig":{"mode":"AUTO"}})";
  const std::string contents = R"("contents":[{"parts":[{"text":"hi"}]}])";
  for (const std::string& body :
       {"{" + system + "," + contents + "}", "{" + contents + ", " + system + "}",
        "{" + tools + ",\n" + system + " ,\n " + config + "\n, " + contents + "\n}",
        "{" + contents + "," + tools + "," + system + "}",
        "{" + system + "," + contents + "," + tools + R"(,"safetySettings":[],)" + config + "}",
        "{" + system + "}"}) {
    const std::string tenant = std::to_string(Counted("made"));  // of whom nothing is kept yet
    const CacheOrder order = Order(body, tenant);
    EXPECT_EQ(order.path, "/v1beta/cachedContents");
    const Json made = Json::parse(order.body);
    const Json received = Json::parse(body);
    EXPECT_EQ(made["systemInstruction"], received["systemInstruction"]);
    EXPECT_EQ(made.contains("tools"), received.contains("tools"));
    EXPECT_EQ(made.contains("toolConfig"), received.contains("tool_config"));
    EXPECT_EQ(caching_.NoteOutcome(order, 200, kMade, now_us_).value(), 5'000);
    const std::optional<CacheUse> use = Decide(body, tenant);
    ASSERT_TRUE(use);
    EXPECT_EQ(use->name, "cachedContents/a");
    Json expected = received;
    for (const char* held : {"systemInstruction", "tools", "tool_config"}) expected.erase(held);
    expected["cachedContent"] = "cachedContents/a";
    EXPECT_EQ(Json::parse(Sent(body, *use), nullptr, false), expected) << Sent(body, *use);
  }
  EXPECT_EQ(Counted("made"), 6u);
}

TEST_F(ExplicitCachingTest, ACacheIsForOneCallerModelAndPromptOnly) {
  const std::string body = R"({"systemInstruction":)" + kSystem + R"(,"contents":[]})";
  ASSERT_TRUE(caching_.NoteOutcome(Order(body), 200, kMade, now_us_));
  EXPECT_NE(Decide(body)->name, "");
  EXPECT_EQ(Decide(body, "bob")->name, "");
  EXPECT_EQ(Decide(body, "alice", "gemini-2.5-flash")->name, "");
  std::string other = body;
  other[100] = 'y';
  EXPECT_EQ(Decide(other)->name, "");
  // What belongs to the conversation is no part of it.
  EXPECT_NE(Decide(R"({"systemInstruction":)" + kSystem + R"(,"contents":[{}]})")->name, "");
}

TEST_F(ExplicitCachingTest, WhatIsNotUnderstoodOrNamesACacheItselfIsLeftAlone) {
  const std::string held = R"("systemInstruction":)" + kSystem;
  for (const std::string& body :
       {std::string("[]"), std::string("{"), std::string(R"({"contents":[]})"),
        std::string(R"({"systemInstruction":null,"tools":null})"), "{" + held + "," + held + "}",
        R"({"system_instruction":{},)" + held + "}", "{" + held + R"(,"cachedContent":"c"})",
        "{" + held + R"(,"cached_content":null})", R"({"toolConfig":{}})" + std::string()}) {
    EXPECT_FALSE(Decide(body)) << body.substr(0, 60);
  }
  EXPECT_FALSE(caching_.Decide({.body = "{" + held + "}",
                                .tenant = "alice",
                                .upstream = "other",
                                .provider = "openai",
                                .credential = "key-1",
                                .model = "gpt-5",
                                .now_us = now_us_}))
      << "it has no caches for rent";
}

TEST_F(ExplicitCachingTest, AConversationLongerThanItsPrefixGoesOutAsItCame) {
  const auto body = [](size_t size) {
    return R"({"systemInstruction":)" + kSystem + R"(,"contents":[{"parts":[{"text":")" +
           std::string(size, 'y') + R"("}]}]})";
  };
  EXPECT_TRUE(caching_.NoteOutcome(Order(body(10)), 200, kMade, now_us_));
  EXPECT_NE(Decide(body(19'000))->name, "");
  EXPECT_FALSE(Decide(body(21'000)));
}

TEST_F(ExplicitCachingTest, ARefusedOrderIsNotRepeatedForAnHourAndABusyOneForAMinute) {
  const std::string body = R"({"systemInstruction":)" + kSystem + "}";
  const auto failure = caching_.NoteOutcome(Order(body), 400, R"({"error":{}})", now_us_);
  ASSERT_FALSE(failure);
  EXPECT_THAT(failure.error().detail, HasSubstr("400"));
  now_us_ += 3'000 * kSecondUs;
  for (int i = 0; i < 100; ++i) {
    const std::optional<CacheUse> use = Decide(body);
    caching_.NoteAnswer(*use, {.input_tokens = 5'100, .now_us = now_us_});
    EXPECT_FALSE(use->order);
  }
  now_us_ += 600 * kSecondUs;
  const CacheOrder again = Order(body);
  EXPECT_FALSE(caching_.NoteOutcome(again, 503, "", now_us_));
  EXPECT_FALSE(Decide(body)->order);
  now_us_ += 60 * kSecondUs;
  const CacheOrder third = Order(body);
  // A name that is none is a refusal, too.
  EXPECT_FALSE(caching_.NoteOutcome(third, 200, R"({"name":"models/a"})", now_us_));
  EXPECT_EQ(Counted("refused"), 3u);
}

TEST_F(ExplicitCachingTest, ALostCacheIsForgotten) {
  const std::string body = R"({"systemInstruction":)" + kSystem + "}";
  ASSERT_TRUE(caching_.NoteOutcome(Order(body), 200, kMade, now_us_));
  const std::optional<CacheUse> use = Decide(body);
  caching_.NoteLost(*use);
  EXPECT_EQ(Decide(body)->name, "");
  EXPECT_EQ(Counted("lost"), 1u);
}

TEST_F(ExplicitCachingTest, ACacheIsProlongedByItsName) {
  const std::string body = R"({"systemInstruction":)" + kSystem + "}";
  const CacheOrder order = Order(body);
  ASSERT_TRUE(caching_.NoteOutcome(order, 200, kMade, now_us_));
  std::optional<CacheUse> use;
  for (int i = 0; i < order.ttl_seconds && !(use && use->order); ++i) use = Decide(body);
  ASSERT_TRUE(use && use->order);
  EXPECT_TRUE(use->order->prolongs);
  EXPECT_EQ(use->order->path, "/v1beta/cachedContents/a?updateMask=ttl");
  EXPECT_EQ(use->name, "cachedContents/a") << "it holds until then";
  EXPECT_TRUE(caching_.NoteOutcome(*use->order, 200, kMade, now_us_));
  EXPECT_EQ(Counted("prolonged"), 1u);
}

}  // namespace
}  // namespace kvgate::service::explicit_cache
