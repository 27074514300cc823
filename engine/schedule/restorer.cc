#include "engine/schedule/restorer.h"

#include <algorithm>
#include <iterator>
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

Restorer::Restorer(tier::DiskTier* tier, const CostModel& costs, uint64_t block_bytes)
    : tier_(tier), costs_(costs), block_bytes_(block_bytes) {}

Restorer::~Restorer() { KVGATE_CHECK(loads_.empty(), "a load outlives its owner"); }

int Restorer::CountOnDisk(const Sequence& sequence, size_t first_block) const {
  if (tier_ == nullptr) return 0;
  size_t block = first_block;
  while (block < sequence.keys.size() && tier_->Contains(sequence.keys[block])) ++block;
  return static_cast<int>(block - first_block);
}

void Restorer::Begin(Sequence& sequence, int num_on_disk) {
  const int first = sequence.num_computed / kKvBlockTokens;
  const tier::DiskTier::LoadSpeed speed = tier_->load_speed();
  const CostModel::RestorePlan plan =
      costs_.PlanRestore({.first_position = sequence.num_computed,
                          .num_blocks = num_on_disk,
                          .block_bytes = block_bytes_,
                          .bytes_ahead = tier_->load_bytes_queued(),
                          .bytes_per_second = speed.bytes_per_second,
                          .latency_seconds = speed.latency_seconds});
  if (plan.num_blocks < num_on_disk) {
    NoteNotWorthIt(sequence, sequence.num_computed + plan.num_blocks * kKvBlockTokens,
                   (num_on_disk - plan.num_blocks) * kKvBlockTokens, speed);
  }
  if (plan.num_blocks == 0) {
    ++num_skipped_;
    return ProbeIfOld(speed, std::span(sequence.keys).subspan(static_cast<size_t>(first)));
  }
  std::vector<tier::LoadItem> items;
  items.reserve(static_cast<size_t>(plan.num_blocks));
  for (int block = first; block < first + plan.num_blocks; ++block) {
    items.push_back({.key = sequence.keys[static_cast<size_t>(block)],
                     .block = sequence.full().block_table[static_cast<size_t>(block)]});
  }
  sequence.restore_compute_seconds = plan.compute_seconds;
  Enter(sequence, Load{.sequence = &sequence}, std::move(items));
  sequence.num_restoring_blocks = plan.num_blocks;
}

// Returns how long the first record may take: the disk's measured latency, at most half of what the
// load saves. On a disk that was not read since the start, the first record also pays once for
// opening files and waking threads.
double Restorer::LatencySeconds(const Sequence& sequence) const {
  const tier::DiskTier::LoadSpeed speed = tier_->load_speed();
  const double expected = speed.bytes_per_second > 0 ? speed.latency_seconds : kFirstReadSecondsMax;
  return std::min(expected, sequence.restore_compute_seconds / 2);
}

void Restorer::NoteNotWorthIt(Sequence& sequence, int first_position, int num_tokens,
                              const tier::DiskTier::LoadSpeed& speed) const {
  const double bytes =
      static_cast<double>(num_tokens / kKvBlockTokens) * static_cast<double>(block_bytes_);
  sequence.given_up = {.reason = GivenUpLoad::Reason::kNotWorthIt,
                       .num_tokens = num_tokens,
                       .load_seconds = speed.latency_seconds + bytes / speed.bytes_per_second,
                       .compute_seconds = costs_.PrefillSeconds(first_position, num_tokens)};
}

void Restorer::NoteGivenUp(Sequence& sequence, GivenUpLoad::Reason reason, int num_restored) const {
  const int first = sequence.num_computed + num_restored * kKvBlockTokens;
  const int num_tokens = (sequence.num_restoring_blocks - num_restored) * kKvBlockTokens;
  if (num_tokens <= 0) return;
  const Clock::duration elapsed = Clock::now() - sequence.restore_began_at;
  sequence.given_up = {.reason = reason,
                       .num_tokens = num_tokens,
                       .load_seconds = std::chrono::duration<double>(elapsed).count(),
                       .compute_seconds = costs_.PrefillSeconds(first, num_tokens)};
}

void Restorer::ProbeIfOld(const tier::DiskTier::LoadSpeed& speed,
                          std::span<const kv::BlockKey> keys) const {
  if (speed.is_guess || Clock::now() - speed.measured_at > kProbeInterval) tier_->Probe(keys);
}

// Makes the load's entry before the load starts: a load without an entry would write into blocks
// that another sequence may have acquired since.
void Restorer::Enter(Sequence& sequence, Load load, std::vector<tier::LoadItem> items) {
  size_t num_held = 0;  // upper bound, in case the load is given up
  for (const HeldBlocks& held : sequence.held) num_held += held.blocks.size();
  load.held.reserve(num_held);
  load.latency_seconds = LatencySeconds(sequence);
  load.looked_at = Clock::now();
  std::unordered_map<uint64_t, Load> entry;
  entry.emplace(0, std::move(load));
  auto node = entry.extract(entry.begin());
  loads_.reserve(loads_.size() + 1);
  sequence.load_ticket = node.key() = tier_->Load(std::move(items));
  loads_.insert(std::move(node));
  sequence.state = SequenceState::kRestoring;
  sequence.restore_began_at = Clock::now();
}

