// CompiledGrammar: what a request's output must be, for one vocabulary. Immutable, shared.
#pragma once

#include <memory>

#include "engine/text/grammar/mask/automaton.h"
#include "engine/grammar/token_trie.h"

namespace kvgate::grammar {

struct CompiledGrammar {
  Automaton automaton;
  std::shared_ptr<const TokenTrie> trie;
  // Where the text may end it is free: it may go on in any way, tokens without bytes too, and
  // nothing is left out for want of tokens to end it.
  bool is_open = false;
};

}  // namespace kvgate::grammar
