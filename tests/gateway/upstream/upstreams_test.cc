#include "gateway/upstream/upstreams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::upstream {
namespace {

using ::testing::HasSubstr;

config::UpstreamConfig Named(std::string name, std::string dialect,
                             std::vector<std::string> models) {
  config::UpstreamConfig config;
  config.name = std::move(name);
  config.dialect = std::move(dialect);
  config.base_url = "http://127.0.0.1:1";
  config.models = std::move(models);
  return config;
}

std::unique_ptr<Upstreams> Open(const std::vector<config::UpstreamConfig>& configs) {
  auto opened = Upstreams::Open(configs, [](const char*) { return std::string(); });
  EXPECT_TRUE(opened);
  return std::move(*opened);
}

TEST(UpstreamsTest, TheFirstThatMatchesIsAsked) {
  const auto upstreams = Open({Named("a", "openai", {"gpt-*"}), Named("b", "anthropic", {"*"}),
                               Named("c", "openai", {"*"})});
  const auto name = [&](Upstreams::Query query) {
    const auto chosen = upstreams->Choose(query);
    return chosen ? (*chosen)->name() : chosen.error().detail;
  };
  EXPECT_EQ(name({.model = "gpt-5"}), "a");
  EXPECT_EQ(name({.model = "other"}), "c");
  EXPECT_EQ(name({.dialect = Dialect::kAnthropic, .model = "gpt-5"}), "b");
  EXPECT_EQ(name({.dialect = Dialect::kAnthropic}), "b");
  EXPECT_EQ(name({.name = "c", .model = "gpt-5"}), "c");
  EXPECT_THAT(name({.name = "d"}), HasSubstr("There is no upstream 'd'"));
  EXPECT_THAT(name({}), HasSubstr("x-kvgate-upstream"));
  EXPECT_TRUE(upstreams->Serves(Dialect::kOpenAi, "anything"));
}

TEST(UpstreamsTest, AModelThatNobodyServesIsNamed) {
  const auto upstreams = Open({Named("a", "openai", {"gpt-*"})});
  const auto chosen = upstreams->Choose({.model = "claude"});
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(chosen.error().field, "model");
  EXPECT_EQ(upstreams->Choose({.dialect = Dialect::kAnthropic}).error().code, ErrorCode::kNotFound);
}

TEST(KindOfTest, PathsHaveADialect) {
  EXPECT_EQ(KindOf("/v1/messages", false).dialect, Dialect::kAnthropic);
  EXPECT_EQ(KindOf("/v1/messages/batches", false).dialect, Dialect::kAnthropic);
  EXPECT_EQ(KindOf("/v1/models", true).dialect, Dialect::kAnthropic);
  EXPECT_EQ(KindOf("/v1/models", false).endpoint, Endpoint::kModels);
  EXPECT_EQ(KindOf("/v1/responses/resp_1", false).dialect, Dialect::kOpenAi);
  EXPECT_EQ(KindOf("/v1/messages/count_tokens", false).endpoint, Endpoint::kCountTokens);
}

}  // namespace
}  // namespace kvgate::upstream
