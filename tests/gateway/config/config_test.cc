#include "gateway/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace kvgate::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseConfigTest, AnEmptyFileGivesTheDefaults) {
  const auto config = ParseConfig("", "f");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server.listen, "127.0.0.1:8080");
  EXPECT_EQ(config->limits.body_bytes, uint64_t{64} << 20);
  EXPECT_TRUE(config->store.disk);
}

TEST(FindConflictTest, FastNumericsAndTheCpuAreNamed) {
  Config config;
  EXPECT_FALSE(FindConflict(config).has_value());
  config.engine.numerics = "fast";
  EXPECT_FALSE(FindConflict(config).has_value());  // auto may find a device
  config.engine.device = "cpu";
  EXPECT_NE(FindConflict(config)->find("engine.numerics"), std::string::npos);
}

TEST(FindConflictTest, TheMetricsKeyIsNamedOnce) {
  const std::string digest(64, 'a');
  const auto once = ParseConfig("[metrics]\nsha256 = '" + digest + "'\n", "f");
  ASSERT_TRUE(once) << once.error().messages[0];
  EXPECT_EQ(once->metrics.sha256, digest);
  EXPECT_FALSE(FindConflict(*once).has_value());
  Config twice = *once;
  twice.metrics.key_env = "SCRAPER";
  EXPECT_NE(FindConflict(twice)->find("metrics.key_env"), std::string::npos);
}

TEST(ParseConfigTest, AKeyIsAUsersUnlessItSaysAdmin) {
  const auto config = ParseConfig(
      "[[key]]\nname='a'\nkey_env='A'\nrole='admin'\n[[key]]\nname='b'\nkey_env='B'\n"
      "[[upstream]]\nname='u'\nbase_url='http://h'\nforward_unknown=true\n"
      "[[upstream]]\nname='v'\nbase_url='http://h'\n",
      "f");
  ASSERT_TRUE(config) << config.error().messages[0];
  EXPECT_EQ(config->keys[0].role, "admin");
  EXPECT_EQ(config->keys[1].role, "user");
  EXPECT_TRUE(config->upstreams[0].forward_unknown);
  EXPECT_FALSE(config->upstreams[1].forward_unknown);
  const auto wrong = ParseConfig("[[key]]\nname='a'\nkey_env='A'\nrole='root'\n", "f");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().messages,
              ElementsAre(HasSubstr("f:4: key.role must be one of user, admin, not \"root\"")));
}

TEST(ParseConfigTest, TheEnginesModeAndRulesAreReadAsAnUpstreams) {
  const auto config = ParseConfig(
      "[engine]\nmode = \"stabilize\"\nrules_off = [\"newlines\", \"tool_slots\"]", "f");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->engine.mode, "stabilize");
  EXPECT_THAT(config->engine.rules_off, ElementsAre("newlines", "tool_slots"));
  const auto wrong = ParseConfig("[engine]\nmode = \"pinn\"\nrules_off = [\"new\"]", "f");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().messages,
              ElementsAre(HasSubstr("engine.mode must be one of observe, pin, stabilize"),
                          HasSubstr("engine.rules_off")));
}

