#include "engine/schedule/restorer.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

namespace {

// A load may lag behind computing by this fraction of the compute time.
constexpr double kSlackPart = 0.05;
// The disk's speed is measured anew this often while hits are not restored.
constexpr std::chrono::seconds kProbeInterval{5};
// The first record after a start may take this long beside that. The slowest seen on a disk worth
// reading, while the machine was loaded, took 45 ms, of which kNoiseSeconds covers the rest.
constexpr double kFirstReadSecondsMax = 0.040;
// A caller that checks every millisecond but comes after a longer gap than this had no processor.
constexpr double kLookSecondsMax = 0.005;

}  // namespace

Restorer::~Restorer() { KVGATE_CHECK(loads_.empty(), "a load outlives its owner"); }

int Restorer::CountStored(const tier::StoreTier& store, const Sequence& sequence, int first_block) {
  const auto keys = std::span(sequence.keys).subspan(static_cast<size_t>(first_block));
  const auto missing = std::ranges::find_if(
      keys, [&store](const kv::BlockKey& key) { return !store.Contains(key); });
  return static_cast<int>(missing - keys.begin());
}

void Restorer::Begin(Sequence& sequence, tier::StoreTier& store, int num_stored) {
  const int first = sequence.num_computed / kKvBlockTokens;
  const tier::StoreTier::LoadSpeed speed = store.load_speed();
  const CostModel::RestorePlan plan =
      parts_.costs.PlanRestore({.first_position = sequence.num_computed,
                                .num_blocks = num_stored,
                                .block_bytes = parts_.group.block_bytes(),
                                .bytes_ahead = store.load_bytes_queued(),
                                .bytes_per_second = speed.bytes_per_second,
                                .latency_seconds = speed.latency_seconds});
  if (plan.num_blocks < num_stored) {
    NoteNotWorthIt(sequence, sequence.num_computed + plan.num_blocks * kKvBlockTokens,
                   (num_stored - plan.num_blocks) * kKvBlockTokens, speed);
  }
  if (plan.num_blocks == 0) {
    ++num_skipped_;
    return ProbeIfOld(store, std::span(sequence.keys).subspan(static_cast<size_t>(first)));
  }
  std::vector<tier::LoadItem> items;
  items.reserve(static_cast<size_t>(plan.num_blocks));
  for (int block = first; block < first + plan.num_blocks; ++block) {
    items.push_back({.key = sequence.keys[static_cast<size_t>(block)],
                     .block = sequence.full().block_table[static_cast<size_t>(block)]});
  }
  sequence.restore_compute_seconds = plan.compute_seconds;
  Enter(sequence, Load{.sequence = &sequence, .store = &store}, std::move(items));
  sequence.num_restoring_blocks = plan.num_blocks;
}

// Returns how long the first record may take: the store's measured latency, at most half of what
// the load saves. From a store that was not read since the start, the first record also pays once
// for opening files and waking threads.
double Restorer::LatencySeconds(const Sequence& sequence, const tier::StoreTier& store) {
  const tier::StoreTier::LoadSpeed speed = store.load_speed();
  const double expected = speed.bytes_per_second > 0 ? speed.latency_seconds : kFirstReadSecondsMax;
  return std::min(expected, sequence.restore_compute_seconds / 2);
}

void Restorer::NoteNotWorthIt(Sequence& sequence, int first_position, int num_tokens,
                              const tier::StoreTier::LoadSpeed& speed) const {
  const double bytes = static_cast<double>(num_tokens / kKvBlockTokens) *
                       static_cast<double>(parts_.group.block_bytes());
  sequence.given_up = {.reason = GivenUpLoad::Reason::kNotWorthIt,
                       .num_tokens = num_tokens,
                       .load_seconds = speed.latency_seconds + bytes / speed.bytes_per_second,
                       .compute_seconds = parts_.costs.PrefillSeconds(first_position, num_tokens)};
}

void Restorer::NoteGivenUp(Sequence& sequence, GivenUpLoad::Reason reason, int num_restored) const {
  const int first = sequence.num_computed + num_restored * kKvBlockTokens;
  const int num_tokens = (sequence.num_restoring_blocks - num_restored) * kKvBlockTokens;
  if (num_tokens <= 0) return;
  const Clock::duration elapsed = Clock::now() - sequence.restore_began_at;
  sequence.given_up = {.reason = reason,
                       .num_tokens = num_tokens,
                       .load_seconds = std::chrono::duration<double>(elapsed).count(),
                       .compute_seconds = parts_.costs.PrefillSeconds(first, num_tokens)};
}

void Restorer::ProbeIfOld(tier::StoreTier& store, std::span<const kv::BlockKey> keys) {
  const tier::StoreTier::LoadSpeed speed = store.load_speed();
  if (speed.is_guess || Clock::now() - speed.measured_at > kProbeInterval) store.Probe(keys);
}

