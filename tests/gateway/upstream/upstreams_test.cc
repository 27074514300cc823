#include "gateway/upstream/upstreams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::upstream {

using dialect::form::Api;
using dialect::form::Endpoint;

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
  EXPECT_EQ(name({.dialect = Api::kAnthropic, .model = "gpt-5"}), "b");
  EXPECT_EQ(name({.dialect = Api::kAnthropic}), "b");
  EXPECT_EQ(name({.name = "c", .model = "gpt-5"}), "c");
  EXPECT_THAT(name({.name = "d"}), HasSubstr("There is no upstream 'd'"));
  EXPECT_THAT(name({}), HasSubstr("x-kvgate-upstream"));
  EXPECT_TRUE(upstreams->Serves({.model = "anything"}));
}

TEST(UpstreamsTest, AnUpstreamOfAnotherDialectIsAskedWhereNoneOfTheCallersServesTheModel) {
  config::UpstreamConfig plain = Named("plain", "openai", {"old-*"});
  plain.endpoints = {"chat"};
  config::UpstreamConfig modern = Named("modern", "openai", {"new-*"});
  modern.endpoints = {"responses"};
  const auto upstreams = Open({Named("claude", "anthropic", {"claude-*", "gpt-5"}),
                               Named("gpt", "openai", {"gpt-*"}), plain, modern});
  struct Case {
    Endpoint endpoint;
    std::string_view model;
    std::string_view upstream;
    std::optional<Endpoint> sent;  // absent: sent without translation
  };
  for (const Case& test : std::vector<Case>{
           {Endpoint::kChatCompletions, "gpt-5", "gpt", {}},
           {Endpoint::kChatCompletions, "claude-x", "claude", Endpoint::kMessages},
           {Endpoint::kResponses, "claude-x", "claude", Endpoint::kMessages},
           {Endpoint::kMessages, "gpt-5", "claude", {}},
           {Endpoint::kMessages, "gpt-6", "gpt", Endpoint::kChatCompletions},
           {Endpoint::kMessages, "new-1", "modern", Endpoint::kResponses},
           {Endpoint::kResponses, "old-1", "plain", Endpoint::kChatCompletions},
           {Endpoint::kChatCompletions, "new-1", "modern", Endpoint::kResponses},
           {Endpoint::kCountTokens, "gpt-6", "gpt", {}},
       }) {
    const bool messages =
        test.endpoint == Endpoint::kMessages || test.endpoint == Endpoint::kCountTokens;
    const Upstreams::Query query = {.dialect = messages ? Api::kAnthropic : Api::kOpenAi,
                                    .endpoint = test.endpoint,
                                    .model = test.model};
    const auto chosen = upstreams->Choose(query);
    ASSERT_TRUE(chosen) << test.model;
    EXPECT_EQ((*chosen)->name(), test.upstream);
    EXPECT_TRUE(upstreams->Serves(query));
    EXPECT_EQ(TranslatedEndpoint(test.endpoint, **chosen), test.sent);
  }
  // Only endpoints that can be translated may use an upstream of the other dialect.
  EXPECT_FALSE(upstreams->Choose({.endpoint = Endpoint::kEmbeddings, .model = "claude-x"}));
}

TEST(UpstreamsTest, AModelThatNobodyServesIsNamed) {
  const auto upstreams = Open({Named("a", "openai", {"gpt-*"})});
  const auto chosen = upstreams->Choose({.model = "claude"});
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(chosen.error().field, "model");
  EXPECT_EQ(upstreams->Choose({.dialect = Api::kAnthropic}).error().code, ErrorCode::kNotFound);
}

TEST(KindOfTest, PathsHaveADialect) {
  EXPECT_EQ(KindOf("/v1/messages", false).dialect, Api::kAnthropic);
  EXPECT_EQ(KindOf("/v1/messages/batches", false).dialect, Api::kAnthropic);
  EXPECT_EQ(KindOf("/v1/models", true).dialect, Api::kAnthropic);
  EXPECT_EQ(KindOf("/v1/models", false).endpoint, Endpoint::kModels);
  EXPECT_EQ(KindOf("/v1/responses/resp_1", false).dialect, Api::kOpenAi);
  EXPECT_EQ(KindOf("/v1/messages/count_tokens", false).endpoint, Endpoint::kCountTokens);
}

TEST(UpstreamsTest, PathsOfGeminiAndWhoStandsIn) {
  const auto kind = [](std::string_view path) { return KindOf(path, false); };
  EXPECT_EQ(kind("/v1beta/models/a:generateContent").endpoint, Endpoint::kGenerateContent);
  EXPECT_EQ(kind("/v1/models/a:streamGenerateContent").dialect, Api::kGemini);
  EXPECT_EQ(kind("/v1beta/models/a:countTokens").endpoint, Endpoint::kCountContent);
  EXPECT_EQ(kind("/v1beta/models/a").endpoint, Endpoint::kModels);
  EXPECT_EQ(kind("/v1beta/cachedContents").dialect, Api::kGemini);
  EXPECT_EQ(kind("/v1/models/a").dialect, Api::kOpenAi);
  const auto upstreams = Open({Named("o", "openai", {"gpt-*"}), Named("a", "anthropic", {"c-*"}),
                               Named("g", "gemini", {"gemini-*"})});
  const auto stands_in = [&](std::string_view name, Endpoint endpoint) {
    return TranslatedEndpoint(endpoint, *upstreams->Find(name));
  };
  EXPECT_EQ(stands_in("g", Endpoint::kGenerateContent), std::nullopt);
  EXPECT_EQ(stands_in("g", Endpoint::kChatCompletions), Endpoint::kGenerateContent);
  EXPECT_EQ(stands_in("g", Endpoint::kMessages), Endpoint::kGenerateContent);
  EXPECT_EQ(stands_in("g", Endpoint::kResponses), Endpoint::kGenerateContent);
  EXPECT_EQ(stands_in("g", Endpoint::kEmbeddings), std::nullopt);
  EXPECT_EQ(stands_in("o", Endpoint::kGenerateContent), Endpoint::kChatCompletions);
  EXPECT_EQ(stands_in("a", Endpoint::kGenerateContent), Endpoint::kMessages);
  EXPECT_FALSE(upstreams->Serves({.endpoint = Endpoint::kEmbeddings, .model = "gemini-3"}));
}

}  // namespace
}  // namespace kvgate::upstream
