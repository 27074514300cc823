// Preemption: sends a running sequence back to the waiting line, without its blocks. The sequence
// admitted last goes first; the oldest never does, so there is always progress. Takes no memory.
// Engine thread only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/schedule/prefix_offers.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/waiting_queue.h"

namespace kvgate::schedule {

class Preemption {
 public:
  // All arguments outlive it.
  Preemption(WaitingQueue& waiting, SequenceList& running, PrefixOffers& offers)
      : waiting_(waiting), running_(running), offers_(offers) {}

  // Returns the sequence to preempt next; null if only the oldest is left. Those with a load from
  // disk under way are not preempted.
  Sequence* Next() const {
    const auto newest = std::find_if(running_.rbegin(), running_.rend(), [](const auto& sequence) {
      return sequence->state == SequenceState::kRunning;
    });
    const bool is_oldest = newest == running_.rend() || newest->get() == running_.front().get();
    return is_oldest ? nullptr : newest->get();
  }
  void Preempt(Sequence& sequence) {
    ++num_preemptions_;
    ++sequence.num_preemptions;
    SendBack(sequence);
  }
  // The same, not counted as a preemption.
  void SendBack(Sequence& sequence) {
    offers_.Release(sequence);
    sequence.state = SequenceState::kWaiting;
    const auto it = std::ranges::find(running_, &sequence, &std::unique_ptr<Sequence>::get);
    waiting_.AddPreempted(running_, it);
  }

  uint64_t num_preemptions() const { return num_preemptions_; }

 private:
  WaitingQueue& waiting_;
  SequenceList& running_;
  PrefixOffers& offers_;
  uint64_t num_preemptions_ = 0;
};

}  // namespace kvgate::schedule
