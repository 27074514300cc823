#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <utility>

#include "base/check.h"

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

namespace {

// The number of waiting sequences that are tried in one round ...
constexpr size_t kCandidatesMax = 32;
// ... and the number of them that may find no room before the round ends.
constexpr size_t kNoRoomMax = 8;
// A sequence without room is bypassed this many times; after that all others wait for it.
constexpr int kBypassesMax = 16;

}  // namespace

Scheduler::Scheduler(const Options& options, const Parts& parts)
    : options_(options),
      hasher_(parts.hasher),
      groups_(parts.groups),
      full_(parts.groups.full()),
      disk_(parts.disk),
      backend_(parts.backend),
      costs_(parts.costs),
      tenant_blocks_max_(std::max(1u, static_cast<uint32_t>(std::ceil(options.tenant_kv_share *
                                                                      full_.pool().num_blocks())))),
      bounded_blocks_(options.context_policy == ContextPolicy::kNone
                          ? 0
                          : options.context_policy_tokens / kKvBlockTokens),
      windows_(parts.groups.windows(), parts.disk),
      restorer_(parts.disk, parts.costs, full_.block_bytes()) {}

void Scheduler::Add(std::unique_ptr<Sequence>&& sequence) {
  KVGATE_CHECK(sequence->num_tokens() > 0, "an empty sequence");
  KVGATE_CHECK(BlocksNeeded(*sequence) <= static_cast<int>(full_.pool().num_blocks()),
               "a sequence that can never fit");
  if (options_.context_policy == ContextPolicy::kLeastAttended) {
    sequence->first_mass_token = bounded_blocks_ * kKvBlockTokens;
  }
  Prepare(*sequence);
  sequence->is_long =
      sequence->num_tokens() - sequence->num_cached_at_arrival > options_.short_prompt_tokens;
  waiting_.Add(std::move(sequence));
}

void Scheduler::Prepare(Sequence& sequence) {
  sequence.held.resize(groups_.size());
  sequence.root = hasher_.Root(sequence.salt);
  ComputeKeys(sequence, NumReusableBlocks(sequence));
  sequence.num_cached_at_arrival = CountCachedTokens(sequence);
}

void Scheduler::ComputeKeys(Sequence& sequence, int num_blocks) {
  while (static_cast<int>(sequence.keys.size()) < num_blocks) {
    const size_t block = sequence.keys.size();
    const auto tokens =
        std::span(sequence.tokens).subspan(block * kKvBlockTokens).first<kKvBlockTokens>();
    sequence.keys.push_back(hasher_.Next(ParentKey(sequence, static_cast<int>(block)), tokens));
  }
}

// Returns the number of full blocks that another sequence may have computed. The last token is
// always computed, because its logits are needed.
int Scheduler::NumReusableBlocks(const Sequence& sequence) const {
  const int num_blocks = (sequence.num_tokens() - 1) / kKvBlockTokens;
  return bounded_blocks_ == 0 ? num_blocks : std::min(num_blocks, bounded_blocks_);
}

// Counts tokens in the pool or the host arena, which cost next to nothing to restore.
int Scheduler::CountCachedTokens(const Sequence& sequence) const {
  const auto count = static_cast<int>(full_.CountInMemory(sequence.keys));
  return windows_.LastResumePoint(sequence.keys, count, false) * kKvBlockTokens;
}

double Scheduler::EstimateTtftSeconds(Sequence& sequence) {
  Prepare(sequence);
  const int num_own = sequence.num_tokens() - sequence.num_cached_at_arrival;
  const bool is_long = num_own > options_.short_prompt_tokens;
  double seconds = costs_.PrefillSeconds(sequence.num_cached_at_arrival, num_own);
  const auto add = [&](const Sequence& other, int num_done) {
    const int num_pending = other.num_prompt_tokens - num_done;
    // A short prompt does not wait for the long ones.
    if (num_pending <= 0 || (!is_long && num_pending > options_.short_prompt_tokens)) return;
    seconds += costs_.PrefillSeconds(num_done, num_pending);
  };
  for (const auto& other : running_) add(*other, other->num_computed);
  waiting_.ForEach([&](const Sequence& other) { add(other, other.num_cached_at_arrival); });
  return seconds;
}