TEST(ParseConfigTest, EveryKindOfValueIsRead) {
  const auto config = ParseConfig(R"(
[server]
listen = "[::1]:0"
allowed_hosts = ["a.example", "b"]
tls_cert = "c.pem"
tls_key = "k.pem"
tls_min_version = "1.3"
[engine]
kv_dtype = "bf16"
context_policy = "attention_sink"
context_policy_tokens = 4096
kv_memory = "2GiB"
device = "cuda"
numerics = "fast"
threads = 3
cpu_target = "avx512_vnni"
[store]
sync = true
data_dir = "/tmp/x"
disk_cache = 2000000000
turns = false
turns_retention = "12h"
turns_bytes = "2GiB"
prompts = false
prompts_retention = "2h"
prompts_bytes = "8MiB"
tenant_share = 0.25
timeout_seconds = 3
[ledger]
prices = "own.json"
records = 5
[limits]
bodies = "1GiB"
tenant_bodies_share = 0.75
json_depth = 32
)",
                                  "f");
  ASSERT_TRUE(config) << config.error().messages[0];
  EXPECT_EQ(config->server.listen, "[::1]:0");
  EXPECT_THAT(config->server.allowed_hosts, ElementsAre("a.example", "b"));
  EXPECT_EQ(config->server.tls_cert, "c.pem");
  EXPECT_EQ(config->server.tls_key, "k.pem");
  EXPECT_EQ(config->server.tls_min_version, "1.3");
  EXPECT_EQ(config->engine.cpu_target, "avx512_vnni");
  EXPECT_EQ(config->engine.kv_dtype, "bf16");
  EXPECT_EQ(config->engine.device, "cuda");
  EXPECT_EQ(config->engine.numerics, "fast");
  EXPECT_EQ(config->engine.context_policy, "attention_sink");
  EXPECT_EQ(config->engine.context_policy_tokens, 4096);
  EXPECT_EQ(config->engine.kv_memory_bytes, uint64_t{2} << 30);
  EXPECT_EQ(config->engine.threads, 3);
  EXPECT_TRUE(config->store.sync);
  EXPECT_EQ(config->store.data_dir, "/tmp/x");
  EXPECT_EQ(config->store.disk_cache_bytes, 2'000'000'000u);
  EXPECT_FALSE(config->store.turns);
  EXPECT_EQ(config->store.turns_retention_seconds, 43'200);
  EXPECT_EQ(config->store.turns_bytes, uint64_t{2} << 30);
  EXPECT_FALSE(config->store.prompts);
  EXPECT_EQ(config->store.prompts_retention_seconds, 7200);
  EXPECT_EQ(config->store.prompts_bytes, uint64_t{8} << 20);
  EXPECT_EQ(config->ledger.prices, "own.json");
  EXPECT_EQ(config->ledger.records, 5);
  EXPECT_EQ(config->ledger.retention_days, 30);
  EXPECT_EQ(config->store.tenant_share, 0.25);
  EXPECT_EQ(config->store.timeout_seconds, 3);
  EXPECT_EQ(config->limits.bodies_bytes, uint64_t{1} << 30);
  EXPECT_EQ(config->limits.tenant_bodies_share, 0.75);
  EXPECT_EQ(config->limits.json_depth, 32);
}

TEST(ParseConfigTest, AllErrorsAreNamedWithTheirLines) {
  const auto config = ParseConfig(R"([engine]
contxt = 5
threads = "many"
kv_dtype = "f8"
[limits]
body = "10 parsecs"
connections = 0
[[route]]
modles = ["x"]
[prompt]
[nonsense]
)",
                                  "f.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(
      config.error().messages,
      ElementsAre(
          "f.toml:2: unknown key 'contxt' in [engine]; did you mean 'context'?",
          "f.toml:3: engine.threads must be an integer, not a string",
          HasSubstr(
              "f.toml:4: engine.kv_dtype must be one of f32, f16, bf16, fp8_e4m3, q8_0, q4_0"),
          HasSubstr("f.toml:6: limits.body must be a size"),
          HasSubstr("f.toml:7: limits.connections must be between 1 and"),
          "f.toml:9: unknown key 'modles' in [[route]]; did you mean 'models'?",
          "f.toml:10: 'prompt' must be an array of tables: [[prompt]]",
          "f.toml:11: unknown table [nonsense]"));
}

TEST(ParseConfigTest, PromptsHaveVersionsAndShares) {
  const auto config = ParseConfig(R"([[prompt]]
name = "support"
version = "3"
file = "a.txt"
[[prompt]]
name = "support"
version = "4"
file = "b.txt"
share = 0.1
)",
                                  "f.toml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->prompts,
            (std::vector<PromptConfig>{
                {.name = "support", .version = "3", .file = "a.txt", .share = {}},
                {.name = "support", .version = "4", .file = "b.txt", .share = 0.1}}));
  EXPECT_FALSE(FindConflict(*config));
}

