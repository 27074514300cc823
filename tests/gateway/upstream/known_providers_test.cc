#include "gateway/upstream/known_providers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "gateway/upstream/upstreams.h"

namespace kvgate::upstream {
namespace {

std::string KeyOf(const std::string& beginning) { return beginning + std::string(40, 'x'); }

TEST(KnownProvidersTest, EachIsAnUpstreamWhoseProviderIsFoundByItsHost) {
  std::set<std::string> names;
  for (const KnownProvider& provider : KnownProviders()) {
    EXPECT_TRUE(names.insert(provider.name).second) << provider.name;
    EXPECT_FALSE(provider.title.empty());
    EXPECT_FALSE(provider.models.empty());
    EXPECT_TRUE(provider.key_env.ends_with("_API_KEY"));
    const auto url = config::ParseUrl(provider.base_url);
    ASSERT_TRUE(url) << provider.base_url;
    EXPECT_TRUE(url->tls) << "a credential is sent to it";
    EXPECT_EQ(GuessProvider(url->host, dialect::form::Api::kOpenAi), provider.name);
  }
}

TEST(KnownProvidersTest, ACredentialIsOfTheKindWithTheLongestBeginning) {
  EXPECT_EQ(KindOfCredential(KeyOf("sk-ant-api03-")), "sk-ant-");
  EXPECT_EQ(KindOfCredential(KeyOf("sk-proj-")), "sk-proj-");
  EXPECT_EQ(KindOfCredential(KeyOf("sk-")), "sk-");
  EXPECT_EQ(KindOfCredential(KeyOf("sk-or-v1-")), "sk-or-");
  EXPECT_EQ(KindOfCredential(KeyOf("xai-")), "xai-");
}

TEST(KnownProvidersTest, WhatIsNoKeyOfAProviderIsOfNoKind) {
  for (const char* text : {"", "local", "EMPTY", "none", "sk-", "sk-test", "sk-no-key-required",
                           "sk-ant-dummy", "0123456789abcdef0123456789abcdef0123456789"}) {
    EXPECT_EQ(KindOfCredential(text), "") << text;
  }
  EXPECT_TRUE(UpstreamsOfKind("").empty());
}

TEST(KnownProvidersTest, AKindHasTheUpstreamsOfItsProvidersAlone) {
  const auto names = [](std::string_view kind) {
    std::string text;
    for (const config::UpstreamConfig& upstream : UpstreamsOfKind(kind)) {
      EXPECT_TRUE(upstream.api_key_env.empty()) << "the caller's own credential is sent";
      text += upstream.name + ' ';
    }
    return text;
  };
  EXPECT_EQ(names("sk-ant-"), "anthropic ");
  EXPECT_EQ(names("sk-"), "openai deepseek moonshot ");
  EXPECT_EQ(names("sk-proj-"), "openai ");
  EXPECT_EQ(names("xai-"), "xai ");
  EXPECT_EQ(names("sk-or-"), "openrouter ");
}

}  // namespace
}  // namespace kvgate::upstream
