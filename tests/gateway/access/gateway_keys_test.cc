#include "gateway/access/gateway_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::access {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

std::unique_ptr<GatewayKeys> Open(const std::vector<config::KeyConfig>& configs) {
  auto keys = GatewayKeys::Open(
      configs, [](const char* name) { return std::string_view(name) == "SET" ? "the key" : ""; });
  EXPECT_TRUE(keys);
  return std::move(*keys);
}

config::KeyConfig Config() {
  config::KeyConfig config;
  config.name = "team";
  config.key_env = "SET";
  return config;
}

TEST(GatewayKeysTest, FindsAKeyByItsTextOrItsDigest) {
  config::KeyConfig hashed;
  hashed.name = "hashed";
  // This is the SHA-256 of "abc".
  hashed.sha256 = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
  const auto keys = Open({Config(), hashed});
  ASSERT_NE(keys->Find("abc"), nullptr);
  EXPECT_EQ(keys->Find("abc")->name(), "hashed");
  EXPECT_EQ(keys->Find("the key")->name(), "team");
  EXPECT_EQ(keys->Find("the kez"), nullptr);
  EXPECT_EQ(keys->Find(""), nullptr);
}

TEST(GatewayKeysTest, AVariableThatIsNotSetIsNamed) {
  config::KeyConfig config = Config();
  config.key_env = "UNSET";
  const auto keys = GatewayKeys::Open({config}, [](const char*) { return ""; });
  ASSERT_FALSE(keys);
  EXPECT_THAT(keys.error().detail, HasSubstr("key 'team': the environment variable UNSET"));
}

TEST(GatewayKeysTest, OnlyItsModelsAreAllowed) {
  config::KeyConfig config = Config();
  config.models = {"gpt-*", "local"};
  const auto keys = Open({config});
  GatewayKeys::Key& key = *keys->Find("the key");
  EXPECT_TRUE(key.Admit({.model = "gpt-5", .now = {}}));
  EXPECT_TRUE(key.Admit({.model = "", .now = {}}));
  EXPECT_EQ(key.Admit({.model = "claude", .now = {}}).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(key.Admit({.model = "", .model_unknown = true, .now = {}}).error().code,
            ErrorCode::kPermissionDenied);
}

TEST(GatewayKeysTest, AKeyHasARoleAndTheKeyOfMetricsIsNone) {
  config::KeyConfig admin = Config();
  admin.role = "admin";
  EXPECT_EQ(Open({Config()})->Find("the key")->role(), CallerRole::kUser);
  EXPECT_EQ(Open({admin})->Find("the key")->role(), CallerRole::kAdmin);
  EXPECT_FALSE(Open({admin})->has_metrics_key());
  const auto environment = [](const char* name) {
    return std::string_view(name) == "SCRAPER" ? "scraper's" : "";
  };
  const auto keys =
      GatewayKeys::Open({}, environment, nullptr, {.key_env = "SCRAPER", .sha256 = ""});
  ASSERT_TRUE(keys);
  EXPECT_TRUE((*keys)->empty());
  EXPECT_TRUE((*keys)->has_metrics_key());
  EXPECT_TRUE((*keys)->IsMetricsKey("scraper's"));
  EXPECT_FALSE((*keys)->IsMetricsKey("scraper"));
  EXPECT_FALSE((*keys)->IsMetricsKey(""));
  EXPECT_EQ((*keys)->Find("scraper's"), nullptr);
  const auto unset =
      GatewayKeys::Open({}, environment, nullptr, {.key_env = "UNSET", .sha256 = ""});
  ASSERT_FALSE(unset);
  EXPECT_THAT(unset.error().detail, HasSubstr("[metrics]: the environment variable UNSET"));
}

TEST(GatewayKeysTest, RequestsPerMinuteComeBackWithTime) {
  config::KeyConfig config = Config();
  config.requests_per_minute = 2;
  const auto keys = Open({config});
  GatewayKeys::Key& key = *keys->Find("the key");
  const GatewayKeys::TimePoint now{seconds(1000)};
  EXPECT_TRUE(key.Admit({.model = "", .now = now}));
  EXPECT_TRUE(key.Admit({.model = "", .now = now}));
  const auto refused = key.Admit({.model = "", .now = now});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kRateLimited);
  EXPECT_EQ(refused.error().retry_after_seconds, 30);
  EXPECT_FALSE(key.Admit({.model = "", .now = now + seconds(29)}));
  EXPECT_TRUE(key.Admit({.model = "", .now = now + seconds(31)}));
}

TEST(GatewayKeysTest, TokensStopTheRequestsThatFollow) {
  config::KeyConfig config = Config();
  config.tokens_per_minute = 100;
  const auto keys = Open({config});
  GatewayKeys::Key& key = *keys->Find("the key");
  const GatewayKeys::TimePoint now{seconds(1000)};
  EXPECT_TRUE(key.Admit({.model = "", .now = now}));
  key.Spend(150, now);
  EXPECT_EQ(key.Admit({.model = "", .now = now}).error().retry_after_seconds, 30);
  EXPECT_TRUE(key.Admit({.model = "", .now = now + seconds(31)}));
}

TEST(GatewayKeysTest, ABudgetThatIsUsedUpRefusesWithItsRenewal) {
  const auto keys = Open({Config()});
  GatewayKeys::Key& key = *keys->Find("the key");
  Budget budget{.limit = 1, .used = 0.99, .renews_us = 90'000'000};
  EXPECT_TRUE(key.Admit({.model = "", .budgets = {&budget, 1}}));
  budget.used = 1;
  const Result<void> refused = key.Admit({.model = "", .budgets = {&budget, 1}});
  EXPECT_EQ(refused.error().code, ErrorCode::kRateLimited);
  EXPECT_EQ(refused.error().retry_after_seconds, 90);
  EXPECT_THAT(refused.error().detail, HasSubstr("The key 'team' has used 1.00 of its 1.00"));
}

}  // namespace
}  // namespace kvgate::access
