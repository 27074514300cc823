#include "gateway/config/keys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/config.h"

namespace kvgate::config {
namespace {

// Returns the keys that an element of an array of tables requires, without `key`.
std::string Required(std::string_view table, std::string_view key) {
  std::string text;
  const auto add = [&](std::string_view name, std::string_view value) {
    if (name != key) text += fmt::format("{} = {}\n", name, value);
  };
  if (table == "upstream") {
    add("name", "\"u\"");
    add("base_url", "\"http://h/v1\"");
  } else if (table == "route") {
    add("targets", "[\"local\"]");
  } else {
    add("name", "\"k\"");
    if (key != "sha256") add("key_env", "\"E\"");
  }
  return text;
}

bool IsArray(std::string_view table) {
  return table == "upstream" || table == "route" || table == "key";
}

bool AreEqual(const Config& a, const Config& b) {
  return a.server == b.server && a.engine == b.engine && a.cache == b.cache && a.store == b.store &&
         a.ledger == b.ledger && a.metrics == b.metrics && a.limits == b.limits &&
         a.upstreams == b.upstreams && a.routes == b.routes && a.keys == b.keys;
}

// Returns true if a default is written as a TOML value; the other rows say in words what absence
// means.
bool IsValue(std::string_view unset) {
  return unset.starts_with('"') || unset.starts_with('[') || unset == "true" || unset == "false" ||
         (!unset.empty() && unset[0] >= '0' && unset[0] <= '9');
}

TEST(KeysPageTest, NamesEveryKeyOnceInTheOrderOfItsTables) {
  std::vector<std::string> on_page;
  for (const KeyLine& line : ReadKeysPage(kKeysPage)) on_page.push_back(line.name);
  std::vector<std::string> known = KeyNames();
  std::sort(on_page.begin(), on_page.end());
  std::sort(known.begin(), known.end());
  EXPECT_EQ(on_page, known) << "gateway/config/KEYS.md has a row for each key of config.cc";
}

TEST(KeysPageTest, SaysEachDefaultAsItIs) {
  size_t num_values = 0;
  for (const KeyLine& line : ReadKeysPage(kKeysPage)) {
    EXPECT_FALSE(line.meaning.empty()) << line.name;
    if (!IsValue(line.unset)) continue;
    ++num_values;
    const std::string table = line.name.substr(0, line.name.find('.'));
    const std::string key = line.name.substr(table.size() + 1);
    const std::string head = IsArray(table) ? fmt::format("[[{}]]\n{}", table, Required(table, key))
                                            : fmt::format("[{}]\n", table);
    const auto unset = ParseConfig(head, "unset");
    const auto set = ParseConfig(fmt::format("{}{} = {}\n", head, key, line.unset), "set");
    ASSERT_TRUE(unset) << unset.error().messages.front();
    ASSERT_TRUE(set) << line.name << ": " << set.error().messages.front();
    EXPECT_TRUE(AreEqual(*set, *unset)) << line.name << " is not " << line.unset << " by default";
  }
  EXPECT_GT(num_values, 80U);
}

}  // namespace
}  // namespace kvgate::config
