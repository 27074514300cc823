// CompiledGrammar: what a request's output must be, for one vocabulary. Immutable, shared.
#pragma once

#include <memory>

#include "engine/grammar/automaton.h"
#include "engine/grammar/token_trie.h"

namespace kvgate::grammar {

struct CompiledGrammar {
  Automaton automaton;
  std::shared_ptr<const TokenTrie> trie;
};

}  // namespace kvgate::grammar
