// Compiler: what a request asks its output to be, compiled for one tokenizer, and remembered.
// Thread-safe: one mutex, held for look-ups; compiling takes its time without it, on the thread
// that asks (never the engine's).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/grammar/compiled_grammar.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/schema_document.h"
#include "engine/tokenizer/tokenizer.h"

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
    size_t grammars_max = 64;             // remembered
    size_t bytes_max = size_t{64} << 20;  // of what is remembered
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

  // Errors as CompileJsonSchema's, ParseGbnf's and Automaton::Build's.
  Result<std::shared_ptr<const CompiledGrammar>> Compile(const Source& source);
  // Errors as those of `make` and Automaton::Build.
  Result<std::shared_ptr<const CompiledGrammar>> Compile(const Recipe& recipe);

  const Options& options() const { return options_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const CompiledGrammar> grammar;
    size_t bytes = 0;
  };
  std::shared_ptr<const CompiledGrammar> Find(const std::string& key);
  std::shared_ptr<const TokenTrie> Trie();

  const tokenizer::Tokenizer& tokenizer_;
  const Options options_;
  std::once_flag trie_once_;
  std::shared_ptr<const TokenTrie> trie_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  size_t bytes_ = 0;
};

// Errors as CompileJsonSchema's and ParseGbnf's.
Result<Grammar> ReadSource(const Source& source, const Compiler::Options& options);

}  // namespace kvgate::grammar
