// Lark: the grammar language of the Python library of that name, and single regular expressions,
// as tools of the OpenAI dialects describe the text that they take; read into a part of a larger
// grammar, as text or as the inside of a JSON string.
//
//   rule: "text" | "text"i | "a".."z" | /regex/s | TERMINAL | other | ( ... ) | [ ... ]
//   repetitions  ? * + ~ 3 ~ 1..5; aliases (-> name), priorities (.2) and the signs ? ! before a
//   rule's name say nothing here; // begins a comment
//   %ignore between the terminals of rules; %import of the library's "common" terminals
// The text begins with the rule "start". Terminals are regular expressions as pattern.h has them,
// but that \A, \Z, (?i) and looking around are not; a text may be split among them in any way,
// where the library takes the longest. A rule may begin with itself, but not by way of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "engine/grammar/budget.h"
#include "engine/text/grammar/rules/char_dfa.h"
#include "engine/grammar/grammar.h"

namespace kvgate::grammar {

// How the text is written.
struct TextForm {
  Spelling spelling = Spelling::kPlain;
  std::string closing = {};  // no terminal's text contains it; empty: any may
  Budget* budget = nullptr;  // charged with what is made; null: an own one
};

struct LarkLimits {
  size_t bytes_max = 64 * 1024;
  size_t parts_max = 20'000;  // of all rules
  int depth_max = 64;         // of ( )
  uint32_t repeat_max = 1'000;
};

// kInvalidArgument: no grammar; "line 3: …". kUnsupported: a part of the language that we do not
// have. kTooLarge: a limit.
Result<ExprId> AddLark(Grammar& grammar, std::string_view text, const TextForm& form,
                       const LarkLimits& limits = {});
// The whole text matches. Errors alike.
Result<ExprId> AddRegex(Grammar& grammar, std::string_view regex, const TextForm& form);

}  // namespace kvgate::grammar