void Scheduler::AppendBlocks(Sequence& sequence, std::vector<kv::BlockRef> blocks) {
  if (bounded_blocks_ > 0) {
    sequence.block_mass.reserve(sequence.full().blocks.size() + blocks.size());
  }
  sequence.full().Append(std::move(blocks));
  if (bounded_blocks_ > 0 && options_.context_policy == ContextPolicy::kLeastAttended) {
    sequence.block_mass.resize(sequence.full().blocks.size(), 0);
  }
}

// --- admission ----------------------------------------------------------------------------------

void Scheduler::AdmitWaiting() {
  admitting_.reset();
  const auto sequences_max = static_cast<size_t>(options_.sequences_max);
  if (waiting_.empty() || running_.size() >= sequences_max) return;
  const std::vector<Sequence*> candidates = waiting_.Candidates(
      kCandidatesMax, [this](const Sequence& sequence) { return IsAwaiting(sequence); },
      [this](const Sequence& sequence) { return CountCachedTokens(sequence); });
  std::vector<Sequence*> without_room;
  without_room.reserve(kNoRoomMax);
  for (Sequence* const sequence : candidates) {
    if (running_.size() >= sequences_max) return;
    admitting_ = sequence->id;
    const Admission admission = TryAdmit(*sequence);
    admitting_.reset();
    switch (admission) {
      case Admission::kAdmitted:
        waiting_.TakeTo(*sequence, running_);
        for (Sequence* const passed : without_room) ++passed->num_bypassed;
        break;
      case Admission::kNoRoom:
        without_room.push_back(sequence);
        if (without_room.size() == kNoRoomMax || sequence->num_bypassed >= kBypassesMax) return;
        break;
      case Admission::kOverQuota:
      case Admission::kAwaitsAnother:
        break;
    }
  }
}

Scheduler::Hit Scheduler::FindHit(Sequence& sequence) {
  const int num_reusable = NumReusableBlocks(sequence);
  ComputeKeys(sequence, num_reusable);
  sequence.keys.resize(static_cast<size_t>(num_reusable));
  // A bounded sequence must compute the tokens behind its reusable blocks, because their attention
  // counts.
  const int num_partial = bounded_blocks_ > 0 && num_reusable == bounded_blocks_ ? 0 : 1;
  const size_t num_tokens = std::min(
      sequence.tokens.size() - 1, static_cast<size_t>(num_reusable + num_partial) * kKvBlockTokens);
  Hit hit{.match = full_.cache().Match(sequence.root, sequence.keys,
                                       std::span(sequence.tokens).first(num_tokens))};
  // The host blocks are held from here on, because making room may evict others into the host
  // arena.
  if (full_.host() != nullptr) {
    hit.on_host = full_.host()->Match(std::span(sequence.keys).subspan(hit.match.blocks.size()));
    CutToHostSpeed(hit);
  }
  return hit;
}

// Cuts the hit to the blocks that are copied sooner than computed: a slow bus may lose against a
// fast device.
void Scheduler::CutToHostSpeed(Hit& hit) const {
  if (hit.on_host.empty() || costs_.host_bytes_per_second() <= 0) return;
  const CostModel::RestorePlan plan = costs_.PlanRestore(
      {.first_position = static_cast<int>(hit.match.blocks.size()) * kKvBlockTokens,
       .num_blocks = static_cast<int>(hit.on_host.size()),
       .block_bytes = full_.block_bytes(),
       .bytes_ahead = full_.host()->bytes_restoring(),
       .bytes_per_second = costs_.host_bytes_per_second()});
  hit.is_cut = plan.num_blocks < static_cast<int>(hit.on_host.size());
  while (static_cast<int>(hit.on_host.size()) > plan.num_blocks) hit.on_host.pop_back();
}

