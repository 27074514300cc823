#include "gateway/prompt/cache_effects.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kvgate::prompt {
namespace {

using upstream::Endpoint;

TEST(CacheEffectsTest, V14DeepSeekRendersItsToolsBehindTheSystemPrompt) {
  const CacheEffects& deepseek = CacheEffectsOf("deepseek", Endpoint::kChatCompletions);
  EXPECT_LT(deepseek.RankOf(Section::kSystem), deepseek.RankOf(Section::kTools));
  for (const char* provider : {"anthropic", "openai", "xai"}) {
    const CacheEffects& others = CacheEffectsOf(provider, Endpoint::kChatCompletions);
    EXPECT_EQ(others.RankOf(Section::kTools), 0u) << provider;
    EXPECT_EQ(others.RankOf(Section::kMessages), 2u) << provider;
  }
}

TEST(CacheEffectsTest, AnUnknownProviderCountsByItsDialect) {
  EXPECT_EQ(CacheEffectsOf("some", Endpoint::kMessages).provider, "anthropic");
  EXPECT_EQ(CacheEffectsOf("some", Endpoint::kChatCompletions).provider, "openai");
  EXPECT_TRUE(CacheEffectsOf("some", Endpoint::kMessages).needs_markers);
  EXPECT_FALSE(CacheEffectsOf("openai", Endpoint::kResponses).needs_markers);
}

TEST(CacheEffectsTest, EachParameterStandsOnceAndIsOneOrTwoNames) {
  for (const char* provider : {"anthropic", "openai", "deepseek"}) {
    std::set<std::string_view> paths;
    for (const ParameterEffect& effect : CacheEffectsOf(provider, Endpoint::kOther).parameters) {
      EXPECT_TRUE(paths.insert(effect.path).second) << effect.path;
      EXPECT_LE(std::count(effect.path.begin(), effect.path.end(), '.'), 1);
    }
  }
}

}  // namespace
}  // namespace kvgate::prompt