TEST(ParseConfigTest, APromptThatCannotBeNamedIsSaidToBeWrong) {
  const auto config = ParseConfig(R"([[prompt]]
version = "3"
file = "a.txt"
[[prompt]]
name = "a b"
version = "1@2"
file = 3
share = 1.5
[[prompt]]
name = "a"
version = "1"
[[prompt]]
name = "b"
version = "1"
file = "x"
[[prompt]]
name = "b"
version = "1"
file = "y"
)",
                                  "f.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().messages,
              ElementsAre("f.toml:1: prompt.name is missing", HasSubstr("f.toml:5: prompt.name"),
                          HasSubstr("f.toml:6: prompt.version must be 1 to 32"),
                          HasSubstr("f.toml:7: prompt.file must be a string"),
                          HasSubstr("f.toml:8: prompt.share must be between 0 and 1"),
                          "f.toml:9: prompt.file is missing",
                          "f.toml:16: there is another prompt of the name \"b@1\""));
}

TEST(ParseConfigTest, SharesOfAPromptAreAtMostAllOfIt) {
  Config config;
  config.prompts = {{.name = "a", .version = "1", .file = "x", .share = 0.6},
                    {.name = "b", .version = "1", .file = "x", .share = 0.6},
                    {.name = "a", .version = "2", .file = "x", .share = 0.4}};
  EXPECT_FALSE(FindConflict(config));
  config.prompts[2].share = 0.41;
  EXPECT_THAT(*FindConflict(config), HasSubstr("prompt.share: those of the prompt \"a\""));
}

TEST(ParseConfigTest, TimesAndVersionsAreTextOfAKnownForm) {
  const auto config = ParseConfig(R"([server]
tls_min_version = "1.1"
[store]
turns_retention = "1x"
turns_bytes = 5
turns = "no"
)",
                                  "f.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().messages,
              ElementsAre(HasSubstr("f.toml:2: server.tls_min_version must be one of 1.2, 1.3"),
                          HasSubstr("f.toml:4: store.turns_retention must be a time like"),
                          HasSubstr("f.toml:5: store.turns_bytes must be at least"),
                          HasSubstr("f.toml:6: store.turns must be true or false")));
  Config set;
  EXPECT_TRUE(SetOption("store", "turns_retention", "2h", set));
  EXPECT_EQ(set.store.turns_retention_seconds, 7200);
  for (const char* bad : {"59s", "36501d", "30"}) {
    EXPECT_EQ(SetOption("store", "turns_retention", bad, set).error().field,
              "store.turns_retention");
  }
}

TEST(ParseConfigTest, UpstreamsAndKeysAreReadInTheirOrder) {
  const auto config = ParseConfig(R"([[upstream]]
name = "a"
base_url = "http://127.0.0.1:9100/v1/"
[[upstream]]
name = "b"
dialect = "anthropic"
provider = "anthropic"
base_url = "https://[::1]:8443"
models = ["claude-*", "x"]
endpoints = ["responses"]
mode = "observe"
api_key_env = "B_KEY"
connect_timeout_ms = 250
retry = "reset"
[[key]]
name = "team"
key_env = "TEAM_KEY"
models = ["gpt-*"]
requests_per_minute = 60
dollars_per_day = 2.5
tokens_per_month = 1000000
)",
                                  "f");
  ASSERT_TRUE(config) << config.error().messages[0];
  ASSERT_EQ(config->upstreams.size(), 2u);
  EXPECT_EQ(config->upstreams[0].dialect, "openai");
  EXPECT_THAT(config->upstreams[0].models, ElementsAre("*"));
  EXPECT_EQ(config->upstreams[0].retry, "connect");
  EXPECT_EQ(config->upstreams[1].name, "b");
  EXPECT_THAT(config->upstreams[1].models, ElementsAre("claude-*", "x"));
  EXPECT_THAT(config->upstreams[0].endpoints, ElementsAre("chat", "responses"));
  EXPECT_THAT(config->upstreams[1].endpoints, ElementsAre("responses"));
  EXPECT_EQ(config->upstreams[1].connect_timeout_ms, 250);
  ASSERT_EQ(config->keys.size(), 1u);
  EXPECT_EQ(config->keys[0].key_env, "TEAM_KEY");
  EXPECT_EQ(config->keys[0].budgets.dollars_per_day, 2.5);
  EXPECT_EQ(config->keys[0].budgets.tokens_per_month, 1'000'000);
}

