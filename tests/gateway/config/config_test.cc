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

TEST(ParseConfigTest, EveryKindOfValueIsRead) {
  const auto config = ParseConfig(R"(
[server]
listen = "[::1]:0"
allowed_hosts = ["a.example", "b"]
[engine]
kv_dtype = "bf16"
context_policy = "attention_sink"
context_policy_tokens = 4096
kv_memory = "2GiB"
threads = 3
[store]
sync = true
data_dir = "/tmp/x"
disk_cache = 2000000000
[ledger]
prices = "own.json"
records = 5
[limits]
json_depth = 32
)",
                                  "f");
  ASSERT_TRUE(config) << config.error().messages[0];
  EXPECT_EQ(config->server.listen, "[::1]:0");
  EXPECT_THAT(config->server.allowed_hosts, ElementsAre("a.example", "b"));
  EXPECT_EQ(config->engine.kv_dtype, "bf16");
  EXPECT_EQ(config->engine.context_policy, "attention_sink");
  EXPECT_EQ(config->engine.context_policy_tokens, 4096);
  EXPECT_EQ(config->engine.kv_memory_bytes, uint64_t{2} << 30);
  EXPECT_EQ(config->engine.threads, 3);
  EXPECT_TRUE(config->store.sync);
  EXPECT_EQ(config->store.data_dir, "/tmp/x");
  EXPECT_EQ(config->store.disk_cache_bytes, 2'000'000'000u);
  EXPECT_EQ(config->ledger.prices, "own.json");
  EXPECT_EQ(config->ledger.records, 5);
  EXPECT_EQ(config->ledger.retention_days, 30);
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
[[upstream]]
name = "x"
[sessions]
[nonsense]
)",
                                  "f.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(
      config.error().messages,
      ElementsAre("f.toml:2: unknown key 'contxt' in [engine]",
                  "f.toml:3: engine.threads must be an integer, not a string",
                  HasSubstr("f.toml:4: engine.kv_dtype must be one of f32, f16, bf16, q8_0, q4_0"),
                  HasSubstr("f.toml:6: limits.body must be a size"),
                  HasSubstr("f.toml:7: limits.connections must be between 1 and"),
                  "f.toml:8: [[upstream]] is not supported by this version yet",
                  "f.toml:10: [sessions] is not supported by this version yet",
                  "f.toml:11: unknown table [nonsense]"));
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
  // A file may be called 42.
  EXPECT_TRUE(SetOption("engine", "model", "42", config));
  EXPECT_EQ(config.engine.model, "42");
  EXPECT_EQ(SetOption("engine", "context", "-1", config).error().field, "engine.context");
  EXPECT_FALSE(SetOption("engine", "nothing", "1", config));
  EXPECT_FALSE(SetOption("server", "listen", "nowhere", config));
}

}  // namespace
}  // namespace kvgate::config
