// GrammarMemory: bounds the memory of the compiled grammars and token masks of all requests
// together, and caches compiled grammars for later requests. Thread-safe: one mutex, held only for
// look-ups.
//
// A grammar counts as long as anybody holds it. When a new one does not fit, grammars that only the
// cache holds are evicted, least recently used first. If all remaining ones are in use, the new one
// is refused and running requests are not affected. A quarter of the grammars' share is reserved
// for small grammars, so that large ones cannot starve them. Masks may use what grammars leave
// free, and at least a quarter of the total (MatcherPool enforces that).
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "engine/text/grammar/mask/compiled_grammar.h"

namespace kvgate::grammar::mask {

class GrammarMemory {
 public:
  struct Options {
    size_t bytes_max = size_t{256} << 20;            // of grammars and masks together
    size_t remembered_max = 64;                      // cached grammars
    size_t remembered_bytes_max = size_t{64} << 20;  // total of the cached grammars
  };
  GrammarMemory() : GrammarMemory(Options()) {}
  explicit GrammarMemory(const Options& options) : options_(options) {}

  // Returns null if the grammar is not cached.
  std::shared_ptr<const CompiledGrammar> Find(const std::string& key);
  // Caches the grammar, or returns the equal one that another thread added first. kTooLarge: it can
  // never fit; kOverloaded: it does not fit while other grammars are in use.
  Result<std::shared_ptr<const CompiledGrammar>> Add(const std::string& key,
                                                     CompiledGrammar grammar);

  // Bytes of all live grammars, whoever holds them.
  size_t grammar_bytes() const { return counter_->load(std::memory_order_relaxed); }
  // Bytes that masks and states may take at present.
  size_t masks_bytes_max() const;
  // Reports the bytes of grammars that MatcherPool holds only for their computed masks. They count
  // as free, because the pool releases them when a new grammar needs the room.
  void SetIdleBytes(size_t bytes) { idle_bytes_.store(bytes, std::memory_order_relaxed); }
  const Options& options() const { return options_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const CompiledGrammar> grammar;
    size_t bytes = 0;
  };
  using Counter = std::atomic<size_t>;

  std::shared_ptr<const CompiledGrammar> FindLocked(const std::string& key);
  bool MakeRoom(size_t bytes);
  std::list<Entry>::iterator Forget(std::list<Entry>::iterator entry);

  const Options options_;
  const std::shared_ptr<Counter> counter_ = std::make_shared<Counter>(0);
  std::atomic<size_t> idle_bytes_{0};
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  size_t remembered_bytes_ = 0;
};

}  // namespace kvgate::grammar::mask