TEST(ParseConfigTest, BudgetsOfTenantsAndWhoIsToldOfThem) {
  const auto config = ParseConfig(R"([budgets]
dollars_per_month = 50
tokens_per_day = 1000
thresholds = [0.25, 1]
webhook = "https://hooks.example/path"
webhook_secret_env = "HOOK_SECRET"
)",
                                  "f");
  ASSERT_TRUE(config) << config.error().messages[0];
  EXPECT_EQ(config->budgets.tenant.dollars_per_month, 50);
  EXPECT_EQ(config->budgets.tenant.tokens_per_day, 1000);
  EXPECT_THAT(config->budgets.thresholds, ElementsAre(0.25, 1));
  EXPECT_EQ(config->budgets.webhook, "https://hooks.example/path");
  EXPECT_EQ(config->budgets.webhook_secret_env, "HOOK_SECRET");
}

TEST(ParseConfigTest, WhatAnUpstreamOrAKeyLacksIsNamed) {
  const auto config = ParseConfig(R"([[upstream]]
base_url = "http://h"
[[upstream]]
name = "a"
[[upstream]]
name = "a b"
base_url = "ftp://h"
speed = 1
[[key]]
name = "k"
[[key]]
name = "l"
sha256 = "12"
)",
                                  "f");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().messages,
              ElementsAre(HasSubstr("f:1: upstream.name is missing"),
                          HasSubstr("f:3: upstream.base_url is missing"),
                          HasSubstr("f:6: upstream.name must be 1 to 64 letters"),
                          HasSubstr("f:7: upstream.base_url must be a URL"),
                          HasSubstr("f:8: unknown key 'speed' in [[upstream]]"),
                          HasSubstr("f:9: a key needs key_env or sha256"),
                          HasSubstr("f:13: key.sha256 must be 64 hex digits")));
}

TEST(ParseConfigTest, TwoUpstreamsOfOneNameAreRefused) {
  const auto config = ParseConfig(
      "[[upstream]]\nname='a'\nbase_url='http://h'\n[[upstream]]\nname='a'\nbase_url='http://h'\n",
      "f");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().messages,
              ElementsAre("f:4: there is another upstream of the name \"a\""));
}

TEST(ParseConfigTest, BrokenTomlHasItsLine) {
  const auto config = ParseConfig("[server]\nlisten = \n", "f");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().messages[0], HasSubstr("f:2: "));
}

TEST(LoadConfigTest, AMissingFileIsNamed) {
  const auto config = LoadConfig("/nonexistent/kvgate.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().messages[0], HasSubstr("/nonexistent/kvgate.toml"));
}

TEST(SetOptionTest, FlagsPassTheChecksOfTheFile) {
  Config config;
  EXPECT_TRUE(SetOption("engine", "context", "512", config));
  EXPECT_EQ(config.engine.context, 512);
  EXPECT_TRUE(SetOption("store", "disk", "false", config));
  EXPECT_FALSE(config.store.disk);
  EXPECT_TRUE(SetOption("engine", "kv_memory", "64MiB", config));
  EXPECT_EQ(config.engine.kv_memory_bytes, uint64_t{64} << 20);
  // A model file may be named 42.
  EXPECT_TRUE(SetOption("engine", "model", "42", config));
  EXPECT_EQ(config.engine.model, "42");
  EXPECT_EQ(SetOption("engine", "context", "-1", config).error().field, "engine.context");
  EXPECT_FALSE(SetOption("engine", "nothing", "1", config));
  EXPECT_FALSE(SetOption("server", "listen", "nowhere", config));
}

}  // namespace
}  // namespace kvgate::config
