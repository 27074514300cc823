// GBNF: parses the grammar language of llama.cpp into a Grammar.
//
//   rule   = NAME "::=" alternatives; the text matches the rule "root". A rule ends at the end of
//            its line, except inside ( ) and after |; a line may also begin with |.
//   parts  "text"  [a-z]  [^a-z]  .  name  ( ... ), each with one of  * + ? {m} {m,} {m,n}
//   escapes in texts and classes: \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH (characters)
//   comments: # to the end of the line
// Names consist of letters, digits, - and _. `.` is any character. llama.cpp's token references
// (<[id]>, <name>) are not supported.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "engine/text/grammar/rules/grammar.h"

namespace kvgate::grammar::language {

struct GbnfLimits {
  size_t bytes_max = 256 * 1024;
  size_t rules_max = 10'000;
  int depth_max = 64;             // nesting of ( )
  uint32_t repeat_max = 100'000;  // largest count in { }
};

// kInvalidArgument: "line 3, column 14: ...", or a fault of the whole grammar (a rule that never
// ends). kTooLarge: a limit is exceeded.
Result<rules::Grammar> ParseGbnf(std::string_view text, const GbnfLimits& limits);

}  // namespace kvgate::grammar::language
