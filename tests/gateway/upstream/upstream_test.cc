#include "gateway/upstream/upstream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::upstream {

using dialect::form::Api;

namespace {

using ::testing::HasSubstr;

config::UpstreamConfig Config() {
  config::UpstreamConfig config;
  config.name = "up";
  config.base_url = "https://api.deepseek.com/v1";
  return config;
}

std::string Problem(const config::UpstreamConfig& config, const std::string& value) {
  const auto opened = Upstream::Open(config, [&](const char*) { return value; });
  return opened ? "" : opened.error().detail;
}

TEST(UpstreamTest, WhatItNeedsOfTheOutsideIsReadAtOnce) {
  config::UpstreamConfig config = Config();
  config.api_key_env = "KEY";
  config.models = {"deep*"};
  const auto opened = Upstream::Open(config, [](const char* name) {
    return std::string(std::string_view(name) == "KEY" ? "secret" : "");
  });
  ASSERT_TRUE(opened);
  EXPECT_EQ((*opened)->api_key(), "secret");
  EXPECT_EQ((*opened)->provider(), "deepseek");
  EXPECT_EQ((*opened)->host(), "api.deepseek.com");
  EXPECT_TRUE((*opened)->Serves("deepseek-v4"));
  EXPECT_FALSE((*opened)->Serves("gpt"));
}

TEST(UpstreamTest, WhatIsMissingIsNamedWithoutItsValue) {
  config::UpstreamConfig config = Config();
  config.api_key_env = "KEY";
  EXPECT_THAT(Problem(config, ""),
              HasSubstr("upstream 'up': the environment variable KEY (api_key_env) is not set"));
  EXPECT_THAT(Problem(config, "secret\r\nX: y"), HasSubstr("holds spaces or control characters"));
  config = Config();
  config.ca_file = "/nonexistent.pem";
  EXPECT_THAT(Problem(config, ""), HasSubstr("upstream 'up': ca_file /nonexistent.pem"));
}

TEST(UpstreamTest, AProviderIsGuessedFromTheHost) {
  EXPECT_EQ(GuessProvider("api.anthropic.com", Api::kAnthropic), "anthropic");
  EXPECT_EQ(GuessProvider("api.x.ai", Api::kOpenAi), "xai");
  EXPECT_EQ(GuessProvider("127.0.0.1", Api::kAnthropic), "anthropic");
  EXPECT_EQ(GuessProvider("evil-api.openai.com", Api::kOpenAi), "openai");
}

}  // namespace
}  // namespace kvgate::upstream
