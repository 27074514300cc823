#include "engine/grammar/compiler.h"

#include <algorithm>
#include <utility>

#include "engine/grammar/json_schema.h"

namespace kvgate::grammar {

Compiler::Compiler(const tokenizer::Tokenizer& tokenizer, const Options& options)
    : tokenizer_(tokenizer), options_(options) {}

// Made when it is first needed: most servers never see a grammar.
std::shared_ptr<const TokenTrie> Compiler::Trie() {
  std::call_once(trie_once_, [this] { trie_ = std::make_shared<TokenTrie>(tokenizer_); });
  return trie_;
}

Result<Automaton> Compiler::Build(const Source& source) const {
  switch (source.kind) {
    case SourceKind::kJsonObject:
      break;
    case SourceKind::kJsonSchema: {
      KVGATE_TRY(const Grammar grammar, CompileJsonSchema(source.text, options_.schema));
      return Automaton::Build(grammar, options_.automaton);
    }
    case SourceKind::kGbnf: {
      KVGATE_TRY(const Grammar grammar, ParseGbnf(source.text, options_.gbnf));
      return Automaton::Build(grammar, options_.automaton);
    }
  }
  return Automaton::Build(AnyJsonObject(), options_.automaton);
}

std::shared_ptr<const CompiledGrammar> Compiler::Find(const Source& source) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.source == source; });
  if (known == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known);
  return known->grammar;
}

Result<std::shared_ptr<const CompiledGrammar>> Compiler::Compile(const Source& source) {
  if (auto known = Find(source)) return known;
  KVGATE_TRY(Automaton automaton, Build(source));
  auto made = std::make_shared<const CompiledGrammar>(
      CompiledGrammar{.automaton = std::move(automaton), .trie = Trie()});
  const size_t bytes = made->automaton.bytes() + source.text.size();
  // Another thread may have been quicker: then its grammar is shared, and ours is dropped.
  if (auto known = Find(source)) return known;
  const std::lock_guard lock(mutex_);
  entries_.push_front({.source = source, .grammar = made, .bytes = bytes});
  bytes_ += bytes;
  while (entries_.size() > 1 &&
         (entries_.size() > options_.grammars_max || bytes_ > options_.bytes_max)) {
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
  return std::shared_ptr<const CompiledGrammar>(std::move(made));
}

}  // namespace kvgate::grammar
