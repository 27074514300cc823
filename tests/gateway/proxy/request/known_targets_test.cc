#include "gateway/proxy/request/known_targets.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace kvgate::proxy::request {
namespace {

const std::string kAnthropicKey = "sk-ant-api03-" + std::string(80, 'a');
const std::string kOpenAiKey = "sk-proj-" + std::string(80, 'a');
const std::string kSharedKey = "sk-" + std::string(48, 'a');

std::shared_ptr<const Targets> Open(const TargetOptions& options) {
  return Targets::Open(options, true, nullptr).value();
}

std::string NamesOf(const std::shared_ptr<const Targets>& targets) {
  std::string names;
  for (const auto& upstream : targets->upstreams->all()) names += upstream->name() + ' ';
  return names;
}

TEST(KnownTargetsTest, AProvidersCredentialGetsItsProvider) {
  const auto base = Open({.serves_known_providers = true});
  const std::string bearer = "Bearer " + kOpenAiKey;
  const auto anthropic = TargetsFor(base, {{"x-api-key", kAnthropicKey}});
  EXPECT_EQ(NamesOf(anthropic), "anthropic ");
  EXPECT_EQ(NamesOf(TargetsFor(base, {{"authorization", bearer}})), "openai ");
  EXPECT_TRUE(anthropic->lists_models);
  EXPECT_EQ(TargetsFor(base, {{"x-api-key", kAnthropicKey}}), anthropic) << "opened once";
  EXPECT_EQ(TargetsFor(anthropic, {{"x-api-key", kOpenAiKey}}), anthropic);
}

TEST(KnownTargetsTest, AKeyThatMayBeOfSeveralProvidersIsShownToNoneThatIsNotNamed) {
  const auto base = Open({.serves_known_providers = true});
  const auto targets = TargetsFor(base, {{"x-api-key", kSharedKey}});
  EXPECT_EQ(NamesOf(targets), "openai deepseek moonshot ");
  EXPECT_FALSE(targets->lists_models);
  EXPECT_FALSE(targets->upstreams->Choose({.dialect = dialect::form::Api::kOpenAi}));
  EXPECT_EQ(
      targets->upstreams->Choose({.dialect = dialect::form::Api::kOpenAi, .model = "deepseek-chat"})
          .value()
          ->name(),
      "deepseek");
}

TEST(KnownTargetsTest, WhoHasNoneStaysHere) {
  const auto base = Open({.serves_known_providers = true});
  EXPECT_EQ(TargetsFor(base, {}), base);
  EXPECT_EQ(TargetsFor(base, {{"authorization", "Bearer local"}}), base);
  EXPECT_EQ(TargetsFor(base, {{"authorization", "Basic " + kOpenAiKey}}), base);
  EXPECT_EQ(TargetsFor(base, {{"x-api-key", "sk-test"}}), base);
}

TEST(KnownTargetsTest, WhatIsConfiguredIsAllThereIs) {
  config::UpstreamConfig upstream;
  upstream.name = "own";
  upstream.base_url = "http://127.0.0.1:1/v1";
  config::KeyConfig key;
  key.name = "agent";
  key.sha256 = std::string(64, '0');
  for (const TargetOptions& options :
       {TargetOptions{.upstreams = {upstream}, .serves_known_providers = true},
        TargetOptions{.serves_known_providers = true, .keys = {key}},
        TargetOptions{.serves_known_providers = false}}) {
    const auto base = Open(options);
    EXPECT_EQ(base->known, nullptr);
    EXPECT_EQ(TargetsFor(base, {{"x-api-key", kAnthropicKey}}), base);
  }
}

}  // namespace
}  // namespace kvgate::proxy::request
