#include "engine/grammar/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/grammar/json_schema.h"

namespace kvgate::grammar {

Compiler::Compiler(const tokenizer::Tokenizer& tokenizer, const Options& options)
    : tokenizer_(tokenizer), options_(options) {}

// Made when it is first needed: most servers never see a grammar.
std::shared_ptr<const TokenTrie> Compiler::Trie() {
  std::call_once(trie_once_,
                 [this] { trie_ = std::make_shared<TokenTrie>(tokenizer_, options_.shown_marks); });
  return trie_;
}

std::shared_ptr<const CompiledGrammar> Compiler::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (known == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known);
  return known->grammar;
}

Result<std::shared_ptr<const CompiledGrammar>> Compiler::Compile(const Source& source) {
  return Compile(
      Recipe{.key = fmt::format("source {} {}", static_cast<int>(source.kind), source.text),
             .make = [&] { return ReadSource(source, options_); }});
}

Result<std::shared_ptr<const CompiledGrammar>> Compiler::Compile(const Recipe& recipe) {
  if (auto known = Find(recipe.key)) return known;
  KVGATE_TRY(const Grammar grammar, recipe.make());
  KVGATE_TRY(Automaton automaton, Automaton::Build(grammar, options_.automaton));
  auto made = std::make_shared<const CompiledGrammar>(CompiledGrammar{
      .automaton = std::move(automaton), .trie = Trie(), .is_open = recipe.is_open});
  const size_t bytes = made->automaton.bytes() + recipe.key.size();
  // Another thread may have been quicker: then its grammar is shared, and ours is dropped.
  if (auto known = Find(recipe.key)) return known;
  const std::lock_guard lock(mutex_);
  entries_.push_front({.key = recipe.key, .grammar = made, .bytes = bytes});
  bytes_ += bytes;
  while (entries_.size() > 1 &&
         (entries_.size() > options_.grammars_max || bytes_ > options_.bytes_max)) {
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
  return std::shared_ptr<const CompiledGrammar>(std::move(made));
}

Result<Grammar> ReadSource(const Source& source, const Compiler::Options& options) {
  switch (source.kind) {
    case SourceKind::kJsonObject:
      break;
    case SourceKind::kJsonSchema:
      return CompileJsonSchema(source.text, options.schema);
    case SourceKind::kGbnf:
      return ParseGbnf(source.text, options.gbnf);
  }
  return AnyJsonObject();
}

}  // namespace kvgate::grammar