// Makes the load's entry before the load starts: a load without an entry would write into blocks
// that another sequence may have acquired since.
void Restorer::Enter(Sequence& sequence, Load load, std::vector<tier::LoadItem> items) {
  size_t num_held = 0;  // upper bound, in case the load is given up
  for (const HeldBlocks& held : sequence.held) num_held += held.blocks.size();
  load.held.reserve(num_held);
  tier::StoreTier& store = *load.store;
  load.latency_seconds = LatencySeconds(sequence, store);
  load.looked_at = Clock::now();
  std::unordered_map<uint64_t, Load> entry;
  entry.emplace(0, std::move(load));
  auto node = entry.extract(entry.begin());
  loads_.reserve(loads_.size() + 1);
  sequence.load_ticket = node.key() = store.Load(std::move(items));
  loads_.insert(std::move(node));
  sequence.state = SequenceState::kRestoring;
  sequence.restore_began_at = Clock::now();
}

bool Restorer::Pays(Sequence& sequence, tier::StoreTier& store, const WholeLoad& load) {
  const tier::StoreTier::LoadSpeed speed = store.load_speed();
  sequence.restore_compute_seconds =
      parts_.costs.PrefillSeconds(load.first_position, load.num_tokens);
  if (parts_.costs.Pays({.first_position = load.first_position,
                         .num_tokens = load.num_tokens,
                         .bytes = load.bytes,
                         .bytes_ahead = store.load_bytes_queued(),
                         .bytes_per_second = speed.bytes_per_second,
                         .latency_seconds = speed.latency_seconds})) {
    return true;
  }
  ++num_skipped_;
  NoteNotWorthIt(sequence, load.first_position, load.num_tokens, speed);
  ProbeIfOld(store, sequence.keys);
  return false;
}

void Restorer::BeginWhole(Sequence& sequence, tier::StoreTier& store,
                          std::vector<tier::LoadItem> items, int num_blocks) {
  Load load{.sequence = &sequence, .store = &store, .num_blocks = num_blocks};
  uint64_t bytes = 0;
  for (const tier::LoadItem& item : items) {
    load.bytes_until.push_back(bytes += store.block_bytes(item.group));
  }
  Enter(sequence, std::move(load), std::move(items));
  sequence.num_restoring_blocks = num_blocks;
}

void Restorer::OnCompletion(const tier::Completion& completion) {
  const auto found = loads_.find(completion.ticket);
  KVGATE_CHECK(found != loads_.end(), "a load came back that nobody started");
  Load& load = found->second;
  const bool has_failed = load.is_whole() && completion.num_ok < load.bytes_until.size();
  const int num_arrived = load.is_whole() ? load.num_blocks : static_cast<int>(completion.num_ok);
  const int num_restored = has_failed ? 0 : num_arrived;
  Sequence* const sequence = load.sequence;
  const bool is_whole = load.is_whole();
  if (sequence != nullptr) NoteGivenUp(*sequence, GivenUpLoad::Reason::kDamaged, num_restored);
  kv::ReleaseLastToFirst(load.held);
  loads_.erase(found);
  if (sequence == nullptr) return;  // it was given up before
  if (has_failed) return SendBack(*sequence);
  const bool is_all = num_restored == sequence->num_restoring_blocks;
  Continue(*sequence, num_restored, completion.store);
  if (is_all && !is_whole && completion.store == tier::StoreName::kDisk) BeginNext(*sequence);
}

// What the disk lacks may be in the shared store. If memory runs out, it is computed.
void Restorer::BeginNext(Sequence& sequence) {
  tier::StoreTier* const shared = parts_.stores.shared;
  if (shared == nullptr) return;
  const int num_stored = CountStored(*shared, sequence, sequence.num_computed / kKvBlockTokens);
  if (num_stored == 0) return;
  try {
    Begin(sequence, *shared, num_stored);
  } catch (const std::bad_alloc&) {  // nothing has changed
  }
}

// A load that is useful only as a whole saves nothing before its end, so it is late if the missing
// part would take longer, at the speed so far, than computing all tokens.
bool Restorer::IsLate(uint64_t ticket, const Load& load) const {
  const Sequence& sequence = *load.sequence;
  const double elapsed = load.waited_seconds;
  const double slack =
      std::max(CostModel::kNoiseSeconds, kSlackPart * sequence.restore_compute_seconds) +
      load.latency_seconds;
  if (elapsed <= slack) return false;
  const auto num_loaded = static_cast<int>(load.store->NumLoaded(ticket));
  if (!load.is_whole()) {
    const double computed =
        parts_.costs.PrefillSeconds(sequence.num_computed, num_loaded * kKvBlockTokens);
    return elapsed > slack + computed;
  }
  const auto all = static_cast<double>(load.bytes_until.back());
  if (num_loaded == 0) {  // the first item is at best about to arrive
    const auto first = static_cast<double>(load.bytes_until.front());
    return elapsed * all / first > sequence.restore_compute_seconds + slack;
  }
  const auto arrived = static_cast<double>(load.bytes_until[static_cast<size_t>(num_loaded) - 1]);
  return elapsed * (all - arrived) / arrived > sequence.restore_compute_seconds + slack;
}

