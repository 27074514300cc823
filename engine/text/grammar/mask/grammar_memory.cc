#include "engine/text/grammar/mask/grammar_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvgate::grammar::mask {
namespace {

// Grammars above 1/64 of the memory may not use the quarter reserved for small ones.
constexpr size_t kSmallShare = 64;
// In this time the engine answers some hundred tokens of a large grammar.
constexpr int kRetrySeconds = 2;

}  // namespace

std::shared_ptr<const CompiledGrammar> GrammarMemory::FindLocked(const std::string& key) {
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (known == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known);
  return known->grammar;
}

std::shared_ptr<const CompiledGrammar> GrammarMemory::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return FindLocked(key);
}

std::list<GrammarMemory::Entry>::iterator GrammarMemory::Forget(std::list<Entry>::iterator entry) {
  remembered_bytes_ -= entry->bytes;
  return entries_.erase(entry);
}

// Only the cache hands out grammars, under the mutex, so an entry with use_count 1 stays unused.
bool GrammarMemory::MakeRoom(size_t bytes) {
  const size_t for_grammars = options_.bytes_max / 4 * 3;
  const bool is_small = bytes <= options_.bytes_max / kSmallShare;
  const size_t bytes_max = is_small ? for_grammars : for_grammars / 4 * 3;
  const auto fits = [&] {
    const size_t taken = grammar_bytes();
    const size_t idle = idle_bytes_.load(std::memory_order_relaxed);
    return taken - std::min(taken, idle) + bytes <= bytes_max;
  };
  for (auto at = entries_.end(); !fits() && at != entries_.begin();) {
    const auto oldest = std::prev(at);
    at = oldest->grammar.use_count() == 1 ? Forget(oldest) : oldest;
  }
  return fits();
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarMemory::Add(const std::string& key,
                                                                  CompiledGrammar grammar) {
  const size_t bytes = grammar.automaton.bytes() + key.size();
  const size_t never = options_.bytes_max / 16 * 9;  // see MakeRoom
  constexpr size_t kMebibyte = size_t{1} << 20;
  if (bytes > never) {
    return MakeError(ErrorCode::kTooLarge, "grammar",
                     fmt::format("the grammar takes {} MiB; engine.grammar_memory leaves {} MiB to "
                                 "one",
                                 bytes / kMebibyte, never / kMebibyte));
  }
  const std::lock_guard lock(mutex_);
  if (auto known = FindLocked(key)) return known;
  if (!MakeRoom(bytes)) {
    Error error = MakeError(
        ErrorCode::kOverloaded, "grammar",
        fmt::format("the grammar takes {} KiB, and those in use hold {} MiB of the {} MiB of "
                    "engine.grammar_memory; try again",
                    bytes >> 10, grammar_bytes() / kMebibyte, options_.bytes_max / kMebibyte));
    error.retryable = true;
    error.retry_after_seconds = kRetrySeconds;
    return error;
  }
  const auto give_back = [counter = counter_, bytes](const CompiledGrammar* held) {
    delete held;
    counter->fetch_sub(bytes, std::memory_order_relaxed);
  };
  auto owned = std::make_unique<const CompiledGrammar>(std::move(grammar));
  counter_->fetch_add(bytes, std::memory_order_relaxed);
  // If allocating the control block throws, shared_ptr calls give_back, which also corrects the
  // count.
  std::shared_ptr<const CompiledGrammar> made(owned.release(), give_back);
  entries_.push_front({.key = key, .grammar = made, .bytes = bytes});
  remembered_bytes_ += bytes;
  while (entries_.size() > 1 && (entries_.size() > options_.remembered_max ||
                                 remembered_bytes_ > options_.remembered_bytes_max)) {
    Forget(std::prev(entries_.end()));
  }
  return made;
}

size_t GrammarMemory::masks_bytes_max() const {
  const size_t taken = grammar_bytes();
  const size_t left = options_.bytes_max - std::min(options_.bytes_max, taken);
  return std::max(left, options_.bytes_max / 4);
}

}  // namespace kvgate::grammar::mask
