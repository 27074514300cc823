// Scheduler: decides which sequences run, which blocks they hold, and what the next step computes.
//
// A sequence waits in a WaitingQueue (fair between tenants, short prompts first) until an Admission
// finds blocks for its whole prompt, which it shares, copies back or restores as far as they are
// cached. A StepPlanner chooses the sequences of each step; what they computed is offered to others
// (PrefixOffers), and a BoundedContext drops what exceeds the bound. Blocks of windows are handled
// by WindowGroups, loads from the stores by a Restorer, and what the shared store has is asked by
// LookUps.
//
// Memory. If memory runs out (std::bad_alloc), work that only makes later requests cheaper is
// skipped: offers to the prefix cache and single flight. A sequence's memory is taken before the
// sequence changes, so a caller that catches the exception can go on with the others: admitting()
// names the sequence that AdmitWaiting was admitting, and PlanStep leaves the blocks unchanged.
// Ending a sequence takes no memory.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/schedule/admission.h"
#include "engine/schedule/bounded_context.h"
#include "engine/schedule/cost_model.h"
#include "engine/schedule/look_ups.h"
#include "engine/schedule/preemption.h"
#include "engine/schedule/prefix_offers.h"
#include "engine/schedule/restorer.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/single_flight.h"
#include "engine/schedule/step_planner.h"
#include "engine/schedule/waiting_queue.h"
#include "engine/schedule/window_groups.h"
#include "engine/tier/kv_group.h"
#include "engine/tier/store_tiers.h"
#include "kernels/backend.h"

namespace kvgate::schedule {

class Scheduler {
 public:
  struct Options {
    StepPlanner::Options step = {};
    int sequences_max = 64;
    double tenant_kv_share = 1.0;  // share of the pools for one tenant's running sequences
    ContextPolicy context_policy = ContextPolicy::kNone;
    int context_policy_tokens = 0;  // KV tokens that a sequence keeps; 0 means all
  };
  // All members outlive the scheduler.
  struct Parts {
    kv::BlockHasher& hasher;
    tier::KvGroups& groups;
    tier::StoreTiers stores = {};
    kernels::Backend& backend;
    const CostModel& costs;
  };
  Scheduler(const Options& options, const Parts& parts);

  // Adds a sequence to the waiting line. Takes the sequence unless it throws. REQUIRES: the whole
  // sequence fits the pool alone.
  void Add(std::unique_ptr<Sequence>&& sequence);
  // Returns the expected seconds until the first token of a sequence that is added now; 0 while
  // nothing has been measured. Counts the prefill ahead of it and its own, less what is cached in
  // memory.
  double EstimateTtftSeconds(Sequence& sequence);
  // Admits waiting sequences while there is room; starts the loads they need.
  void AdmitWaiting();
  // The sequence that AdmitWaiting was admitting when it threw.
  std::optional<RequestId> admitting() const { return admitting_; }
  // Chooses the sequences of the next step and reserves their blocks; returns an empty step if
  // nothing can be computed at the moment.
  std::vector<StepItem> PlanStep() { return planner_.Plan(); }
  // Records that the step's KV is in place, and offers blocks that became full to the caches.
  void OnComputed(const StepItem& item);
  // Releases the blocks that have slid out of the windows. To be called after OnComputed.
  void SlideWindows(Sequence& sequence) { windows_.Slide(sequence); }
  // True if SlideWindows would release blocks that count as not stored.
  bool SlidesUnstored(const Sequence& sequence) const;
  // Handles the completion of a load.
  void OnRestored(const tier::Completion& completion) { restorer_.OnCompletion(completion); }
  // Handles the answer of the shared store to a question.
  void OnLookedUp(uint64_t ticket) { look_ups_.OnAnswer(ticket); }
  // Gives up the loads that have fallen behind computing. To be called often while restoring(); set
  // has_stepped if a step was computed since the last call.
  void GiveUpLateRestores(bool has_stepped = false) {
    restorer_.GiveUpLate(Clock::now(), has_stepped);
  }
  // True while a load is in flight.
  bool restoring() const { return !restorer_.idle(); }
  // True if the last step left out sequences whose blocks were still being copied from host memory.
  bool copying() const { return planner_.is_copying(); }

  // Ends a sequence: its KV is offered to the prefix cache and its blocks return to the pool.
  // Returns null if the id is unknown.
  std::unique_ptr<Sequence> Remove(RequestId id);
  Sequence* Find(RequestId id);
  // Returns the sequence admitted last, else any that waits; null if there is none.
  Sequence* Newest() const;
  // Returns the ids of all sequences, running ones first.
  std::vector<RequestId> Ids() const;

  size_t num_waiting() const { return waiting_.size(); }
  size_t num_running() const { return running_.size(); }
  uint64_t num_preemptions() const { return preemption_.num_preemptions(); }
  uint64_t num_single_flight() const { return single_flight_.num_awaited(); }
  const Restorer& restorer() const { return restorer_; }

 private:
  void Prepare(Sequence& sequence);

  const Options options_;
  const CostModel& costs_;
  const tier::StoreTiers stores_;
  const kv::BlockPool& pool_;  // of the full group
  WaitingQueue waiting_;
  SequenceList running_;  // by admission, oldest first
  SingleFlight single_flight_;
  LookUps look_ups_;
  WindowGroups windows_;
  BoundedContext context_;
  PrefixOffers offers_;
  Preemption preemption_;
  Restorer restorer_;
  Admission admission_;
  StepPlanner planner_;
  std::optional<RequestId> admitting_;
};

}  // namespace kvgate::schedule
