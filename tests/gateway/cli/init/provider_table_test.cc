#include "gateway/cli/init/provider_table.h"

#include <gtest/gtest.h>

namespace kvgate::cli::init {
namespace {

std::string NamesOf(std::string_view text) {
  const auto providers = ParseProviders(text);
  if (!providers) return providers.error().detail;
  std::string names;
  for (const Provider* const provider : *providers) names += std::string(provider->name) + ' ';
  return names;
}

TEST(ProviderTableTest, EachProviderIsFoundByItsName) {
  for (const Provider& provider : KnownProviders()) {
    EXPECT_EQ(ParseProviders(provider.name).value(), std::vector<const Provider*>{&provider});
  }
}

TEST(ProviderTableTest, AListNamesEachProviderOnceInItsOrder) {
  EXPECT_EQ(NamesOf("openai, anthropic ,openai"), "openai anthropic ");
  EXPECT_EQ(NamesOf(" none "), "");
}

TEST(ProviderTableTest, AnUnknownNameIsSaidWithTheNearestOne) {
  EXPECT_EQ(NamesOf("openai,antropic"),
            "no provider 'antropic' is known; did you mean 'anthropic'?; there are anthropic, "
            "openai, gemini, deepseek, xai, moonshot, mistral, openrouter, or none");
  EXPECT_FALSE(ParseProviders(""));
  EXPECT_FALSE(ParseProviders("openai,"));
  EXPECT_FALSE(ParseProviders("none,openai"));
}

}  // namespace
}  // namespace kvgate::cli::init
