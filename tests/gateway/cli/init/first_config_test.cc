#include "gateway/cli/init/first_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gateway/config/config.h"
#include "tests/base/temp_folder.h"

namespace kvgate::cli::init {
namespace {

using testing::HasSubstr;
using testing::Not;

// What the configuration reads in this text.
config::Config Loaded(const std::string& text) {
  const TempFolder folder;
  const std::filesystem::path path = folder / "first_config.toml";
  std::ofstream(path) << text;
  const auto config = config::LoadConfig(path.string());
  if (!config) {
    ADD_FAILURE() << testing::PrintToString(config.error().messages) << text;
    return {};
  }
  EXPECT_EQ(config::FindConflict(*config), std::nullopt);
  return *config;
}

TEST(FirstConfigTest, EachProviderIsAnUpstreamThatTheConfigurationTakes) {
  for (const Provider& provider : KnownProviders()) {
    for (const bool is_lent : {false, true}) {
      FirstConfig first{.providers = {&provider}, .disk = "2GiB"};
      if (is_lent) first.lent_keys = first.providers;
      const config::Config config = Loaded(TextOf(first));
      ASSERT_EQ(config.upstreams.size(), 1u);
      EXPECT_EQ(config.upstreams[0].name, provider.name);
      EXPECT_EQ(config.upstreams[0].dialect, provider.dialect);
      EXPECT_EQ(config.upstreams[0].base_url, provider.base_url);
      EXPECT_EQ(config.upstreams[0].models, provider.models);
      EXPECT_EQ(config.upstreams[0].endpoints, provider.endpoints);
      EXPECT_EQ(config.upstreams[0].api_key_env, is_lent ? provider.key_env : "");
      EXPECT_EQ(config.store.disk_cache_bytes, uint64_t{2} << 30);
    }
  }
}

TEST(FirstConfigTest, OnlyTheKeysThatAreLentAreTheUpstreams) {
  FirstConfig first{.disk = "1GiB"};
  for (const Provider& provider : KnownProviders()) first.providers.push_back(&provider);
  first.lent_keys = {first.providers.back()};
  const config::Config config = Loaded(TextOf(first));
  ASSERT_EQ(config.upstreams.size(), KnownProviders().size());
  EXPECT_EQ(config.upstreams.front().api_key_env, "");
  EXPECT_EQ(config.upstreams.back().api_key_env, KnownProviders().back().key_env);
}

TEST(FirstConfigTest, NothingChosenIsAnEmptyConfigurationWithoutDisk) {
  const config::Config config = Loaded(TextOf({}));
  config::Config otherwise;
  otherwise.store.disk = false;
  EXPECT_EQ(config.store, otherwise.store);
  EXPECT_TRUE(config.upstreams.empty());
  EXPECT_THAT(TextOf({}), Not(HasSubstr("kvgate run")));
}

TEST(FirstConfigTest, EachAgentIsNamedInAComment) {
  for (const agents::Agent& agent : agents::KnownAgents()) {
    const std::string text = TextOf({.agent = ParseAgent(agent.name).value(), .disk = "1GiB"});
    Loaded(text);
    EXPECT_THAT(text, HasSubstr("kvgate run -- " + agent.commands.front()));
  }
}

TEST(FirstConfigTest, LinesAreShortEnoughToRead) {
  FirstConfig first{.agent = ParseAgent("claude").value(), .disk = "1GiB"};
  for (const Provider& provider : KnownProviders()) first.providers.push_back(&provider);
  std::istringstream text(TextOf(first));
  for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(FirstConfigTest, NamesAndSizesAreChecked) {
  EXPECT_EQ(ParseAgent("none").value(), nullptr);
  EXPECT_THAT(ParseAgent("cluade").error().detail, HasSubstr("did you mean 'claude'"));
  EXPECT_EQ(ParseDisk("20GiB").value(), "20GiB");
  EXPECT_EQ(ParseDisk("none").value(), "");
  EXPECT_EQ(ParseDisk("0").value(), "");
  for (const char* const wrong : {"", "much", "-1", "1GiB\"\n[server]", "1 GiB # "}) {
    EXPECT_FALSE(ParseDisk(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace kvgate::cli::init
