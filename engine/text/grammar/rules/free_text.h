// Free text in a grammar: any bytes up to one of several marks that end it. It is built as an
// Aho-Corasick automaton (1975) of the marks, so that a token that straddles a mark is checked byte
// by byte.
#pragma once

#include <span>
#include <string>

#include "engine/text/grammar/rules/grammar.h"

namespace kvgate::grammar::rules {

struct FreeTextExit {
  std::string mark;       // not empty, not a substring of another mark
  ExprId then = {};       // follows the mark
  bool at_begin = false;  // recognised only at the beginning of the text
};

struct FreeTextOptions {
  std::span<const FreeTextExit> exits;
  bool may_end = false;  // the text may also end without a mark
};
ExprId FreeText(Grammar& grammar, const FreeTextOptions& options);

}  // namespace kvgate::grammar::rules
