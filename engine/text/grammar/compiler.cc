#include "engine/text/grammar/compiler.h"

#include <fmt/format.h>

#include <utility>

#include "engine/text/grammar/schema/json_schema.h"

namespace kvgate::grammar {

Compiler::Compiler(const tokenizer::Tokenizer& tokenizer, const Options& options)
    : tokenizer_(tokenizer),
      options_(options),
      memory_(options.memory != nullptr ? options.memory : std::make_shared<mask::GrammarMemory>()),
      key_prefix_(fmt::format("{} ", fmt::join(options.shown_marks, " "))) {}

// Builds the trie at first use, because most servers never see a grammar.
std::shared_ptr<const mask::TokenTrie> Compiler::Trie() {
  std::call_once(trie_once_, [this] {
    trie_ = std::make_shared<mask::TokenTrie>(tokenizer_, options_.shown_marks);
  });
  return trie_;
}

Result<std::shared_ptr<const mask::CompiledGrammar>> Compiler::Compile(const Source& source) {
  return Compile(
      Recipe{.key = fmt::format("source {} {}", static_cast<int>(source.kind), source.text),
             .make = [&] { return ReadSource(source, options_); }});
}

Result<std::shared_ptr<const mask::CompiledGrammar>> Compiler::Compile(const Recipe& recipe) {
  const std::string key = key_prefix_ + recipe.key;
  if (auto known = memory_->Find(key)) return known;
  KVGATE_TRY(const rules::Grammar grammar, recipe.make());
  KVGATE_TRY(mask::Automaton automaton, mask::Automaton::Build(grammar, options_.automaton));
  return memory_->Add(
      key, mask::CompiledGrammar{
               .automaton = std::move(automaton), .trie = Trie(), .is_open = recipe.is_open});
}

Result<rules::Grammar> ReadSource(const Source& source, const Compiler::Options& options) {
  switch (source.kind) {
    case SourceKind::kJsonObject:
      break;
    case SourceKind::kJsonSchema:
      return schema::CompileJsonSchema(source.text, options.schema);
    case SourceKind::kGbnf:
      return language::ParseGbnf(source.text, options.gbnf);
  }
  return schema::AnyJsonObject();
}

}  // namespace kvgate::grammar