// If memory runs out, the sequence keeps waiting and holds nothing.
Scheduler::Admission Scheduler::TryAdmit(Sequence& sequence) {
  try {
    return Admit(sequence);
  } catch (const std::bad_alloc&) {
    ReleaseBlocks(sequence);
    sequence.state = SequenceState::kWaiting;
    throw;
  }
}

Scheduler::Admission Scheduler::Admit(Sequence& sequence) {
  Hit hit = FindHit(sequence);
  const auto num_in_memory = static_cast<size_t>(hit.num_in_memory());
  if (AwaitAnother(sequence, num_in_memory)) return Admission::kAwaitsAnother;
  if (!sequence.skips_disk && !hit.is_cut) {
    hit.num_on_disk = restorer_.CountOnDisk(sequence, num_in_memory);
  }
  if (has_windows()) {
    if (AwaitsWindows(sequence, hit)) return Admission::kAwaitsAnother;
    CutToWindows(sequence, hit);
  }
  kv::PrefixMatch& match = hit.match;
  const int num_shared = static_cast<int>(match.blocks.size());
  const int num_new = BlocksNeeded(sequence) - num_shared;
  Admission room = CheckRoom(sequence, num_new);
  if (room == Admission::kNoRoom && match.partial) {
    // The source block of the copy must not take the room of its copy; otherwise a prompt that
    // fills the pool would wait forever.
    match.partial.Reset();
    room = CheckRoom(sequence, num_new);
  }
  if (room == Admission::kAdmitted && has_windows()) room = CheckWindowRoom(sequence);
  if (room != Admission::kAdmitted) return room;
  std::optional<std::vector<kv::BlockRef>> fresh = full_.Acquire(num_new, sequence.tenant);
  if (!fresh.has_value()) return Admission::kNoRoom;
  if (has_windows() && !TakeWindows(sequence, hit)) return Admission::kNoRoom;

  if (hit.on_host.empty() && hit.num_on_disk == 0 && match.partial) {
    full_.Copy(match.partial.id(), fresh->front().id(), match.num_partial_tokens);
  } else {
    match.num_partial_tokens = 0;
  }
  full_.cache().CountUse(match);
  const int num_partial = match.num_partial_tokens;
  AppendBlocks(sequence, std::move(match.blocks));
  match.blocks.clear();
  AppendBlocks(sequence, std::move(*fresh));
  sequence.num_computed = num_shared * kKvBlockTokens + num_partial;
  sequence.num_offered_blocks = num_shared;
  sequence.num_stored_blocks = 0;
  Start(sequence, std::move(hit));
  return Admission::kAdmitted;
}

bool Scheduler::RunsAlone(const Sequence& sequence) const {
  return std::ranges::none_of(running_,
                              [&](const auto& other) { return other->tenant == sequence.tenant; });
}

Scheduler::Admission Scheduler::CheckRoom(const Sequence& sequence, int num_new) const {
  const auto wanted = static_cast<size_t>(num_new);
  const bool has_quota = tenant_blocks_max_ < full_.pool().num_blocks();
  if (has_quota && !RunsAlone(sequence) &&
      full_.pool().num_used_by(sequence.tenant) + wanted > tenant_blocks_max_) {
    return Admission::kOverQuota;
  }
  // Keeps one spare block for each running sequence; otherwise the newcomer would be preempted at
  // once.
  return wanted + running_.size() > full_.pool().num_available() ? Admission::kNoRoom
                                                                 : Admission::kAdmitted;
}

