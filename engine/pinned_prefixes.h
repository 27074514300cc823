// PinnedPrefixes: the pinned prefixes, how firmly the pools and host arenas keep them and until
// when, and the priority of each block that follows. It knows keys, not blocks. Engine thread only.
#pragma once

#include <chrono>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "engine/engine.h"
#include "engine/kv/block_cache.h"
#include "engine/kv/block_hasher.h"

namespace kvgate::engine {

class PinnedPrefixes {
 public:
  // The hasher must outlive this object.
  explicit PinnedPrefixes(kv::BlockHasher& hasher) : hasher_(hasher) {}

  // Implements Engine::Pin. Returns true if priorities changed.
  bool Set(const PinnedPrefix& pin);
  // Removes the pins that have ended. Returns true if there were any.
  bool EndExpired(std::chrono::steady_clock::time_point now);

  // Priorities of the blocks of a KV group with that window (0 means none): those just before each
  // prefix's end, as far as its layers see. A block that several pinned prefixes share has the
  // highest of their priorities, so a parent's priority is never lower than its child's.
  kv::PriorityMap Priorities(int window) const;

 private:
  struct Prefix {
    std::vector<kv::BlockKey> keys;
    int priority = 0;
    std::chrono::steady_clock::time_point until;
  };
  kv::BlockHasher& hasher_;
  std::unordered_map<BlockHash, Prefix> prefixes_;  // by the hash of their last key
};

}  // namespace kvgate::engine
