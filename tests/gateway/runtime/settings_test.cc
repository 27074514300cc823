#include "gateway/runtime/settings.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/temp_folder.h"

namespace kvgate::runtime {
namespace {

config::Config Forwarding() {
  config::Config config;
  config.upstreams.emplace_back();
  config.upstreams.back().name = "one";
  config.upstreams.back().base_url = "http://127.0.0.1:9/v1";
  return config;
}

TEST(SettingsTest, OnlyAGatewayWithUpstreamsAndNoNamedModelHasNoEngine) {
  EXPECT_TRUE(HasLocalModel({}));
  config::Config config = Forwarding();
  EXPECT_FALSE(HasLocalModel(config));
  config.engine.model = "m.gguf";
  EXPECT_TRUE(HasLocalModel(config));
  config = {};
  config.engine.is_embedding_only = true;
  EXPECT_FALSE(HasLocalModel(config));
}

TEST(SettingsTest, APublicAddressNeedsAKey) {
  config::Config config;
  config.server.listen = "127.0.0.1:81";
  EXPECT_EQ(ListenAddress(config).value().port, 81);
  config.server.listen = "0.0.0.0:81";
  const auto refused = ListenAddress(config);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().detail.find("[[key]]"), std::string::npos) << refused.error().detail;
  config.keys.emplace_back();
  config.keys.back().name = "one";
  EXPECT_EQ(ListenAddress(config).value().host, "0.0.0.0");
}

TEST(SettingsTest, EveryLimitReachesTheServer) {
  config::Config config = Forwarding();
  config.server.tls_cert = "cert.pem";
  config.server.threads = 7;
  config.store.timeout_seconds = 11;
  config.limits.body_bytes = 1001;
  config.limits.bodies_bytes = 1002;
  config.limits.tenant_bodies_share = 0.25;
  config.limits.import_bytes = 1003;
  config.limits.header_bytes = 1004;
  config.limits.connections = 1005;
  config.limits.header_timeout_seconds = 12;
  config.limits.body_timeout_seconds = 13;
  config.limits.body_bytes_per_second_min = 1006;
  config.limits.idle_timeout_seconds = 14;
  config.limits.write_timeout_seconds = 15;
  const http::ServerOptions options = ToServerOptions(config, {.host = "127.0.0.1", .port = 82});
  const proxy::host::HostOptions host = ToHostOptions(config, "token");
  EXPECT_EQ(host.requests.admin_token, "token");
  EXPECT_EQ(options.address, "127.0.0.1");
  EXPECT_EQ(options.port, 82);
  EXPECT_EQ(host.threads, 7);
  EXPECT_EQ(host.pools.store_timeout, std::chrono::seconds(11));
  EXPECT_EQ(options.tls.cert_file, "cert.pem");
  EXPECT_EQ(host.targets.upstreams.size(), 1u);
  EXPECT_EQ(host.requests.body_bytes_max, 1001u);
  EXPECT_EQ(host.bodies_bytes_max, 1002u);
  EXPECT_EQ(host.tenant_bodies_share, 0.25);
  EXPECT_EQ(options.import_bytes_max, 1003u);
  EXPECT_EQ(options.header_bytes_max, 1004u);
  EXPECT_EQ(options.connections_max, 1005);
  EXPECT_EQ(options.header_timeout, std::chrono::seconds(12));
  EXPECT_EQ(options.body_timeout, std::chrono::seconds(13));
  EXPECT_EQ(options.body_bytes_per_second_min, 1006u);
  EXPECT_EQ(options.idle_timeout, std::chrono::seconds(14));
  EXPECT_EQ(options.write_timeout, std::chrono::seconds(15));
}

TEST(SettingsTest, AReloadKeepsTheAddressAndTakesTheUpstreams) {
  config::Config running = Forwarding();
  running.server.listen = "127.0.0.1:81";
  config::Config next = Forwarding();
  next.server.listen = "127.0.0.1:82";
  next.upstreams.front().name = "two";
  next.engine.mode = "stabilize";
  const auto taken = Reloadable(running, next);
  ASSERT_TRUE(taken) << taken.error().ToString();
  EXPECT_EQ(taken->server.listen, "127.0.0.1:81");
  EXPECT_EQ(taken->upstreams.front().name, "two");
  EXPECT_EQ(ToTargetOptions(*taken).engine.mode, "stabilize");
}

TEST(SettingsTest, PromptsAreReadAndOneThatCannotBeIsNamed) {
  const TempFolder folder;
  const auto path = folder.path() / "a.txt";
  std::ofstream(path) << "Be {{how}}.\n";
  config::Config config;
  config.prompts = {{.name = "a", .version = "1", .file = path, .share = 0.5}};
  const auto read = ReadPrompts(config);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->front().text, "Be {{how}}.");
  EXPECT_EQ(read->front().share, 0.5);
  std::ofstream(path) << " \n";
  for (const auto& file : {path, folder.path(), folder.path() / "absent"}) {
    config.prompts[0].file = file;
    const auto refused = ReadPrompts(config);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().detail.starts_with("prompt.file: a@1: ")) << refused.error().detail;
  }
}

