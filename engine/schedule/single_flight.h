// SingleFlight: which running sequence, the leader, will compute or restore which blocks, so that N
// requests with one cold prefix prefill it once: the others wait for the leader. A sequence waits
// only for a running one, so no two wait for each other. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/ids.h"
#include "engine/schedule/sequence.h"

namespace kvgate::schedule {

class SingleFlight {
 public:
  // The list outlives it.
  explicit SingleFlight(const SequenceList& running) : running_(running) {}

  // Makes the sequence the leader of its blocks from first_block on that have none. If memory runs
  // out, others compute the same blocks again.
  void Lead(const Sequence& sequence, size_t first_block);
  // Removes the sequence as the leader of a block that others find from now on ...
  void Forget(const Sequence& sequence, const kv::BlockKey& key);
  // ... or of all: no other request needs to wait for what it computes.
  void Forget(const Sequence& sequence);

  // Returns true if a running sequence will compute the block soon; the sequence then waits for it.
  // With shares_tail it also waits for tokens behind its full blocks that both prompts share.
  bool Await(Sequence& sequence, int next_block, bool shares_tail);
  // True while a sequence waits for its leader.
  bool IsAwaiting(const Sequence& sequence) const;

  // The number of sequences that have waited.
  uint64_t num_awaited() const { return num_awaited_; }

 private:
  const SequenceList& running_;
  std::unordered_map<BlockHash, RequestId> leaders_;  // by the block's hash
  uint64_t num_awaited_ = 0;
};

}  // namespace kvgate::schedule
