// Compiler: what a request asks its output to be, compiled for one tokenizer, and remembered in a
// GrammarMemory, which compilers share. Thread-safe; compiling takes its time on the thread that
// asks (never the engine's).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/text/grammar/mask/compiled_grammar.h"
#include "engine/text/grammar/language/gbnf.h"
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
    std::shared_ptr<GrammarMemory> memory = {};  // null: one of its own
    SchemaLimits schema = {};
    GbnfLimits gbnf = {};
    Automaton::Limits automaton = {};
    std::vector<std::string> shown_marks = {};  // see TokenTrie
  };
  // A grammar that is made elsewhere.
  struct Recipe {
    std::string key;  // equal keys, equal grammars
    std::function<Result<Grammar>()> make;
    bool is_open = false;  // see CompiledGrammar
  };
  // The tokenizer outlives the compiler.
  Compiler(const tokenizer::Tokenizer& tokenizer, const Options& options);

  // Errors as CompileJsonSchema's, ParseGbnf's, Automaton::Build's and GrammarMemory::Add's.
  Result<std::shared_ptr<const CompiledGrammar>> Compile(const Source& source);
  // Errors as those of `make`, Automaton::Build and GrammarMemory::Add.
  Result<std::shared_ptr<const CompiledGrammar>> Compile(const Recipe& recipe);

  const Options& options() const { return options_; }

 private:
  std::shared_ptr<const TokenTrie> Trie();

  const tokenizer::Tokenizer& tokenizer_;
  const Options options_;
  const std::shared_ptr<GrammarMemory> memory_;
  const std::string key_prefix_;  // what shows other marks is another grammar
  std::once_flag trie_once_;
  std::shared_ptr<const TokenTrie> trie_;
};

// Errors as CompileJsonSchema's and ParseGbnf's.
Result<Grammar> ReadSource(const Source& source, const Compiler::Options& options);

}  // namespace kvgate::grammar