TEST(SettingsTest, WhetherThereAreUpstreamsDoesNotChange) {
  for (const auto& [running, next] :
       {std::pair(Forwarding(), config::Config()), std::pair(config::Config(), Forwarding())}) {
    const auto taken = Reloadable(running, next);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(SettingsTest, TablesThatAReloadDoesNotReadAreNamed) {
  const config::Config running = Forwarding();
  config::Config next = running;
  next.server.log_level = "debug";
  next.upstreams.front().name = "two";
  next.engine.mode = "stabilize";
  next.engine.rules_off = {"newlines"};
  EXPECT_EQ(UnreadTables(running, next), "");
  next.engine.context = 5;
  next.limits.connections = 6;
  EXPECT_EQ(UnreadTables(running, next), "[engine], [limits]");
  next.server.threads = 9;
  next.cache.write_back_bytes += 1;
  next.store.turns = !next.store.turns;
  next.ledger.records += 1;
  EXPECT_EQ(UnreadTables(running, next),
            "[server], [engine], [cache], [store], [ledger], [limits]");
}

TEST(SettingsTest, WhatAReloadDoesNotReadStaysInForce) {
  const config::Config start = Forwarding();
  config::Config next = Forwarding();
  next.server.log_level = "debug";
  next.server.drain_seconds += 1;
  next.engine.mode = "observe";
  next.engine.context = 5;
  next.metrics.key_env = "E";
  next.metrics.compat = {"vllm"};
  next.limits.connections = 6;
  next.upstreams.front().name = "two";
  next.keys.emplace_back();
  next.budgets.tenant.dollars_per_day = 1;
  const config::Config in_force = InForce(start, next);
  EXPECT_EQ(in_force.server.log_level, "debug");
  EXPECT_EQ(in_force.server.drain_seconds, start.server.drain_seconds);
  EXPECT_EQ(in_force.engine.mode, "observe");
  EXPECT_EQ(in_force.engine.context, start.engine.context);
  EXPECT_EQ(in_force.metrics.key_env, "E");
  EXPECT_TRUE(in_force.metrics.compat.empty());
  EXPECT_EQ(in_force.limits, start.limits);
  EXPECT_EQ(in_force.upstreams, next.upstreams);
  EXPECT_EQ(in_force.keys, next.keys);
  EXPECT_EQ(in_force.budgets, next.budgets);
  // What is not in force is named, and the other way round.
  EXPECT_EQ(UnreadTables(in_force, next), UnreadTables(start, next));
  EXPECT_EQ(UnreadTables(start, in_force), "");
}

TEST(SettingsTest, AModelForRetrievalThatNobodyServesIsNamed) {
  const auto missing = [](const config::Config& config, std::string_view own) {
    return MissingRetrievalModel(config, [&](std::string_view model) { return model == own; });
  };
  config::Config config = Forwarding();
  config.upstreams.front().models = {"gpt-*"};
  EXPECT_EQ(missing(config, ""), "");
  config.sessions.retrieval_model = "vectors";
  EXPECT_NE(missing(config, "other").find("'vectors'"), std::string::npos);
  EXPECT_NE(MissingRetrievalModel(config), "");
  EXPECT_EQ(missing(config, "vectors"), "");
  config.upstreams.front().models = {"vec*"};
  EXPECT_EQ(missing(config, "other"), "");
  // The other dialect has no embeddings.
  config.upstreams.front().dialect = "anthropic";
  EXPECT_NE(missing(config, "other"), "");
}

}  // namespace
}  // namespace kvgate::runtime
