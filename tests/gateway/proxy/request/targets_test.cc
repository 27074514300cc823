#include "gateway/proxy/request/targets.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvgate::proxy::request {
namespace {

TargetOptions Options() {
  config::UpstreamConfig upstream;
  upstream.name = "a";
  upstream.base_url = "http://127.0.0.1:1/v1";
  config::UpstreamConfig other = upstream;
  other.name = "b";
  config::KeyConfig key;
  key.name = "agent";
  key.sha256 = std::string(64, '0');
  return {.upstreams = {upstream, other},
          .routes = {{.name = "r", .targets = {"a", "b"}}},
          .keys = {key}};
}

std::shared_ptr<const Targets> Open(const TargetOptions& options, const Targets* previous) {
  auto opened = Targets::Open(options, false, previous);
  EXPECT_TRUE(opened) << opened.error().ToString();
  return opened ? *opened : nullptr;
}

TEST(TargetsTest, WhatIsConfiguredAsItWasIsTheSame) {
  const auto before = Open(Options(), nullptr);
  TargetOptions options = Options();
  options.upstreams[1].retries = 3;
  const auto after = Open(options, before.get());
  EXPECT_EQ(after->upstreams->Find("a"), before->upstreams->Find("a"));
  EXPECT_NE(after->upstreams->Find("b"), before->upstreams->Find("b"));
  EXPECT_EQ(after->upstreams->Find("b")->config().retries, 3);
  EXPECT_EQ(after->routes->Find("m"), before->routes->Find("m"));
  options.routes[0].affinity_seconds = 1;
  options.keys[0].requests_per_minute = 5;
  const auto later = Open(options, after.get());
  EXPECT_NE(later->routes->Find("m"), after->routes->Find("m"));
  EXPECT_EQ(later->upstreams->Find("b"), after->upstreams->Find("b"));
}

TEST(TargetsTest, TheEnginesModeIsTheConfigurations) {
  TargetOptions options = Options();
  EXPECT_EQ(Open(options, nullptr)->engine.mode, "pin");
  options.engine.mode = "stabilize";
  options.engine.rules_off = {"newlines"};
  const auto targets = Open(options, nullptr);
  EXPECT_EQ(targets->engine.mode, "stabilize");
  EXPECT_EQ(targets->engine.rules_off.front(), "newlines");
}

TEST(TargetsTest, WhatIsWrongIsAnErrorAndLeavesThoseThatWere) {
  const auto before = Open(Options(), nullptr);
  TargetOptions options = Options();
  options.routes[0].targets = {"nobody"};
  EXPECT_FALSE(Targets::Open(options, false, before.get()));
  options = Options();
  options.upstreams[0].api_key_env = "KVGATE_A_VARIABLE_THAT_IS_NOT_SET";
  EXPECT_FALSE(Targets::Open(options, false, before.get()));
  EXPECT_NE(before->upstreams->Find("a"), nullptr);
}

TEST(TargetsTest, ThoseInUseOutliveTheirSuccessors) {
  CurrentTargets current(Open(Options(), nullptr));
  const uint64_t generation = current.generation();
  const std::shared_ptr<const Targets> in_use = current.Get();
  TargetOptions options = Options();
  options.upstreams.pop_back();
  options.routes.clear();
  current.Set(Open(options, in_use.get()));
  EXPECT_NE(current.generation(), generation);
  EXPECT_EQ(current.Get()->upstreams->Find("b"), nullptr);
  EXPECT_NE(in_use->upstreams->Find("b"), nullptr);
}

}  // namespace
}  // namespace kvgate::proxy::request
