#include "gateway/config/keys.h"

#include <algorithm>

namespace kvgate::config {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('`')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('`')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<KeyLine> ReadKeysPage(std::string_view page) {
  std::vector<KeyLine> keys;
  std::string table;
  while (!page.empty()) {
    const size_t end = std::min(page.find('\n'), page.size());
    std::string_view line = page.substr(0, end);
    page.remove_prefix(std::min(end + 1, page.size()));
    if (line.starts_with("## ")) {
      table = line.substr(3);
      std::erase_if(table, [](char c) { return c == '[' || c == ']' || c == '`' || c == ' '; });
    }
    if (!line.starts_with("| `")) continue;
    const size_t first = line.find('|', 1);
    const size_t second = line.find('|', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    std::string_view meaning = line.substr(second + 1);
    if (meaning.ends_with('|')) meaning.remove_suffix(1);
    while (meaning.starts_with(' ')) meaning.remove_prefix(1);
    while (meaning.ends_with(' ')) meaning.remove_suffix(1);
    keys.push_back({.name = table + "." + std::string(Trimmed(line.substr(1, first - 1))),
                    .unset = std::string(Trimmed(line.substr(first + 1, second - first - 1))),
                    .meaning = std::string(meaning)});
  }
  return keys;
}

}  // namespace kvgate::config
