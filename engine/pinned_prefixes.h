// Protections: which prefixes the pools and host arenas hold on to, how firmly and until when; and
// what that makes of each block's priority. It knows keys, not blocks. One thread: the engine's.
#pragma once

#include <chrono>
#include <unordered_map>
#include <vector>

#include <kvgate/ids.h>

#include "engine/engine.h"
#include "engine/kv/block_hasher.h"

namespace kvgate::engine {

class Protections {
 public:
  using PriorityMap = std::unordered_map<BlockHash, int>;

  // The hasher outlives this.
  explicit Protections(kv::BlockHasher& hasher) : hasher_(hasher) {}

  // Engine::Protect. Whether priorities changed.
  bool Set(const Protection& protection);
  // Forgets those that have ended. Whether there were any.
  bool EndExpired(std::chrono::steady_clock::time_point now);

  // Of blocks of group 0. A block that several protected prefixes begin with has the highest of
  // their priorities, so a parent's is never lower than its child's.
  PriorityMap Priorities() const;
  // Of a window's blocks, those before each prefix's end.
  PriorityMap WindowPriorities(int window) const;

 private:
  struct Prefix {
    std::vector<kv::BlockKey> keys;
    int priority = 0;
    std::chrono::steady_clock::time_point until;
  };
  kv::BlockHasher& hasher_;
  std::unordered_map<BlockHash, Prefix> prefixes_;  // by their last key
};

}  // namespace kvgate::engine
