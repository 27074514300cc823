// LarkText: a grammar in Lark's language, taken apart into rules. It knows no texts that they make.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/grammar/grammar.h"
#include "engine/text/grammar/language/lark.h"

namespace kvgate::grammar {

enum class LarkKind : uint8_t { kText, kRange, kRegex, kName, kSequence, kChoice, kRepeat };

struct LarkNode {
  LarkKind kind = LarkKind::kText;
  std::string text = {};    // kText; kRegex: without its slashes; kName; kRange: its two characters
  bool any_case = false;    // kText
  bool dot_is_all = false;  // kRegex
  RepeatCount count = {};   // kRepeat
  std::vector<uint32_t> children = {};
};

struct LarkRules {
  std::vector<LarkNode> nodes;
  std::map<std::string, uint32_t, std::less<>> rules;  // by name: the node of its body, a kChoice
  std::vector<uint32_t> ignored;                       // what may stand between terminals
};

inline bool IsTerminal(std::string_view name) {
  const size_t letter = name.find_first_not_of('_');
  return letter != std::string_view::npos && name[letter] >= 'A' && name[letter] <= 'Z';
}

// Errors as AddLark's.
Result<LarkRules> ParseLark(std::string_view text, const LarkLimits& limits);

}  // namespace kvgate::grammar
