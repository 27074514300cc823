// Lark: parses the grammar language of the Python library Lark, and single regular expressions,
// into a part of a larger grammar, either as raw text or as the inside of a JSON string. Tools of
// the OpenAI dialects use these languages to describe their input.
//
//   rule: "text" | "text"i | "a".."z" | /regex/s | TERMINAL | other | ( ... ) | [ ... ]
//   repetitions  ? * + ~ 3 ~ 1..5; aliases (-> name), priorities (.2) and the signs ? ! before a
//   rule's name are accepted and ignored; // begins a comment
//   %ignore between the terminals of rules; %import of the library's "common" terminals
// The text matches the rule "start". Terminals are regular expressions as in pattern.h; \A, \Z,
// (?i) and lookarounds are not supported. A text may be split into terminals in any way, while the
// library takes the longest match. A rule may begin with itself directly, but not through other
// rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/text/grammar/rules/budget.h"
#include "engine/text/grammar/rules/char_dfa.h"
#include "engine/text/grammar/rules/grammar.h"

namespace kvgate::grammar::language {

// How the text is embedded in the output.
struct TextForm {
  rules::Spelling spelling = rules::Spelling::kPlain;
  std::string closing = {};         // terminals never contain it; empty: no restriction
  rules::Budget* budget = nullptr;  // charged for the work; null: uses a budget of its own
};

struct LarkLimits {
  size_t bytes_max = 64 * 1024;
  size_t parts_max = 20'000;  // nodes of all rules
  int depth_max = 64;         // nesting of ( )
  uint32_t repeat_max = 1'000;
};

// kInvalidArgument: a syntax error; "line 3: …". kUnsupported: a part of the language that is not
// implemented. kTooLarge: a limit is exceeded.
Result<rules::ExprId> AddLark(rules::Grammar& grammar, std::string_view text, const TextForm& form,
                              const LarkLimits& limits = {});
// Matches the whole text against the regex. Fails as AddLark does.
Result<rules::ExprId> AddRegex(rules::Grammar& grammar, std::string_view regex,
                               const TextForm& form);

}  // namespace kvgate::grammar::language
