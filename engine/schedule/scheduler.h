// Scheduler: which sequences run, which blocks they hold, and what the next step computes.
//
// Admission. Sequences wait in a WaitingLine (fair between tenants, short prompts first). One is
// admitted when the blocks of its whole prompt can be had; what the pool holds of it is shared,
// what the host arena holds is copied back, what the disk holds is restored where that is quicker
// than computing. One whose next block another sequence is computing waits for that (single
// flight): N requests with one cold prefix prefill it once.
//
// Copies from and to the host arena run beside the steps where the pool is a device's: a sequence
// whose blocks are on their way is left out until they are there, and a step that writes a block
// waits until its old content has been copied out.
//
// Steps. Decoding sequences come first; prefill takes what is left of the step's budget, in tokens
// and in time. The budget is smaller while somebody waits for the step: a sequence that decodes, or
// a short prompt beside a long one. Short prompts get three quarters of it, so that a long one
// never holds them up for more than a chunk, and long ones always the rest. Chunks end on block
// boundaries. When a decoding sequence needs a block and none is to be had, the one admitted last
// gives up its blocks and waits again; the oldest never does, so there is always progress.
//
// Bounded contexts. Where a context policy is set, a sequence whose KV grows beyond it takes its
// blocks out of the prefix cache (copies of its own) and drops one after the other; the blocks that
// it drops are the ones it writes next. What is dropped depends on the sequence's tokens alone.
//
// Windows. Where groups of layers see a window only (window_groups.h), a hit is good as far as the
// windows before its end are to be had, and is cut to that; a load from disk counts only as a
// whole, and a sequence whose load has failed is admitted anew without it. A step's blocks of those
// groups are reserved when it is planned.
//
// Memory. Where there is none (std::bad_alloc), what only makes later requests cheaper is left out:
// offers to the prefix cache, single flight. What a sequence needs is taken before the sequence
// changes, so whoever catches the exception can go on with the others: AdmitWaiting says by
// admitting() whom it was about, PlanStep leaves the blocks where they are. Ending a sequence takes
// no memory.
//
// One thread: the engine's.
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
#include "engine/schedule/waiting_line.h"
#include "engine/schedule/window_groups.h"
#include "engine/tier/disk_tier.h"
#include "engine/tier/host_tier.h"
#include "engine/tier/write_admission.h"
#include "kernels/backend.h"

namespace kvgate::schedule {

// The share of one sequence in a step: its next num_tokens tokens.
struct StepItem {
  Sequence* sequence = nullptr;
  int num_tokens = 0;
  bool wants_logits = false;  // the step reaches the sequence's last token
};

class Scheduler {
 public:
  struct Options {
    int step_tokens_max = 512;
    int mixed_step_tokens_max = 256;  // of a step for which somebody else waits
    double step_seconds_max = 1.0;    // of prefill; a quarter of it while somebody else waits
    int short_prompt_tokens = 1024;   // with no more to prefill: the short lane
    int sequences_max = 64;
    double tenant_kv_share = 1.0;  // of the pool, for the running sequences of one tenant
    ContextPolicy context_policy = ContextPolicy::kNone;
    int context_policy_tokens = 0;  // KV tokens that a sequence keeps; 0: all
  };
  // All outlive the scheduler; host and disk may be null.
  struct Parts {
    kv::BlockHasher& hasher;
    kv::BlockPool& pool;
    kv::PrefixCache& cache;
    tier::HostTier* host = nullptr;
    tier::DiskTier* disk = nullptr;
    kernels::Backend& backend;
    kernels::KvArena& arena;
    const CostModel& costs;
    std::vector<WindowGroups::Group> windows = {};  // KV groups 1, 2, ...
  };
  Scheduler(const Options& options, const Parts& parts);

  // To the waiting line. Takes the sequence unless it throws. REQUIRES: the whole sequence fits the
  // pool alone.
  void Add(std::unique_ptr<Sequence>&& sequence);
  // When a sequence that is added now would have its first token, from now; 0 while nothing has
  // been measured. Counts the prefill that goes before it and its own, less what is in memory.
  double EstimateTtftSeconds(Sequence& sequence);
  // Admits waiting sequences while there is room; starts the loads they need.
  void AdmitWaiting();
  // Whom AdmitWaiting was admitting when it threw.
  std::optional<RequestId> admitting() const { return admitting_; }
  // Chooses and reserves blocks for the next step; empty when nothing can be computed now.
  std::vector<StepItem> PlanStep();
  // The step's KV is in place: counts it and offers blocks that became full to the prefix cache.
  void OnComputed(const StepItem& item);
  // A load's completion.
  void OnRestored(const tier::Completion& completion);
  // Gives up the loads that have fallen behind computing. To be called often while restoring();
  // has_stepped: a step was computed since the last call.
  void GiveUpLateRestores(bool has_stepped = false);
  // A load is under way.
  bool restoring() const { return !restorer_.idle(); }
  // The last step left sequences out whose blocks were still being copied from host memory.
  bool copying() const { return is_copying_; }

