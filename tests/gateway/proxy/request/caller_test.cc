#include "gateway/proxy/request/caller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "gateway/local/prefix_service.h"
#include "tests/gateway/upstream/telling_log.h"

namespace kvgate::proxy::request {
namespace {

using access::CallerRole;
using ::testing::HasSubstr;
using upstream::wire::HeaderFields;

std::string DigestOf(std::string_view secret) {
  return ToHex(ThreadSha256().Update(secret).Finish().bytes);
}

config::KeyConfig Key(std::string name, std::string_view secret) {
  config::KeyConfig key;
  key.name = std::move(name);
  key.sha256 = DigestOf(secret);
  return key;
}

std::shared_ptr<const Targets> Open(const TargetOptions& options) {
  auto opened = Targets::Open(options, false, nullptr);
  EXPECT_TRUE(opened) << opened.error().ToString();
  return opened ? *opened : nullptr;
}

// A gateway with a key of each role.
std::shared_ptr<const Targets> WithKeys() {
  config::KeyConfig boss = Key("boss", "boss-key");
  boss.role = "admin";
  return Open({.keys = {Key("team", "team-key"), boss}});
}

Caller Make(const std::shared_ptr<const Targets>& targets, HeaderFields fields,
            bool is_loopback = true) {
  return Caller({.targets = targets, .admin_token = "the token", .is_loopback = is_loopback},
                fields);
}

std::unique_ptr<upstream::Upstream> Upstream(const std::string& api_key,
                                             bool forward_unknown = true) {
  config::UpstreamConfig config;
  config.name = "up";
  config.base_url = "http://127.0.0.1:1/v1";
  config.forward_unknown = forward_unknown;
  if (!api_key.empty()) config.api_key_env = "KEY";
  auto opened = upstream::Upstream::Open(
      config, [&](const char* name) { return std::string(name) == "KEY" ? api_key : ""; });
  EXPECT_TRUE(opened);
  return std::move(*opened);
}

TEST(CallerTest, TheGatewaysSecretsLeaveTheHeadWhetherTheyAreRightOrNot) {
  for (const char* const secret : {"team-key", "wrong"}) {
    HeaderFields fields = {{.name = "X-KVGATE-KEY", .value = secret},
                           {.name = "x-kvgate-admin", .value = secret},
                           {.name = "X-Kvgate-Admin", .value = "twice"},
                           {.name = "Authorization", .value = "Bearer sk-1"}};
    const Caller caller({.targets = WithKeys(), .admin_token = {}}, fields);
    ASSERT_EQ(fields.size(), 1u);
    EXPECT_EQ(fields[0].name, "Authorization");
  }
}

TEST(CallerTest, WithoutKeysTheWayThatARequestCameDecides) {
  const auto targets = Open({});
  EXPECT_EQ(Make(targets, {}).role(), CallerRole::kAdmin);
  EXPECT_EQ(Make(targets, {}, /*is_loopback=*/false).role(), CallerRole::kUser);
  EXPECT_EQ(Make(targets, {{.name = "X-Forwarded-For", .value = "1.2.3.4"}}).role(),
            CallerRole::kUser);
  EXPECT_EQ(Make(targets, {{.name = "x-kvgate-admin", .value = "the token"}}, /*is_loopback=*/false)
                .role(),
            CallerRole::kAdmin);
  // A provider's credential is none of the gateway's, so it takes nothing away.
  EXPECT_EQ(Make(targets, {{.name = "x-api-key", .value = "sk-1"}}).role(), CallerRole::kAdmin);
}

TEST(CallerTest, OneKeyIsOneTenantInWhicheverHeaderItComes) {
  const auto targets = Open({});
  const std::string tenant = Make(targets, {{"authorization", "Bearer sk-1"}}).tenant();
  EXPECT_EQ(tenant, local::TenantOf("Bearer sk-1"));
  EXPECT_EQ(Make(targets, {{"x-api-key", "sk-1"}}).tenant(), tenant);
  EXPECT_EQ(Make(targets, {{"authorization", "bearer sk-1"}}).tenant(), tenant);
  EXPECT_NE(Make(targets, {{"x-api-key", "sk-2"}}).tenant(), tenant);
  EXPECT_NE(Make(targets, {{"authorization", "Basic sk-1"}}).tenant(), tenant);
}

TEST(CallerTest, TenantsAreTheKeysNameOrTheHashOfACredential) {
  const auto keyless = Open({});
  EXPECT_EQ(Make(keyless, {}).tenant(), "");
  const Caller one = Make(keyless, {{.name = "authorization", .value = "Bearer sk-1"}});
  const Caller two = Make(keyless, {{.name = "authorization", .value = "Bearer sk-2"}});
  EXPECT_NE(one.tenant(), "");
  EXPECT_NE(one.tenant(), two.tenant());
  EXPECT_THAT(one.tenant(), ::testing::Not(HasSubstr("sk-1")));
  const Caller team = Make(WithKeys(), {{.name = "x-kvgate-key", .value = "team-key"}});
  EXPECT_EQ(team.tenant(), "team");
  EXPECT_EQ(team.credential(), "kvgate-key:team");
  EXPECT_EQ(team.who().tenant, "team");
}

TEST(CallerTest, InTheBackgroundItIsTheSameCallerWithoutItsCredential) {
  const Caller caller = Make(Open({}), {{"authorization", "Bearer sk-1"}});
  const Caller background = caller.InBackground();
  EXPECT_EQ(background.credential(), caller.credential());
  EXPECT_EQ(background.tenant(), caller.tenant());
  EXPECT_EQ(background.role(), caller.role());
  EXPECT_EQ(background.provider_credential(), "");
  EXPECT_EQ(background.SentCredential(nullptr), "");
  EXPECT_EQ(background.SentCredential(Upstream("sk-own").get()), "sk-own");
  const Caller team = Make(WithKeys(), {{"x-api-key", "team-key"}}).InBackground();
  EXPECT_EQ(team.tenant(), "team");
  EXPECT_TRUE(team.key_is_credential());
}

TEST(CallerTest, AKeyIsTakenFromEachOfItsHeaders) {
  const auto targets = WithKeys();
  const HeaderFields ways[] = {{{.name = "Authorization", .value = "bearer team-key"}},
                               {{.name = "X-Api-Key", .value = "team-key"}},
                               {{.name = "x-kvgate-key", .value = "team-key"}}};
  for (const HeaderFields& fields : ways) {
    const Caller caller = Make(targets, fields);
    EXPECT_EQ(caller.role(), CallerRole::kUser) << fields[0].name;
    ASSERT_NE(caller.key_config(), nullptr);
    EXPECT_EQ(caller.key_config()->name, "team");
    // Sent as a provider's credential is, it must not reach the provider.
    EXPECT_EQ(caller.key_is_credential(), fields[0].name != "x-kvgate-key");
    EXPECT_EQ(caller.provider_credential(), "");
  }
  EXPECT_EQ(Make(targets, {{.name = "x-api-key", .value = "boss-key"}}).role(), CallerRole::kAdmin);
}

TEST(CallerTest, BesideTheGatewaysKeyACallerMayHaveACredentialForTheProvider) {
  const Caller caller = Make(WithKeys(), {{.name = "x-kvgate-key", .value = "team-key"},
                                          {.name = "authorization", .value = "Bearer sk-own"}});
  EXPECT_EQ(caller.tenant(), "team");
  EXPECT_FALSE(caller.key_is_credential());
  EXPECT_EQ(caller.provider_credential(), "sk-own");
}

TEST(CallerTest, WhatIsWrongVoidsAllElse) {
  const auto targets = WithKeys();
  const HeaderFields wrong[] = {
      {{.name = "authorization", .value = "Bearer nobody's"}},
      {{.name = "authorization", .value = "Basic team-key"}},
      // The gateway's own header decides, whatever the others say.
      {{.name = "x-kvgate-key", .value = "wrong"}, {.name = "x-api-key", .value = "team-key"}},
      {{.name = "x-kvgate-admin", .value = "wrong"}, {.name = "x-api-key", .value = "boss-key"}},
      {{.name = "x-kvgate-admin", .value = "the token"}, {.name = "x-api-key", .value = "wrong"}}};
  for (const HeaderFields& fields : wrong) {
    const Caller caller = Make(targets, fields);
    EXPECT_EQ(caller.role(), CallerRole::kNobody) << fields.back().value;
    EXPECT_EQ(caller.key(), nullptr);
  }
  // Loopback is no evidence either, once there are keys.
  EXPECT_EQ(Make(targets, {}).role(), CallerRole::kNobody);
  // A wrong token is refused without keys, too.
  EXPECT_EQ(Make(Open({}), {{.name = "x-kvgate-admin", .value = "wrong"}}).role(),
            CallerRole::kNobody);
}

TEST(CallerTest, WithoutAnAdminTokenNoneIsAccepted) {
  HeaderFields fields = {{.name = "x-kvgate-admin", .value = "any"}};
  const Caller caller({.targets = Open({}), .admin_token = {}, .is_loopback = true}, fields);
  EXPECT_EQ(caller.role(), CallerRole::kNobody);
}

TEST(CallerTest, TheKeyOfMetricsIsNoOtherKey) {
  const auto targets = Open({.metrics = {.key_env = {}, .sha256 = DigestOf("scraper")}});
  const Caller scraper =
      Make(targets, {{.name = "authorization", .value = "Bearer scraper"}}, false);
  EXPECT_EQ(scraper.role(), CallerRole::kMetrics);
  EXPECT_TRUE(scraper.key_is_credential());
  const Caller other = Make(targets, {{.name = "authorization", .value = "Bearer sk-1"}}, false);
  EXPECT_EQ(other.role(), CallerRole::kUser);
  EXPECT_EQ(other.provider_credential(), "sk-1");
}

TEST(CallerTest, OfTwoCredentialsASubscriptionsCounts) {
  const auto targets = Open({});
  const auto credential = [&](HeaderFields fields) {
    return std::string(Make(targets, std::move(fields)).provider_credential());
  };
  EXPECT_EQ(credential({{.name = "authorization", .value = "Basic abc"}}), "");
  EXPECT_EQ(credential({{.name = "authorization", .value = "BEARER sk-1"}}), "sk-1");
  EXPECT_EQ(credential({{.name = "authorization", .value = "Bearer sk-1"},
                        {.name = "x-api-key", .value = "sk-2"}}),
            "sk-2");
  EXPECT_EQ(credential({{.name = "authorization", .value = "Bearer sk-ant-oat-1"},
                        {.name = "x-api-key", .value = "sk-2"}}),
            "sk-ant-oat-1");
}

TEST(CallerTest, AnUpstreamGetsItsConfiguredKeyOrTheCallersOwn) {
  const Caller caller = Make(Open({}), {{.name = "x-api-key", .value = "sk-own"}});
  EXPECT_EQ(caller.SentCredential(nullptr), "sk-own");
  EXPECT_EQ(caller.SentCredential(Upstream("").get()), "sk-own");
  EXPECT_EQ(caller.SentCredential(Upstream("sk-operator").get()), "sk-operator");
}

TEST(CallerTest, UnknownPathsTakeACredentialOfOnesOwnOrTheRoleAdmin) {
  const auto keyless = Open({});
  const auto open = Upstream("");
  const auto keyed = Upstream("sk-operator");
  const HeaderFields own = {{.name = "x-api-key", .value = "sk-own"}};
  const Caller admin = Make(keyless, {});
  EXPECT_TRUE(admin.MaySendUnknown(*keyed));
  EXPECT_FALSE(admin.MaySendUnknown(*Upstream("", /*forward_unknown=*/false)));
  const Caller user = Make(keyless, own, /*is_loopback=*/false);
  EXPECT_TRUE(user.MaySendUnknown(*open));
  EXPECT_FALSE(user.MaySendUnknown(*keyed)) << "with the operator's credential";
  EXPECT_FALSE(Make(keyless, {}, /*is_loopback=*/false).MaySendUnknown(*open));
  EXPECT_FALSE(
      Make(WithKeys(), {{.name = "x-api-key", .value = "team-key"}}).MaySendUnknown(*open));
}

TEST(CallerTest, AKeysLimitsAreCountedAndSaid) {
  config::KeyConfig key = Key("team", "team-key");
  key.models = {"gpt-*"};
  key.requests_per_minute = 2;
  key.budgets.dollars_per_day = 5;
  const auto targets = Open({.keys = {key}});
  Caller caller = Make(targets, {{.name = "x-api-key", .value = "team-key"}});
  test::TellingLog log;
  log.spending = {.dollars_today = 5, .dollars_this_month = 5};
  EXPECT_EQ(caller.Admit("gpt-1", false, &log).error().code, ErrorCode::kRateLimited);
  log.spending = {};
  EXPECT_EQ(caller.Admit("claude-1", false, &log).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(caller.Admit("", true, &log).error().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(caller.Admit("gpt-1", false, &log));
  // Another request of the same key shares its limit.
  Caller next = Make(targets, {{.name = "x-api-key", .value = "team-key"}});
  EXPECT_TRUE(next.Admit("gpt-2", false, nullptr));
  const Result<void> refused = next.Admit("gpt-2", false, nullptr);
  EXPECT_EQ(refused.error().code, ErrorCode::kRateLimited);
  EXPECT_GT(refused.error().retry_after_seconds, 0);
  Caller keyless = Make(Open({}), {});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(keyless.Admit("any", true, nullptr));
}

TEST(CallerTest, ABudgetOfTenantsHoldsWithAKeyAndWithout) {
  test::TellingLog log;
  log.spending = {.tokens_today = 100};
  const request::TargetOptions everyone{.tenant_budgets = {.tokens_per_day = 100}};
  const Result<void> refused = Make(Open(everyone), {}).Admit("gpt-1", false, &log);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kRateLimited);
  EXPECT_NE(refused.error().detail.find("This caller has used 100 of its 100 tokens a day"),
            std::string::npos)
      << refused.error().detail;
  const auto keys =
      Open({.keys = {Key("team", "team-key")}, .tenant_budgets = {.tokens_per_day = 100}});
  Caller team = Make(keys, {{.name = "x-api-key", .value = "team-key"}});
  EXPECT_EQ(team.Admit("gpt-1", false, &log).error().code, ErrorCode::kRateLimited);
  log.spending = {.tokens_today = 99};
  EXPECT_TRUE(team.Admit("gpt-1", false, &log));
  EXPECT_TRUE(Make(Open(everyone), {}).Admit("gpt-1", false, &log));
}

TEST(CallerTest, AFilterOfModelsOutlivesItsCallerAndAReload) {
  config::KeyConfig key = Key("team", "team-key");
  key.models = {"gpt-*"};
  auto targets = Open({.keys = {key}});
  std::function<bool(std::string_view)> may_use;
  std::shared_ptr<access::GatewayKeys::Key> shared;
  {
    const Caller caller = Make(targets, {{.name = "x-api-key", .value = "team-key"}});
    EXPECT_FALSE(caller.MayUse("claude-1"));
    may_use = caller.ModelFilter();
    shared = caller.shared_key();
  }
  targets.reset();
  EXPECT_TRUE(may_use("gpt-1"));
  EXPECT_FALSE(may_use("claude-1"));
  EXPECT_EQ(shared->name(), "team");
  EXPECT_TRUE(Make(Open({}), {}).ModelFilter()("any"));
}

}  // namespace
}  // namespace kvgate::proxy::request