bool Restorer::Pays(Sequence& sequence, int first_position, int num_tokens, uint64_t bytes) {
  const tier::DiskTier::LoadSpeed speed = tier_->load_speed();
  sequence.restore_compute_seconds = costs_.PrefillSeconds(first_position, num_tokens);
  if (costs_.Pays({.first_position = first_position,
                   .num_tokens = num_tokens,
                   .bytes = bytes,
                   .bytes_ahead = tier_->load_bytes_queued(),
                   .bytes_per_second = speed.bytes_per_second,
                   .latency_seconds = speed.latency_seconds})) {
    return true;
  }
  ++num_skipped_;
  NoteNotWorthIt(sequence, first_position, num_tokens, speed);
  ProbeIfOld(speed, sequence.keys);
  return false;
}

void Restorer::BeginWhole(Sequence& sequence, std::vector<tier::LoadItem> items, int num_blocks) {
  Load load{.sequence = &sequence, .num_blocks = num_blocks};
  uint64_t bytes = 0;
  for (const tier::LoadItem& item : items) {
    load.bytes_until.push_back(bytes += tier_->block_bytes(item.group));
  }
  Enter(sequence, std::move(load), std::move(items));
  sequence.num_restoring_blocks = num_blocks;
}

Restorer::Restored Restorer::OnCompletion(const tier::Completion& completion) {
  const auto found = loads_.find(completion.ticket);
  KVGATE_CHECK(found != loads_.end(), "a load came back that nobody started");
  Load& load = found->second;
  Restored restored{.sequence = load.sequence,
                    .num_blocks = static_cast<int>(completion.num_ok),
                    .has_failed = false};
  if (load.is_whole()) {
    restored.has_failed = completion.num_ok < load.bytes_until.size();
    restored.num_blocks = restored.has_failed ? 0 : load.num_blocks;
  }
  if (load.sequence != nullptr) {
    NoteGivenUp(*load.sequence, GivenUpLoad::Reason::kDamaged, restored.num_blocks);
  }
  kv::ReleaseLastToFirst(load.held);
  loads_.erase(found);
  return restored;
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
  const auto num_loaded = static_cast<int>(tier_->NumLoaded(ticket));
  if (!load.is_whole()) {
    const double computed =
        costs_.PrefillSeconds(sequence.num_computed, num_loaded * kKvBlockTokens);
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

std::vector<Sequence*> Restorer::LateSequences(Clock::time_point now, bool has_stepped) {
  std::vector<Sequence*> late;
  if (!costs_.has_prefill_speed()) return late;
  late.reserve(loads_.size());
  for (auto& [ticket, load] : loads_) {
    if (load.sequence == nullptr) continue;
    const double passed = std::chrono::duration<double>(now - load.looked_at).count();
    load.waited_seconds += has_stepped ? passed : std::min(passed, kLookSecondsMax);
    load.looked_at = now;
    if (IsLate(ticket, load)) late.push_back(load.sequence);
  }
  return late;
}

int Restorer::GiveUp(Sequence& sequence, bool is_late) {
  const uint64_t ticket = std::exchange(sequence.load_ticket, 0);
  const tier::DiskTier::GivenUp given_up = tier_->GiveUp(ticket);
  const auto load = loads_.find(ticket);
  KVGATE_CHECK(load != loads_.end(), "a load is given up that is not under way");
  const size_t first = static_cast<size_t>(sequence.num_computed / kKvBlockTokens);
  for (size_t i = first + given_up.num_ok; i < first + given_up.num_begun; ++i) {
    load->second.held.push_back(std::move(sequence.full().blocks[i]));
  }
  if (given_up.completes) {
    load->second.sequence = nullptr;
  } else {
    kv::ReleaseLastToFirst(load->second.held);
    loads_.erase(load);
  }
  if (is_late) {
    ++num_cut_;
    NoteGivenUp(sequence, GivenUpLoad::Reason::kLate, static_cast<int>(given_up.num_ok));
  }
  return static_cast<int>(given_up.num_ok);
}

void Restorer::GiveUpWhole(Sequence& sequence, bool is_late) {
  const uint64_t ticket = std::exchange(sequence.load_ticket, 0);
  const tier::DiskTier::GivenUp given_up = tier_->GiveUp(ticket);
  const auto load = loads_.find(ticket);
  KVGATE_CHECK(load != loads_.end(), "a load is given up that is not under way");
  std::vector<kv::BlockRef>& held = load->second.held;
  for (HeldBlocks& group : sequence.held) {
    std::ranges::move(group.blocks, std::back_inserter(held));
    group.blocks.clear();
  }
  if (given_up.completes) {
    load->second.sequence = nullptr;
  } else {
    kv::ReleaseLastToFirst(held);
    loads_.erase(load);
  }
  if (!is_late) return;
  ++num_cut_;
  NoteGivenUp(sequence, GivenUpLoad::Reason::kLate, 0);
}

}  // namespace kvgate::schedule
