// LookUps: asks the store that gateways share which blocks of a waiting sequence's prompt it has,
// before the sequence is admitted. The store has no index here, so its blocks are known only after
// a question.
//
// A sequence is asked for once, and only if computing what is neither in memory nor on disk takes
// longer than answers do, which take at most 5 % of it or 10 ms. It waits at most 5 % of that time,
// 10 ms, or three times as long as answers take, whichever is the longest; where none came lately,
// so that it is unknown how long one takes and a connection may have to be made, half of that time
// but at most 50 ms. Then it goes on without. Others are admitted meanwhile. Engine thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <unordered_map>

#include "engine/schedule/cost_model.h"
#include "engine/schedule/sequence.h"
#include "engine/tier/kv_group.h"
#include "engine/tier/store_tiers.h"

namespace kvgate::schedule {

class LookUps {
 public:
  // All arguments outlive it. Without a shared store nothing is asked.
  LookUps(const tier::StoreTiers& stores, const CostModel& costs, tier::KvGroups& groups)
      : stores_(stores), costs_(costs), groups_(groups) {}

  // Returns true while the sequence waits for an answer: asks for the blocks of its keys from
  // first_block on if that is worth it and was not done yet. Changes nothing if memory runs out.
  bool Await(Sequence& sequence, int first_block);
  // Handles the answer to a question: the sequence can be admitted.
  void OnAnswer(uint64_t ticket);
  // The sequence ends. To be called for every sequence that stops waiting without being admitted.
  void Forget(Sequence& sequence);

 private:
  std::chrono::microseconds Patience(double compute_seconds) const;

  const tier::StoreTiers stores_;
  const CostModel& costs_;
  tier::KvGroups& groups_;
  std::unordered_map<uint64_t, Sequence*> waiting_;  // by ticket
};

}  // namespace kvgate::schedule
