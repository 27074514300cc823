#include "gateway/cli/terminal/config_meaning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::cli::terminal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ConfigMeaningTest, AnEmptyConfigurationIsALocalModelForThisMachine) {
  EXPECT_THAT(ConfigMeaning({}, {.data_dir = "/d"}),
              ElementsAre("listens on 127.0.0.1:8080: only programs of this machine reach it; no "
                          "[[key]], so that they all may use it",
                          HasSubstr("local model: the small one"), HasSubstr("tier device: KV"),
                          HasSubstr("tier host: memory"),
                          HasSubstr("tier disk: at most 16 GiB of KV in /d")));
}

TEST(ConfigMeaningTest, ItSaysWhoSpendsAnUpstreamsKey) {
  config::Config config;
  config.upstreams.resize(2);
  config.upstreams[0].name = "own";
  config.upstreams[0].base_url = "https://a";
  config.upstreams[0].models = {"claude-*", "x"};
  config.upstreams[1].name = "lent";
  config.upstreams[1].base_url = "https://b/v1";
  config.upstreams[1].api_key_env = "B_KEY";
  config.store.disk = false;
  EXPECT_THAT(
      ConfigMeaning(config, {.has_local_model = false}),
      ElementsAre(HasSubstr("listens"),
                  "upstream own: claude-*, x go to https://a with the caller's own "
                  "credential; mode pin",
                  "upstream lent: all models go to https://b/v1 with the key in $B_KEY, "
                  "which whoever reaches the gateway spends; mode pin",
                  HasSubstr("local model: none"), "tier disk: none, KV ends with the process"));
  config.keys.emplace_back().name = "team";
  EXPECT_THAT(ConfigMeaning(config, {})[2], HasSubstr("whoever has a [[key]] spends"));
}

TEST(ConfigMeaningTest, APromptSaysWhereItsVersionBegins) {
  config::Config config;
  config.prompts = {{.name = "a", .version = "1", .file = "/p/a", .share = {}},
                    {.name = "a", .version = "2", .file = "/p/b", .share = 0.125},
                    {.name = "a", .version = "3", .file = "/p/c", .share = 0}};
  const std::vector<std::string> lines = ConfigMeaning(config, {});
  EXPECT_EQ(lines[1], "prompt a@1: /p/a, where no share names another version");
  EXPECT_EQ(lines[2], "prompt a@2: /p/b, 12.5 % of what begins");
  EXPECT_EQ(lines[3], "prompt a@3: /p/c, only where its version is named");
}

TEST(ConfigMeaningTest, AKeysLimitsAreNamedAndThoseOfNoneAreNot) {
  config::Config config;
  config.server.listen = "0.0.0.0:80";
  config.server.tls_cert = "cert.pem";
  config.keys.resize(2);
  config.keys[0].name = "a";
  config.keys[1].name = "b";
  config.keys[1].role = "admin";
  config.keys[1].models = {"gpt-*"};
  config.keys[1].requests_per_minute = 60;
  config.keys[1].budgets.dollars_per_day = 2.5;
  const std::vector<std::string> lines = ConfigMeaning(config, {});
  EXPECT_EQ(lines[0],
            "listens on 0.0.0.0:80 with TLS: other machines reach it; whoever has a [[key]] may "
            "use it");
  EXPECT_EQ(lines[1], "key a: a user, who sees its own records, may ask for all models");
  EXPECT_EQ(lines[2],
            "key b: an admin, who sees everybody's records, may ask for gpt-*, 60 requests a "
            "minute, 2.5 dollars a day");
  config.budgets.tenant.tokens_per_month = 1000;
  EXPECT_EQ(ConfigMeaning(config, {})[3],
            "budgets of each tenant whose key sets none, 1000 tokens a month");
}

TEST(ConfigMeaningTest, SizesAndPathsAreShownWithoutControlCharacters) {
  config::Config config;
  config.engine.model = "/m\x1b[2J.gguf";
  config.engine.kv_memory_bytes = uint64_t{1} << 30;
  config.cache.host_memory_bytes = 0;
  const std::vector<std::string> lines = ConfigMeaning(config, {});
  EXPECT_EQ(lines[1], "local model: /m?[2J.gguf");
  EXPECT_EQ(lines[2], "tier device: 1.0 GiB of KV memory");
  EXPECT_EQ(lines[3], "tier host: none");
}

}  // namespace
}  // namespace kvgate::cli::terminal
