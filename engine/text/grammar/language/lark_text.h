// LarkText: parses a grammar in Lark's language into a tree of rules. It does not build
// expressions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/text/grammar/language/lark.h"
#include "engine/text/grammar/rules/grammar.h"

namespace kvgate::grammar::language {

enum class LarkKind : uint8_t { kText, kRange, kRegex, kName, kSequence, kChoice, kRepeat };

struct LarkNode {
  LarkKind kind = LarkKind::kText;
  std::string text = {};    // kText; kRegex: without slashes; kName; kRange: its two characters
  bool any_case = false;    // kText
  bool dot_is_all = false;  // kRegex
  rules::RepeatCount count = {};  // kRepeat
  std::vector<uint32_t> children = {};
};

struct LarkRules {
  std::vector<LarkNode> nodes;
  std::map<std::string, uint32_t, std::less<>> rules;  // by name: the node of the body, a kChoice
  std::vector<uint32_t> ignored;                       // nodes that may appear between terminals
};

inline bool IsTerminal(std::string_view name) {
  const size_t letter = name.find_first_not_of('_');
  return letter != std::string_view::npos && name[letter] >= 'A' && name[letter] <= 'Z';
}

// Fails as AddLark does.
Result<LarkRules> ParseLark(std::string_view text, const LarkLimits& limits);

}  // namespace kvgate::grammar::language
