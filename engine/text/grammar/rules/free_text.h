// Free text in a grammar: any bytes, up to marks that mean something. An automaton of the marks
// themselves (Aho and Corasick 1975), so that a token which straddles a mark is judged byte by
// byte.
#pragma once

#include <span>
#include <string>

#include "engine/grammar/grammar.h"

namespace kvgate::grammar {

struct FreeTextExit {
  std::string mark;       // not empty, no part of another
  ExprId then = {};       // what follows it
  bool at_begin = false;  // only where the text begins with it
};

struct FreeTextOptions {
  std::span<const FreeTextExit> exits;
  bool may_end = false;  // without having come to a mark
};
ExprId FreeText(Grammar& grammar, const FreeTextOptions& options);

}  // namespace kvgate::grammar
