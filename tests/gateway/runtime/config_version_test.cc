#include "gateway/runtime/config_version.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/keys.h"

namespace kvgate::runtime {
namespace {

using session::prompts::PromptVersion;

config::Config Parse(std::string_view toml) {
  auto config = config::ParseConfig(toml, "test");
  EXPECT_TRUE(config) << config.error().messages.front();
  return *std::move(config);
}

std::string Version(std::string_view toml) { return VersionOf(Parse(toml), {}); }

// The keys in which gateways that do the same may differ; a prompt's text stands for its file.
const std::set<std::string> kOfOneMachine = {"server.listen", "server.tls_cert", "server.tls_key",
                                             "store.data_dir", "prompt.file"};

// Values of which every key takes one that is not its default.
constexpr std::string_view kValues[] = {
    "100",
    "\"64MiB\"",
    "true",
    "false",
    "7",
    "2000",
    "0.25",
    "\"1.3\"",
    "\"90m\"",
    "\"3MiB\"",
    "\"127.0.0.1:81\"",
    "\"debug\"",
    "\"json\"",
    "\"cpu\"",
    "\"sse4\"",
    "\"fast\"",
    "\"f32\"",
    "\"sliding_window\"",
    "\"summary\"",
    "\"stub\"",
    "\"caller\"",
    "\"auto\"",
    "[\"vllm\"]",
    "[0.25]",
    "\"https://h/v1\"",
    "\"observe\"",
    "[\"newlines\"]",
    "[\"chat\"]",
    "\"anthropic\"",
    "\"none\"",
    "\"order\"",
    "\"admin\"",
    "\"word\"",
    "[\"word\"]",
    "\"0123456789012345678901234567890123456789012345678901234567890123\""};

// What an element of an array of tables needs besides `key`.
std::string Required(std::string_view table, std::string_view key) {
  std::vector<std::string_view> lines;
  if (table == "upstream") lines = {"name = \"u\"", "base_url = \"http://h/v1\""};
  if (table == "route") lines = {"targets = [\"local\"]"};
  if (table == "key") lines = {"name = \"k\"", "key_env = \"E\""};
  if (table == "prompt") lines = {"name = \"p\"", "version = \"1\"", "file = \"f\""};
  std::string text;
  for (const std::string_view line : lines) {
    const std::string_view name = line.substr(0, line.find(' '));
    // A key of the gateway has one of two kinds of secret.
    const bool is_instead = table == "key" && key == "sha256" && name == "key_env";
    if (name != key && !is_instead) text += std::string(line) + "\n";
  }
  return text;
}

std::vector<PromptVersion> PromptsOf(const config::Config& config) {
  std::vector<PromptVersion> prompts;
  for (const config::PromptConfig& prompt : config.prompts) {
    prompts.push_back(
        {.id = {.name = prompt.name, .version = prompt.version}, .share = prompt.share});
  }
  return prompts;
}

// The versions that a configuration has without a value of the key, and with each that it takes.
std::set<std::string> VersionsBy(const std::string& name) {
  const std::string table = name.substr(0, name.find('.'));
  const std::string key = name.substr(table.size() + 1);
  const bool is_array = !Required(table, "").empty();
  const std::string head = (is_array ? "[[" + table + "]]" : "[" + table + "]") + "\n";
  const config::Config unset = Parse(head + Required(table, ""));
  std::set<std::string> versions = {VersionOf(unset, PromptsOf(unset))};
  size_t num_values = 0;
  for (const std::string_view value : kValues) {
    const std::string set = fmt::format("{}{}{} = {}\n", head, Required(table, key), key, value);
    const auto config = config::ParseConfig(set, "test");
    if (!config) continue;
    ++num_values;
    versions.insert(VersionOf(*config, PromptsOf(*config)));
  }
  EXPECT_GT(num_values, 0u) << name << " takes none of the values of this test";
  return versions;
}

TEST(ConfigVersionTest, EachKeyCountsButThoseOfOneMachine) {
  for (const std::string& name : config::KeyNames()) {
    const bool counts = VersionsBy(name).size() > 1;
    EXPECT_EQ(counts, !kOfOneMachine.contains(name)) << name << ": see config_version.cc";
  }
}

TEST(ConfigVersionTest, HowAFileIsWrittenDoesNotCount) {
  const std::string version = Version(
      "[server]\nthreads = 3\ndrain_seconds = 5\nallowed_hosts = [\"a\", \"b\"]\n"
      "[cache]\nwrite_back = \"1MiB\"\n"
      "[[key]]\nname = \"a\"\nkey_env = \"A\"\n[[key]]\nname = \"b\"\nkey_env = \"B\"\n");
  EXPECT_EQ(version.size(), 12u);
  EXPECT_EQ(version.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(version, Version("# another order, and a default spelled out\n"
                             "[[key]]\nkey_env = \"B\"\nname = \"b\"\nrole = \"user\"\n"
                             "[[key]]\nname = \"a\"\nkey_env = \"A\"\n"
                             "[cache]\nwrite_back = 1048576\n"
                             "[server]\nallowed_hosts = [\"b\", \"a\"]\ndrain_seconds = 5\n"
                             "threads = 3\nlisten = \"127.0.0.1:99\"\n"));
}

TEST(ConfigVersionTest, TheOrderOfUpstreamsAndTheBoundsOfValuesCount) {
  const std::string one = "[[upstream]]\nname = \"one\"\nbase_url = \"http://h/v1\"\n";
  const std::string two = "[[upstream]]\nname = \"two\"\nbase_url = \"http://h/v1\"\n";
  EXPECT_NE(Version(one + two), Version(two + one));
  EXPECT_NE(Version(one), Version(one + two));
  const auto model = [](std::string text) {
    config::Config config;
    config.engine.model = std::move(text);
    return VersionOf(config, {});
  };
  config::Config both;
  both.engine.model = "m";
  both.engine.embedding_model = "e";
  EXPECT_NE(model("m\nembedding_model=1:e"), VersionOf(both, {}));
}

TEST(ConfigVersionTest, ThePromptsTextCountsAndItsPlaceDoesNot) {
  const config::Config config;
  const auto version = [&](std::vector<PromptVersion> prompts) {
    return VersionOf(config, prompts);
  };
  const PromptVersion one = {.id = {.name = "p", .version = "1"}, .text = "one"};
  const PromptVersion other = {.id = {.name = "p", .version = "1"}, .text = "other"};
  const PromptVersion next = {.id = {.name = "p", .version = "2"}, .text = "next", .share = 0.0};
  EXPECT_NE(version({}), version({one}));
  EXPECT_NE(version({one}), version({other}));
  EXPECT_EQ(version({one, next}), version({next, one}));
}

}  // namespace
}  // namespace kvgate::runtime
