// GBNF: the grammar language of llama.cpp, read into a Grammar.
//
//   rule   = NAME "::=" alternatives; the text begins with the rule "root". A rule ends with its
//            line, but inside ( ) and behind | it goes on; a line may also begin with |.
//   parts  "text"  [a-z]  [^a-z]  .  name  ( ... ), each with one of  * + ? {m} {m,} {m,n}
//   escapes in texts and classes: \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH (characters)
//   comments: # to the end of the line
// Names have letters, digits, - and _. `.` is any character. No tokens (<[id]>, <name>).
#pragma once

#include <cstddef>
#include <string_view>

#include <kvgate/result.h>

#include "engine/grammar/grammar.h"

namespace kvgate::grammar {

struct GbnfLimits {
  size_t bytes_max = 256 * 1024;
  size_t rules_max = 10'000;
  int depth_max = 64;             // of ( )
  uint32_t repeat_max = 100'000;  // in { }
};

// kInvalidArgument: "line 3, column 14: ..." or a fault of the whole (a rule without an end).
// kTooLarge: a limit.
Result<Grammar> ParseGbnf(std::string_view text, const GbnfLimits& limits);

}  // namespace kvgate::grammar
