// GrammarMemory: what the compiled grammars of all requests may take together, with what is known
// of their masks; and those of them that are remembered for the next request that asks for the
// same. Thread-safe: one mutex, held for look-ups.
//
// A grammar counts as long as somebody holds it. Where a new one finds no room, those that are only
// remembered are given back, the least recently used first; where all that is left is in use, the
// new one is refused, and nothing that runs is touched. The small ones of everybody else find room
// when the large ones do not any more: a quarter of what there is for grammars is theirs. Masks
// have what grammars leave, and a quarter of all in any case (MatcherPool sees to that).
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include <kvgate/result.h>

#include "engine/text/grammar/mask/compiled_grammar.h"

namespace kvgate::grammar {

class GrammarMemory {
 public:
  struct Options {
    size_t bytes_max = size_t{256} << 20;            // of grammars and masks
    size_t remembered_max = 64;                      // grammars that nobody needs now
    size_t remembered_bytes_max = size_t{64} << 20;  // of them
  };
  GrammarMemory() : GrammarMemory(Options()) {}
  explicit GrammarMemory(const Options& options) : options_(options) {}

  // Null: it is not remembered.
  std::shared_ptr<const CompiledGrammar> Find(const std::string& key);
  // Remembers the grammar, or gives the equal one that another thread was quicker to make.
  // kTooLarge: there is never room for it; kOverloaded: not while others are in use.
  Result<std::shared_ptr<const CompiledGrammar>> Add(const std::string& key,
                                                     CompiledGrammar grammar);

  // Of grammars, whoever holds them.
  size_t grammar_bytes() const { return counter_->load(std::memory_order_relaxed); }
  // For masks and states, now.
  size_t masks_bytes_max() const;
  // Of grammars that are held for what is known of their masks alone, and given back when a grammar
  // wants their room.
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

}  // namespace kvgate::grammar