// Returns true if a running sequence, the leader, will compute the next block soon; the sequence
// then waits for it.
bool Scheduler::AwaitAnother(Sequence& sequence, size_t next_block) {
  if (next_block >= sequence.keys.size()) return false;
  const auto first = in_flight_.find(sequence.keys[next_block].hash);
  if (first == in_flight_.end()) return false;
  size_t end = next_block;
  while (end < sequence.keys.size()) {
    const auto found = in_flight_.find(sequence.keys[end].hash);
    if (found == in_flight_.end() || found->second != first->second) break;
    ++end;
  }
  // A hash may collide; only equal digests prove that the prefix is the same.
  Sequence* const leader = FindRunning(first->second);
  if (leader == nullptr || leader->keys[end - 1] != sequence.keys[end - 1]) return false;
  sequence.waits_for = leader->id;
  sequence.num_tokens_awaited = static_cast<int>(end) * kKvBlockTokens;
  if (has_windows()) {
    AddResumePoint(*leader, sequence.num_tokens_awaited);
  } else if (const int tail = CountSharedTail(*leader, sequence, end); tail > 0) {
    // If the prompts share tokens behind their full blocks, the unfinished last block is awaited
    // too: it is offered when the leader's prompt is computed or the block is full.
    sequence.num_tokens_awaited =
        std::min(leader->num_prompt_tokens, sequence.num_tokens_awaited + kKvBlockTokens);
  }
  if (!sequence.was_single_flight) ++num_single_flight_;
  sequence.was_single_flight = true;
  return true;
}

// If all of the sequence's full blocks are the leader's too, returns how many tokens behind them
// both share; else 0.
int Scheduler::CountSharedTail(const Sequence& leader, const Sequence& sequence,
                               size_t num_shared_blocks) const {
  if (num_shared_blocks < sequence.keys.size()) return 0;
  if (bounded_blocks_ > 0 && sequence.keys.size() >= static_cast<size_t>(bounded_blocks_)) return 0;
  const size_t begin = num_shared_blocks * kKvBlockTokens;
  const auto own = std::span(sequence.tokens).subspan(begin);
  const auto prompt = std::span(leader.tokens).first(static_cast<size_t>(leader.num_prompt_tokens));
  if (prompt.size() < begin) return 0;
  const auto [unused, end] = std::ranges::mismatch(prompt.subspan(begin), own);
  return static_cast<int>(end - own.begin());
}

bool Scheduler::IsAwaiting(const Sequence& sequence) const {
  if (sequence.num_tokens_awaited == 0) return false;
  const Sequence* const leader = FindRunning(sequence.waits_for);
  return leader != nullptr && leader->num_computed < sequence.num_tokens_awaited;
}

// Starts a sequence that has all its blocks: fills them from the lower tiers.
void Scheduler::Start(Sequence& sequence, Hit hit) {
  sequence.state = SequenceState::kRunning;
  const bool is_first = !sequence.admitted_before;
  sequence.admitted_before = true;
  const int first = sequence.num_computed / kKvBlockTokens;
  const int num_on_host = static_cast<int>(hit.on_host.size());
  if (is_first) {
    sequence.num_device_tokens = sequence.num_computed;
    sequence.num_host_tokens = num_on_host * kKvBlockTokens;
    sequence.admitted_at = Clock::now();
  }
  RestoreFromHost(sequence, std::move(hit.on_host));
  // Blocks in use in memory also count as used on disk.
  if (const int num_used = first + num_on_host; disk_ != nullptr && num_used > 0) {
    const auto used = std::span(sequence.keys).first(static_cast<size_t>(num_used));
    for (const auto& group : groups_.all()) {
      disk_->Touch(used.subspan(static_cast<size_t>(group->FirstSeen(num_used))), group->index());
    }
  }
  const int num_known = sequence.num_computed / kKvBlockTokens;
  NoteInFlight(sequence, static_cast<size_t>(num_known));
  if (has_windows()) {
    BeginRestore(sequence, std::move(hit));
  } else if (hit.num_on_disk > 0) {
    restorer_.Begin(sequence, hit.num_on_disk);
  }
  if (is_first) sequence.restored_at = Clock::now();
}

void Scheduler::NoteInFlight(const Sequence& sequence, size_t first_block) {
  try {
    for (size_t i = first_block; i < sequence.keys.size(); ++i) {
      in_flight_.try_emplace(sequence.keys[i].hash, sequence.id);
    }
  } catch (const std::bad_alloc&) {  // without the entry others compute the same blocks again
  }
}

