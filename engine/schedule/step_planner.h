// StepPlanner: which running sequences take part in the next step, with how many tokens.
//
// Decoding sequences come first; prefill takes the rest of the step's budget, in tokens and in
// time. The budget is smaller while another sequence waits for the step: one that decodes, or a
// short prompt beside a long one. Short prompts get three quarters of it, so that a long prompt
// delays them by at most one chunk; long ones get the rest. Chunks end on block boundaries unless
// they end the prompt. When a decoding sequence needs a block and none is available, another one is
// preempted (preemption.h). Blocks of windows are reserved here.
//
// A sequence whose blocks are being copied from the host arena is left out of steps until they have
// arrived, and a step that writes a block waits until its old content has been copied out. Engine
// thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/schedule/bounded_context.h"
#include "engine/schedule/cost_model.h"
#include "engine/schedule/preemption.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/waiting_queue.h"
#include "engine/schedule/window_groups.h"
#include "engine/tier/kv_group.h"
#include "kernels/backend.h"

namespace kvgate::schedule {

// One sequence's share of a step: its next num_tokens tokens.
struct StepItem {
  Sequence* sequence = nullptr;
  int num_tokens = 0;
  bool wants_logits = false;  // the step reaches the sequence's last token
};

class StepPlanner {
 public:
  struct Options {
    int tokens_max = 512;
    int mixed_tokens_max = 256;  // of a step that another sequence waits for
    // Limit of a step's prefill time; a quarter of it while another sequence waits.
    double seconds_max = 1.0;
    // Prompts with at most this many tokens left to prefill take the short lane.
    int short_prompt_tokens = 1024;
  };
  // All members outlive it.
  struct Parts {
    const SequenceList& running;
    const WaitingQueue& waiting;  // knows what service tenants received
    kernels::Backend& backend;
    const CostModel& costs;
    tier::KvGroups& groups;
    WindowGroups& windows;
    BoundedContext& context;
    Preemption& preemption;
  };
  StepPlanner(const Options& options, const Parts& parts) : options_(options), parts_(parts) {}

  // Chooses the sequences of the next step and reserves their blocks; returns an empty step if
  // nothing can be computed at the moment. Leaves the blocks unchanged if memory runs out.
  std::vector<StepItem> Plan();
  // True if the last step left out sequences whose blocks were still being copied from host memory.
  bool is_copying() const { return is_copying_; }

 private:
  struct PrefillBudget {
    int tokens = 0;
    double seconds = 0;
    int chunk_tokens_min = 0;  // regardless of the time, so that a slow model makes progress
  };
  void PlanDecode(std::vector<StepItem>& step);
  void PlanPrefill(std::vector<StepItem>& step);
  void PlanLane(std::vector<Sequence*>& lane, PrefillBudget& budget, std::vector<StepItem>& step);
  int ChunkTokens(Sequence& sequence, const PrefillBudget& budget);
  bool AwaitsOthers(Sequence& sequence);
  void AwaitWrittenBlocks(std::span<const StepItem> step);
  bool PreemptForRoom();
  bool Grow(Sequence& sequence);
  bool MakeRoomFor(Sequence& sequence);

  const Options options_;
  const Parts parts_;
  uint64_t num_steps_without_long_ = 0;
  bool is_copying_ = false;
  bool is_awaiting_masks_ = false;
};

}  // namespace kvgate::schedule
