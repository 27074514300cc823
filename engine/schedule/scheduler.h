// Scheduler: decides which sequences run, which blocks they hold, and what the next step computes.
//
// Admission. Sequences wait in a WaitingQueue (fair between tenants, short prompts first). A
// sequence is admitted when the blocks of its whole prompt can be acquired. The prefix in the pool
// is shared, the part in the host arena is copied back, and the part on disk is restored if that is
// quicker than computing. A sequence whose next block another one is computing waits for that one,
// the leader (single flight): N requests with one cold prefix prefill it once.
//
// Copies from and to the host arena run beside the steps if the pool is on a device: a sequence
// whose blocks are being copied is left out of steps until they have arrived, and a step that
// writes a block waits until its old content has been copied out.
//
// Steps. Decoding sequences come first; prefill takes the rest of the step's budget, in tokens and
// in time. The budget is smaller while another sequence waits for the step: one that decodes, or a
// short prompt beside a long one. Short prompts get three quarters of it, so that a long prompt
// delays them by at most one chunk; long ones get the rest. Chunks end on block boundaries. When a
// decoding sequence needs a block and none is available, the sequence admitted last is preempted;
// the oldest never is, so there is always progress.
//
// Bounded contexts. With a context policy, a sequence whose KV grows beyond the bound replaces its
// blocks by copies that are not in the prefix cache and drops them one by one; it reuses the
// dropped blocks for new tokens. Which blocks are dropped depends on the sequence's tokens alone.
//
// Windows. If groups of layers see only a window (window_groups.h), a hit is cut to the last
// position whose windows are available; a load from disk is useful only as a whole, and a sequence
// whose load failed is admitted again without the disk. Window blocks are reserved when a step is
// planned.
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
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/kv/prefix_cache.h"
#include "engine/schedule/context_policy.h"
#include "engine/schedule/cost_model.h"
#include "engine/schedule/restorer.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/waiting_queue.h"
#include "engine/schedule/window_groups.h"
#include "engine/tier/disk_tier.h"
#include "engine/tier/kv_group.h"
#include "engine/tier/write_admission.h"
#include "kernels/backend.h"

namespace kvgate::schedule {

// One sequence's share of a step: its next num_tokens tokens.
struct StepItem {
  Sequence* sequence = nullptr;
  int num_tokens = 0;
  bool wants_logits = false;  // the step reaches the sequence's last token
};

class Scheduler {
 public:
  struct Options {
    int step_tokens_max = 512;
    int mixed_step_tokens_max = 256;  // of a step that another sequence waits for
    // Limit of a step's prefill time; a quarter of it while another sequence waits.
    double step_seconds_max = 1.0;
    // Prompts with at most this many tokens left to prefill take the short lane.
    int short_prompt_tokens = 1024;
    int sequences_max = 64;
    double tenant_kv_share = 1.0;  // share of the pool for one tenant's running sequences
    ContextPolicy context_policy = ContextPolicy::kNone;
    int context_policy_tokens = 0;  // KV tokens that a sequence keeps; 0 means all
  };
  // All members outlive the scheduler; `disk` may be null.
  struct Parts {
    kv::BlockHasher& hasher;
    tier::KvGroups& groups;
    tier::DiskTier* disk = nullptr;
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
  std::vector<StepItem> PlanStep();
  // Records that the step's KV is in place, and offers blocks that became full to the prefix cache.
  void OnComputed(const StepItem& item);
  // Handles the completion of a load.
  void OnRestored(const tier::Completion& completion);
  // Gives up the loads that have fallen behind computing. To be called often while restoring(); set
  // has_stepped if a step was computed since the last call.
  void GiveUpLateRestores(bool has_stepped = false);
  // True while a load is in flight.
  bool restoring() const { return !restorer_.idle(); }
  // True if the last step left out sequences whose blocks were still being copied from host memory.
  bool copying() const { return is_copying_; }

  // Ends a sequence: its KV is offered to the prefix cache and its blocks return to the pool.
  // Returns null if the id is unknown.
  std::unique_ptr<Sequence> Remove(RequestId id);
  Sequence* Find(RequestId id);
  // Returns the sequence admitted last, else any that waits; null if there is none.
  Sequence* Newest() const;

  // Returns the sequence's leading cached full blocks that the store lacks, as far as the write
  // budget admits them (null means no limit); from then on they count as stored. Empty without a
  // disk tier.
  std::vector<tier::WriteItem> TakeUnstoredBlocks(Sequence& sequence,
                                                  tier::WriteAdmission* admission = nullptr);
  // Returns references to the blocks that a write of the sequence's items must hold: those of the
  // items, and the chain before the last. To be released last to first.
  std::vector<kv::BlockRef> Hold(const Sequence& sequence, std::span<const tier::WriteItem> items);

  // True if SlideWindows would release blocks that TakeUnstoredBlocks has not seen.
  bool SlidesUnstored(const Sequence& sequence) const {
    return windows_.SlidesBehind(sequence, sequence.num_stored_blocks);
  }
  // Releases the blocks that have slid out of the windows. To be called after OnComputed.
  void SlideWindows(Sequence& sequence) { windows_.Slide(sequence); }

  size_t num_waiting() const { return waiting_.size(); }
  size_t num_running() const { return running_.size(); }
  uint64_t num_preemptions() const { return num_preemptions_; }
  uint64_t num_single_flight() const { return num_single_flight_; }
  const Restorer& restorer() const { return restorer_; }
  // Returns the ids of all sequences, running ones first.
  std::vector<RequestId> Ids() const;