// The copies may still be running when this sequence and others already reference the blocks.
void Scheduler::RestoreFromHost(Sequence& sequence, std::vector<kv::BlockRef> on_host) {
  if (full_.host() == nullptr) return;
  const auto first = static_cast<size_t>(sequence.num_computed / kKvBlockTokens);
  const size_t num_shared = first + on_host.size();
  if (!on_host.empty()) {
    const int num_tokens = static_cast<int>(on_host.size()) * kKvBlockTokens;
    full_.host()->Restore(
        std::move(on_host),
        std::span(sequence.full().block_table).subspan(first, num_shared - first));
    sequence.num_computed += num_tokens;
    OfferFullBlocks(sequence);
  }
  sequence.copy_ticket =
      std::max(windows_.TicketOf(sequence),
               full_.host()->TicketOf(std::span(sequence.full().block_table).first(num_shared)));
}

void Scheduler::OnRestored(const tier::Completion& completion) {
  const Restorer::Restored restored = restorer_.OnCompletion(completion);
  if (restored.sequence == nullptr) return;
  if (restored.has_failed) return AdmitAnew(*restored.sequence);
  Continue(*restored.sequence, restored.num_blocks);
}

// The load is over: num_restored_blocks are in place and the rest must be computed.
void Scheduler::Continue(Sequence& sequence, int num_restored_blocks) {
  KVGATE_CHECK(sequence.state == SequenceState::kRestoring, "restored without a load");
  KVGATE_CHECK(num_restored_blocks <= sequence.num_restoring_blocks, "restored blocks");
  sequence.state = SequenceState::kRunning;
  sequence.num_restoring_blocks = 0;
  const int num_tokens = num_restored_blocks * kKvBlockTokens;
  sequence.num_computed += num_tokens;
  if (sequence.num_preemptions == 0) sequence.num_disk_tokens = num_tokens;
  sequence.restored_at = Clock::now();
  OfferFullBlocks(sequence);
  windows_.Offer(sequence, 0, sequence.num_computed / kKvBlockTokens);
}

void Scheduler::GiveUpLateRestores(bool has_stepped) {
  for (Sequence* const sequence : restorer_.LateSequences(Clock::now(), has_stepped)) {
    GiveUpRestore(*sequence);
  }
}

void Scheduler::GiveUpRestore(Sequence& sequence) {
  if (has_windows()) {
    restorer_.GiveUpWhole(sequence, true);
    return AdmitAnew(sequence);
  }
  std::vector<size_t> missing;
  missing.reserve(sequence.full().blocks.size());
  const int num_restored = restorer_.GiveUp(sequence, true);
  for (size_t i = 0; i < sequence.full().blocks.size(); ++i) {
    if (!sequence.full().blocks[i]) missing.push_back(i);
  }
  std::optional<std::vector<kv::BlockRef>> fresh;
  try {
    fresh = full_.Acquire(static_cast<int>(missing.size()), sequence.tenant);
  } catch (const std::bad_alloc&) {  // handled as if there were no room
  }
  Continue(sequence, num_restored);
  if (!fresh.has_value()) return Preempt(sequence);
  for (size_t i = 0; i < missing.size(); ++i) {
    sequence.full().blocks[missing[i]] = std::move((*fresh)[i]);
    sequence.full().block_table[missing[i]] = sequence.full().blocks[missing[i]].id();
  }
}

void Scheduler::Preempt(Sequence& sequence) {
  ++num_preemptions_;
  ++sequence.num_preemptions;
  BackToLine(sequence);
}

void Scheduler::BackToLine(Sequence& sequence) {
  ReleaseBlocks(sequence);
  sequence.state = SequenceState::kWaiting;
  const auto it = std::ranges::find(running_, &sequence, &std::unique_ptr<Sequence>::get);
  waiting_.AddPreempted(running_, it);
}

// --- what was computed --------------------------------------------------------------------------