void Restorer::GiveUpLate(Clock::time_point now, bool has_stepped) {
  if (!parts_.costs.has_prefill_speed()) return;
  std::vector<Sequence*> late;
  late.reserve(loads_.size());
  for (auto& [ticket, load] : loads_) {
    if (load.sequence == nullptr) continue;
    const double passed = std::chrono::duration<double>(now - load.looked_at).count();
    load.waited_seconds += has_stepped ? passed : std::min(passed, kLookSecondsMax);
    load.looked_at = now;
    if (IsLate(ticket, load)) late.push_back(load.sequence);
  }
  for (Sequence* const sequence : late) GiveUp(*sequence);
}

void Restorer::Abort(Sequence& sequence) {
  const Stopped stopped = Stop(sequence);
  if (stopped.num_restored) Continue(sequence, *stopped.num_restored, stopped.store);
}

// Stops the sequence's load and returns how many of its blocks are in place; nothing if the load is
// useful only as a whole. Blocks that a reader may still write to are moved out of the sequence and
// held here; of a whole load, all blocks are.
Restorer::Stopped Restorer::Stop(Sequence& sequence) {
  const uint64_t ticket = std::exchange(sequence.load_ticket, 0);
  const auto found = loads_.find(ticket);
  KVGATE_CHECK(found != loads_.end(), "a load is given up that is not under way");
  Load& load = found->second;
  const tier::StoreTier::GivenUp given_up = load.store->GiveUp(ticket);
  Stopped stopped{.store = load.store->store(), .num_restored = std::nullopt};
  if (load.is_whole()) {
    for (HeldBlocks& held : sequence.held) {
      std::ranges::move(held.blocks, std::back_inserter(load.held));
      held.blocks.clear();
    }
  } else {
    const size_t first = static_cast<size_t>(sequence.num_computed / kKvBlockTokens);
    for (size_t i = first + given_up.num_ok; i < first + given_up.num_begun; ++i) {
      load.held.push_back(std::move(sequence.full().blocks[i]));
    }
    stopped.num_restored = static_cast<int>(given_up.num_ok);
  }
  if (given_up.completes) {
    load.sequence = nullptr;
  } else {
    kv::ReleaseLastToFirst(load.held);
    loads_.erase(found);
  }
  return stopped;
}

void Restorer::GiveUp(Sequence& sequence) {
  const Stopped stopped = Stop(sequence);
  const std::optional<int>& num_restored = stopped.num_restored;
  ++num_cut_;
  NoteGivenUp(sequence, GivenUpLoad::Reason::kLate, num_restored.value_or(0));
  if (!num_restored.has_value()) return SendBack(sequence);
  HeldBlocks& held = sequence.full();
  const auto num_missing =
      std::ranges::count_if(held.blocks, [](const kv::BlockRef& block) { return !block; });
  std::optional<std::vector<kv::BlockRef>> fresh;
  try {
    fresh = parts_.group.Acquire(static_cast<int>(num_missing), sequence.tenant);
  } catch (const std::bad_alloc&) {  // handled as if there were no room
  }
  Continue(sequence, *num_restored, stopped.store);
  if (!fresh.has_value()) return parts_.preemption.Preempt(sequence);
  auto next = fresh->begin();
  for (size_t i = 0; i < held.blocks.size(); ++i) {
    if (held.blocks[i]) continue;
    held.block_table[i] = next->id();
    held.blocks[i] = std::move(*next++);
  }
}

// The load is over: num_restored blocks are in place and the rest must be computed.
void Restorer::Continue(Sequence& sequence, int num_restored, tier::StoreName store) {
  KVGATE_CHECK(sequence.state == SequenceState::kRestoring, "restored without a load");
  KVGATE_CHECK(num_restored <= sequence.num_restoring_blocks, "restored blocks");
  sequence.state = SequenceState::kRunning;
  sequence.num_restoring_blocks = 0;
  const int num_tokens = num_restored * kKvBlockTokens;
  sequence.num_computed += num_tokens;
  if (sequence.num_preemptions == 0) {
    const bool is_disk = store == tier::StoreName::kDisk;
    (is_disk ? sequence.num_disk_tokens : sequence.num_shared_tokens) = num_tokens;
  }
  sequence.restored_at = Clock::now();
  parts_.offers.OfferFull(sequence);
  parts_.windows.Offer(sequence, 0, sequence.num_computed / kKvBlockTokens);
}

// The sequence is admitted again with only what is in memory.
void Restorer::SendBack(Sequence& sequence) {
  sequence.skips_stores = true;
  sequence.num_restoring_blocks = 0;
  sequence.admitted_before = sequence.num_preemptions > 0;
  parts_.preemption.SendBack(sequence);
}

}  // namespace kvgate::schedule