  // Ends a sequence: its KV goes to the prefix cache, its blocks back to the pool. Null when the id
  // is unknown.
  std::unique_ptr<Sequence> Remove(RequestId id);
  Sequence* Find(RequestId id);
  // The one admitted last, or some that waits; null: there is none.
  Sequence* Newest() const;

  // Full, cached blocks at the front of the sequence that the store does not have yet, as far as
  // the write budget (null: none) admits them; from then on they count as stored. Empty without a
  // tier.
  std::vector<tier::WriteItem> TakeUnstoredBlocks(Sequence& sequence,
                                                  tier::WriteAdmission* admission = nullptr);
  // References to the first `count` blocks of group 0: what a write must hold.
  std::vector<kv::BlockRef> HoldBlocks(const Sequence& sequence, size_t count);
  // The same of the windows' blocks among the items.
  std::vector<kv::BlockRef> HoldWindows(std::span<const tier::WriteItem> items);

  bool has_windows() const { return !windows_.empty(); }
  // Whether SlideWindows would let go of blocks that TakeUnstoredBlocks has not seen.
  bool SlidesUnstored(const Sequence& sequence) const {
    return windows_.SlidesBehind(sequence, sequence.num_stored_blocks);
  }
  // Lets go of what the window has left behind. To be called after OnComputed; not without windows.
  void SlideWindows(Sequence& sequence) { windows_.Slide(sequence); }

  size_t num_waiting() const { return waiting_.size(); }
  size_t num_running() const { return running_.size(); }
  uint64_t num_preemptions() const { return num_preemptions_; }
  uint64_t num_single_flight() const { return num_single_flight_; }
  const Restorer& restorer() const { return restorer_; }
  // Blocks that one tenant's running sequences may hold.
  // Of every sequence, running ones first.
  std::vector<RequestId> Ids() const;

 private:
  enum class Admission { kAdmitted, kNoRoom, kOverQuota, kAwaitsAnother };

  // What the tiers have of a sequence's beginning, in this order.
  struct Hit {
    kv::PrefixMatch match = {};
    std::vector<kv::BlockRef> on_host = {};
    bool is_cut = false;  // more of it is on the host, and computing that is quicker
    int num_on_disk = 0;
    std::vector<tier::LoadItem> windows_on_disk = {};
    int num_in_memory() const { return static_cast<int>(match.blocks.size() + on_host.size()); }
    int num_blocks() const { return num_in_memory() + num_on_disk; }
  };

  // scheduler.cc
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
  void CopyBlock(BlockId from, BlockId to, int num_tokens);
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
  std::optional<std::vector<kv::BlockRef>> AcquireFresh(int count, const Sequence& sequence);
  void AppendBlocks(Sequence& sequence, std::vector<kv::BlockRef> blocks);
  int NumReusableBlocks(const Sequence& sequence) const;
  int CountCachedTokens(const Sequence& sequence) const;
  Sequence* FindRunning(RequestId id) const;
  tier::Worth WorthOf(const Sequence& sequence, int block) const;

  // windowed_admission.cc
  bool AwaitsWindows(Sequence& sequence, const Hit& hit);
  void CutToWindows(Sequence& sequence, Hit& hit);
  Admission CheckWindowRoom(const Sequence& sequence) const;
  bool TakeWindows(Sequence& sequence, Hit& hit);
  void BeginRestore(Sequence& sequence, Hit hit);
  void AdmitAnew(Sequence& sequence);
  void TakeUnstoredWindows(const Sequence& sequence, int block, tier::WriteAdmission* admission,
                           std::vector<tier::WriteItem>& items);
  static void AddPlace(Sequence& sequence, int num_tokens);

  // bounded_context.cc
  int BlocksNeeded(const Sequence& sequence) const;
  static int NumSlotsLeft(const Sequence& sequence);
  void BoundContext(Sequence& sequence);
  bool Detach(Sequence& sequence);
  void DropBlock(Sequence& sequence, int index);
  void ForgetInFlight(const Sequence& sequence);

  // step_plan.cc
  void PlanDecode(std::vector<StepItem>& step);
  struct PrefillBudget {
    int tokens = 0;
    double seconds = 0;
    int chunk_tokens_min = 0;  // the time notwithstanding, or a slow model would not get on
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
  kv::BlockPool& pool_;
  kv::PrefixCache& cache_;
  tier::HostTier* const host_;
  tier::DiskTier* const disk_;
  kernels::Backend& backend_;
  kernels::KvArena& arena_;
  const CostModel& costs_;
  const uint32_t tenant_blocks_max_;
  const int bounded_blocks_;  // that a sequence keeps; 0: all
  WindowGroups windows_;
  Restorer restorer_;
  WaitingLine waiting_;
  SequenceList running_;  // by admission, oldest first
  std::optional<RequestId> admitting_;
  // Blocks of prompts that a running sequence will compute or restore: by hash, which sequence.
  std::unordered_map<BlockHash, RequestId> in_flight_;
  uint64_t num_steps_without_long_ = 0;
  uint64_t num_preemptions_ = 0;
  uint64_t num_single_flight_ = 0;
  bool is_copying_ = false;
  bool is_awaiting_masks_ = false;
};

}  // namespace kvgate::schedule