void Scheduler::OnComputed(const StepItem& item) {
  Sequence& sequence = *item.sequence;
  const int num_before = sequence.num_computed;
  sequence.num_computed += item.num_tokens;
  sequence.num_prefilled_tokens += std::min(sequence.num_computed, sequence.num_prompt_tokens) -
                                   std::min(num_before, sequence.num_prompt_tokens);
  waiting_.Charge(sequence.tenant, item.num_tokens);
  OfferFullBlocks(sequence);
  windows_.Offer(sequence, num_before / kKvBlockTokens,
                 NumOfferable(sequence, sequence.num_computed) / kKvBlockTokens);
  BoundContext(sequence);
  // Requests with the same prompt (parallel samples) also need its last, unfinished block.
  if (sequence.num_computed == sequence.num_prompt_tokens) OfferPartialBlock(sequence);
}

// Returns how many of the first num_tokens tokens have the same KV bits as after a prefill. With
// numerics that are not invariant, KV written by decoding differs and must not be hit.
int Scheduler::NumOfferable(const Sequence& sequence, int num_tokens) const {
  return backend_.Info().invariant ? num_tokens : std::min(num_tokens, sequence.num_prompt_tokens);
}

// Blocks that find no memory are offered later with those behind them.
void Scheduler::OfferFullBlocks(Sequence& sequence) {
  if (sequence.num_dropped_tokens > 0) return;
  const int num_full = NumOfferable(sequence, sequence.num_computed) / kKvBlockTokens;
  try {
    ComputeKeys(sequence, num_full);
    for (int block = sequence.num_offered_blocks; block < num_full; ++block) {
      OfferBlock(sequence, block);
      sequence.num_offered_blocks = block + 1;
    }
  } catch (const std::bad_alloc&) {
  }
}

void Scheduler::OfferBlock(Sequence& sequence, int block) {
  const auto index = static_cast<size_t>(block);
  const BlockId holder = full_.cache().InsertFull(
      ParentKey(sequence, block), sequence.keys[index],
      std::span(sequence.tokens).subspan(index * kKvBlockTokens, kKvBlockTokens),
      static_cast<uint32_t>(block), sequence.full().blocks[index].id());
  // Another sequence computed the same block with the same bits, so only one is kept.
  if (holder != sequence.full().blocks[index].id()) {
    sequence.full().blocks[index] = full_.pool().Share(holder);
    sequence.full().block_table[index] = holder;
  }
  if (const auto found = in_flight_.find(sequence.keys[index].hash);
      found != in_flight_.end() && found->second == sequence.id) {
    in_flight_.erase(found);
  }
}

void Scheduler::OfferPartialBlock(Sequence& sequence) {
  if (NumOfferable(sequence, sequence.num_computed) < sequence.num_computed) return;
  const int num_full = sequence.num_computed / kKvBlockTokens;
  const int num_rest = sequence.num_computed % kKvBlockTokens;
  if (num_rest == 0 || sequence.num_dropped_tokens > 0) return;
  if (!groups_.shares_partial_blocks()) return;
  // The partial block must follow blocks that the cache has.
  if (sequence.num_offered_blocks < num_full) return;
  const auto index = static_cast<size_t>(num_full);
  try {
    full_.cache().InsertPartial(
        ParentKey(sequence, num_full),
        std::span(sequence.tokens).subspan(index * kKvBlockTokens, static_cast<size_t>(num_rest)),
        static_cast<uint32_t>(num_full), sequence.full().blocks[index].id());
  } catch (const std::bad_alloc&) {  // the next request computes those few tokens
  }
}

void Scheduler::ReleaseBlocks(Sequence& sequence) {
  OfferPartialBlock(sequence);
  ForgetInFlight(sequence);
  for (HeldBlocks& held : sequence.held) held.Release();
  sequence.block_mass.clear();
  sequence.num_computed = 0;
  sequence.num_dropped_tokens = 0;
  sequence.num_offered_blocks = 0;
  sequence.copy_ticket = 0;
}

