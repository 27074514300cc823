#include "gateway/prompt/diagnose/cache_effects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

namespace kvgate::prompt::diagnose {

using parse::Section;

namespace {

using dialect::form::Endpoint;

CacheEffects Of(std::string_view provider, Endpoint endpoint) {
  const ledger::PriceRow* row = ledger::Prices::Builtin().Find(provider, "some-model");
  return CacheEffectsOf(provider, endpoint, row == nullptr ? nullptr : &row->rules);
}

TEST(CacheEffectsTest, V14DeepSeekRendersItsToolsBehindTheSystemPrompt) {
  EXPECT_EQ(Of("deepseek", Endpoint::kChatCompletions).order,
            (std::array{Section::kSystem, Section::kTools, Section::kMessages}));
  for (const char* provider : {"anthropic", "openai", "xai", "some"}) {
    EXPECT_EQ(Of(provider, Endpoint::kChatCompletions).order,
              (std::array{Section::kTools, Section::kSystem, Section::kMessages}))
        << provider;
  }
}

TEST(CacheEffectsTest, AnUnknownProviderCountsByItsDialect) {
  EXPECT_EQ(Of("some", Endpoint::kMessages).provider, "anthropic");
  EXPECT_EQ(Of("some", Endpoint::kChatCompletions).provider, "openai");
  EXPECT_TRUE(Of("some", Endpoint::kMessages).needs_breakpoints);
  EXPECT_TRUE(Of("anthropic", Endpoint::kMessages).needs_breakpoints);
  EXPECT_FALSE(Of("openai", Endpoint::kResponses).needs_breakpoints);
}

TEST(CacheEffectsTest, EachParameterStandsOnceAndIsOneOrTwoNames) {
  for (const char* provider : {"anthropic", "openai", "deepseek"}) {
    std::set<std::string_view> paths;
    for (const ParameterEffect& effect : Of(provider, Endpoint::kOther).parameters) {
      EXPECT_TRUE(paths.insert(effect.path).second) << effect.path;
      EXPECT_LE(std::count(effect.path.begin(), effect.path.end(), '.'), 1);
    }
  }
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