 private:
  bool has_windows() const { return !groups_.windows().empty(); }
  enum class Admission { kAdmitted, kNoRoom, kOverQuota, kAwaitsAnother };

  // The cached prefix of a sequence; the tiers' parts follow each other in the order of the
  // members.
  struct Hit {
    kv::PrefixMatch match = {};
    std::vector<kv::BlockRef> on_host = {};
    bool is_cut = false;  // the host has more of it, but computing that is quicker
    int num_on_disk = 0;
    std::vector<tier::LoadItem> windows_on_disk = {};
    int num_in_memory() const { return static_cast<int>(match.blocks.size() + on_host.size()); }
    int num_blocks() const { return num_in_memory() + num_on_disk; }
  };

  // Defined in scheduler.cc.
  void Prepare(Sequence& sequence);
  Admission TryAdmit(Sequence& sequence);
  Admission Admit(Sequence& sequence);
  Admission CheckRoom(const Sequence& sequence, int num_new) const;
  bool RunsAlone(const Sequence& sequence) const;
  bool AwaitAnother(Sequence& sequence, size_t next_block);
  int CountSharedTail(const Sequence& leader, const Sequence& sequence,
                      size_t num_shared_blocks) const;
  bool IsAwaiting(const Sequence& sequence) const;
  Hit FindHit(Sequence& sequence);
  void CutToHostSpeed(Hit& hit) const;
  void RestoreFromHost(Sequence& sequence, std::vector<kv::BlockRef> on_host);
  void Start(Sequence& sequence, Hit hit);
  void Continue(Sequence& sequence, int num_restored_blocks);
  void GiveUpRestore(Sequence& sequence);
  void Preempt(Sequence& sequence);
  void BackToLine(Sequence& sequence);
  void ReleaseBlocks(Sequence& sequence);
  void ComputeKeys(Sequence& sequence, int num_blocks);
  int NumOfferable(const Sequence& sequence, int num_tokens) const;
  void OfferFullBlocks(Sequence& sequence);
  void OfferBlock(Sequence& sequence, int block);
  void OfferPartialBlock(Sequence& sequence);
  void NoteInFlight(const Sequence& sequence, size_t first_block);
  const kv::BlockKey& ParentKey(const Sequence& sequence, int block) const {
    return block == 0 ? sequence.root : sequence.keys[static_cast<size_t>(block) - 1];
  }
  void AppendBlocks(Sequence& sequence, std::vector<kv::BlockRef> blocks);
  int NumReusableBlocks(const Sequence& sequence) const;
  int CountCachedTokens(const Sequence& sequence) const;
  Sequence* FindRunning(RequestId id) const;
  tier::WritePriority WritePriorityOf(const Sequence& sequence, int block) const;

  // Defined in windowed_admission.cc.
  bool AwaitsWindows(Sequence& sequence, const Hit& hit);
  void CutToWindows(Sequence& sequence, Hit& hit);
  Admission CheckWindowRoom(const Sequence& sequence) const;
  bool TakeWindows(Sequence& sequence, Hit& hit);
  void BeginRestore(Sequence& sequence, Hit hit);
  void AdmitAnew(Sequence& sequence);
  void TakeUnstoredWindows(const Sequence& sequence, int block, tier::WriteAdmission* admission,
                           std::vector<tier::WriteItem>& items);
  static void AddResumePoint(Sequence& sequence, int num_tokens);

  // Defined in bounded_context.cc.
  int BlocksNeeded(const Sequence& sequence) const;
  static int NumSlotsLeft(const Sequence& sequence);
  void BoundContext(Sequence& sequence);
  bool Detach(Sequence& sequence);
  void DropBlock(Sequence& sequence, int index);
  void ForgetInFlight(const Sequence& sequence);

  // Defined in step_plan.cc.
  void PlanDecode(std::vector<StepItem>& step);
  struct PrefillBudget {
    int tokens = 0;
    double seconds = 0;
    int chunk_tokens_min = 0;  // regardless of the time, so that a slow model makes progress
  };
  void PlanPrefill(std::vector<StepItem>& step);
  void PlanLane(std::vector<Sequence*>& lane, PrefillBudget& budget, std::vector<StepItem>& step);
  bool AwaitsOthers(Sequence& sequence);
  void AwaitWrittenBlocks(std::span<const StepItem> step);
  bool PreemptForRoom();
  bool Grow(Sequence& sequence);
  bool MakeRoomFor(Sequence& sequence);

  const Options options_;
  kv::BlockHasher& hasher_;
  tier::KvGroups& groups_;
  tier::FullGroup& full_;
  tier::DiskTier* const disk_;
  kernels::Backend& backend_;
  const CostModel& costs_;
  const uint32_t tenant_blocks_max_;
  const int bounded_blocks_;  // that a bounded sequence keeps; 0 means no bound
  WindowGroups windows_;
  Restorer restorer_;
  WaitingQueue waiting_;
  SequenceList running_;  // by admission, oldest first
  std::optional<RequestId> admitting_;
  // Blocks of prompts that a running sequence (the leader) will compute or restore, by hash.
  std::unordered_map<BlockHash, RequestId> in_flight_;
  uint64_t num_steps_without_long_ = 0;
  uint64_t num_preemptions_ = 0;
  uint64_t num_single_flight_ = 0;
  bool is_copying_ = false;
  bool is_awaiting_masks_ = false;
};

}  // namespace kvgate::schedule
