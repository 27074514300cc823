// CompiledGrammar: the output format of a request, compiled for one vocabulary. Immutable, shared.
#pragma once

#include <memory>

#include "engine/text/grammar/mask/automaton.h"
#include "engine/text/grammar/mask/token_trie.h"

namespace kvgate::grammar::mask {

struct CompiledGrammar {
  Automaton automaton;
  std::shared_ptr<const TokenTrie> trie;
  // If true, a text that may end may also continue with anything, including tokens without bytes,
  // and no token is masked out because too few tokens are left to finish the grammar.
  bool is_open = false;
};

}  // namespace kvgate::grammar::mask
