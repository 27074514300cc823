// Keys: all configuration keys by name, and the page that explains them (KEYS.md, which a test
// compares with the tables of config.cc).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvgate::config {

// Lists all keys: "engine.kv_dtype"; for arrays of tables "upstream.name".
std::vector<std::string> KeyNames();

// KEYS.md: a heading for each table, a row "| `key` | default | meaning |" for each key.
extern const char* const kKeysPage;

struct KeyLine {
  std::string name;   // "engine.kv_dtype"
  std::string unset;  // its default in TOML, or the effect of its absence
  std::string meaning;
};
std::vector<KeyLine> ReadKeysPage(std::string_view page);

}  // namespace kvgate::config
