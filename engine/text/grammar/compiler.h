// Compiler: compiles the output format that a request asks for, for one tokenizer, and caches the
// result in a GrammarMemory, which several compilers may share. Thread-safe. Compiling runs on the
// calling thread, which must never be the engine's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/text/grammar/language/gbnf.h"
#include "engine/text/grammar/mask/compiled_grammar.h"
#include "engine/text/grammar/mask/grammar_memory.h"
#include "engine/text/grammar/schema/schema_document.h"
#include "engine/text/tokenizer/tokenizer.h"

namespace kvgate::grammar {

enum class SourceKind : uint8_t {
  kJsonObject,  // any JSON object; the text is empty
  kJsonSchema,
  kGbnf,
};

struct Source {
  SourceKind kind = SourceKind::kJsonObject;
  std::string text = {};
  friend bool operator==(const Source&, const Source&) = default;
};

class Compiler {
 public:
  struct Options {
    std::shared_ptr<mask::GrammarMemory> memory = {};  // null: the compiler creates its own
    schema::SchemaLimits schema = {};
    language::GbnfLimits gbnf = {};
    mask::Automaton::Limits automaton = {};
    std::vector<std::string> shown_marks = {};  // shown to users as text; see TokenTrie
  };
  // A grammar that the caller builds.
  struct Recipe {
    std::string key;  // grammars with equal keys must be equal
    std::function<Result<rules::Grammar>()> make;
    bool is_open = false;  // see CompiledGrammar
  };
  // The tokenizer must outlive the compiler.
  Compiler(const tokenizer::Tokenizer& tokenizer, const Options& options);

  // Fails as CompileJsonSchema, ParseGbnf, mask::Automaton::Build and mask::GrammarMemory::Add do.
  Result<std::shared_ptr<const mask::CompiledGrammar>> Compile(const Source& source);
  // Fails as `make`, mask::Automaton::Build and mask::GrammarMemory::Add do.
  Result<std::shared_ptr<const mask::CompiledGrammar>> Compile(const Recipe& recipe);

  const Options& options() const { return options_; }

 private:
  std::shared_ptr<const mask::TokenTrie> Trie();

  const tokenizer::Tokenizer& tokenizer_;
  const Options options_;
  const std::shared_ptr<mask::GrammarMemory> memory_;
  const std::string key_prefix_;  // keeps apart grammars compiled with other marks
  std::once_flag trie_once_;
  std::shared_ptr<const mask::TokenTrie> trie_;
};

// Fails as CompileJsonSchema and ParseGbnf do.
Result<rules::Grammar> ReadSource(const Source& source, const Compiler::Options& options);

}  // namespace kvgate::grammar