std::unique_ptr<Sequence> Scheduler::Remove(RequestId id) {
  const auto has_id = [id](const auto& sequence) { return sequence->id == id; };
  std::unique_ptr<Sequence> sequence;
  if (const auto it = std::ranges::find_if(running_, has_id); it != running_.end()) {
    if ((*it)->state == SequenceState::kRestoring) {
      if (has_windows()) {
        restorer_.GiveUpWhole(**it, false);
      } else {
        Continue(**it, restorer_.GiveUp(**it, false));
      }
    }
    sequence = std::move(*it);
    running_.erase(it);
    ReleaseBlocks(*sequence);
  } else if (const Sequence* const waiting = waiting_.Find(id)) {
    sequence = waiting_.Take(*waiting);
  } else {
    return nullptr;
  }
  waiting_.OnEnded(*sequence);
  return sequence;
}

Sequence* Scheduler::FindRunning(RequestId id) const {
  const auto it =
      std::ranges::find_if(running_, [id](const auto& sequence) { return sequence->id == id; });
  return it != running_.end() ? it->get() : nullptr;
}

Sequence* Scheduler::Find(RequestId id) {
  Sequence* const running = FindRunning(id);
  return running != nullptr ? running : waiting_.Find(id);
}

Sequence* Scheduler::Newest() const {
  return running_.empty() ? waiting_.Any() : running_.back().get();
}

std::vector<RequestId> Scheduler::Ids() const {
  std::vector<RequestId> ids;
  for (const auto& sequence : running_) ids.push_back(sequence->id);
  waiting_.ForEach([&](const Sequence& sequence) { ids.push_back(sequence.id); });
  return ids;
}

std::vector<tier::WriteItem> Scheduler::TakeUnstoredBlocks(Sequence& sequence,
                                                           tier::WriteAdmission* admission) {
  std::vector<tier::WriteItem> items;
  if (disk_ == nullptr || sequence.num_dropped_tokens > 0) return items;
  for (int block = sequence.num_stored_blocks; block < sequence.num_offered_blocks; ++block) {
    const auto index = static_cast<size_t>(block);
    // A block that the cache did not take in (its hash or a parent's collides) is not worth a
    // write.
    if (!full_.pool().is_marked(sequence.full().block_table[index])) break;
    const bool is_stored = disk_->Contains(sequence.keys[index]);
    // The store could not find the blocks behind a missing one.
    if (!is_stored && admission != nullptr &&
        !admission->Admit(full_.block_bytes(), WritePriorityOf(sequence, block))) {
      break;
    }
    ++sequence.num_stored_blocks;
    if (!is_stored) {
      items.push_back({.key = sequence.keys[index],
                       .parent = block == 0 ? BlockHash{} : sequence.keys[index - 1].hash,
                       .depth = static_cast<uint32_t>(block),
                       .block = sequence.full().block_table[index],
                       .tokens = {sequence.tokens.begin() + block * kKvBlockTokens,
                                  sequence.tokens.begin() + (block + 1) * kKvBlockTokens}});
    }
    TakeUnstoredWindows(sequence, block, admission, items);
  }
  return items;
}

tier::WritePriority Scheduler::WritePriorityOf(const Sequence& sequence, int block) const {
  const BlockId id = sequence.full().block_table[static_cast<size_t>(block)];
  if (full_.pool().priority(id) > 0) return tier::WritePriority::kPinned;
  const bool is_stable = (block + 1) * kKvBlockTokens <= sequence.num_stable_tokens;
  const bool is_worthy = is_stable || full_.pool().num_uses(id) > 1 || sequence.num_preemptions > 0;
  return is_worthy ? tier::WritePriority::kWorthy : tier::WritePriority::kCommon;
}

std::vector<kv::BlockRef> Scheduler::Hold(const Sequence& sequence,
                                          std::span<const tier::WriteItem> items) {
  std::vector<kv::BlockRef> held;
  size_t num_chained = 0;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (item->group == kv::kFullGroup) {
      num_chained = std::max(num_chained, item->depth + size_t{1});
    } else {
      held.push_back(groups_[item->group].pool().Share(item->block));
    }
  }
  held.reserve(held.size() + num_chained);
  for (size_t i = 0; i < num_chained; ++i) {
    held.push_back(full_.pool().Share(sequence.full().blocks[i].id()));
  }
  return held;
}

}  // namespace kvgate::schedule
