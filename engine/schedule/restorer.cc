#include "engine/schedule/restorer.h"

#include <algorithm>
#include <utility>

#include <kvgate/check.h>

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

namespace {

// A load may lag behind computing by this part of what computing takes.
constexpr double kSlackPart = 0.05;
// After a hit was not restored, the disk's speed is measured anew this often.
constexpr std::chrono::seconds kProbeInterval{5};

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
                          .bytes_per_second = speed.bytes_per_second});
  if (plan.num_blocks == 0) {
    ++num_skipped_;
    if (Clock::now() - speed.measured_at > kProbeInterval) {
      tier_->Probe(sequence.keys[static_cast<size_t>(first)]);
    }
    return;
  }
  std::vector<tier::LoadItem> items;
  items.reserve(static_cast<size_t>(plan.num_blocks));
  for (int block = first; block < first + plan.num_blocks; ++block) {
    items.push_back({.key = sequence.keys[static_cast<size_t>(block)],
                     .block = sequence.block_table[static_cast<size_t>(block)]});
  }
  sequence.state = SequenceState::kRestoring;
  sequence.num_restoring_blocks = plan.num_blocks;
  sequence.restore_compute_seconds = plan.compute_seconds;
  sequence.restore_began_at = Clock::now();
  sequence.load_ticket = tier_->Load(std::move(items));
  loads_.emplace(sequence.load_ticket, Load{.sequence = &sequence, .held = {}});
}

Sequence* Restorer::OnCompletion(const tier::Completion& completion) {
  const auto found = loads_.find(completion.ticket);
  KVGATE_CHECK(found != loads_.end(), "a load came back that nobody started");
  Sequence* const sequence = found->second.sequence;
  kv::ReleaseLastToFirst(found->second.held);
  loads_.erase(found);
  return sequence;
}

std::vector<Sequence*> Restorer::LateSequences(Clock::time_point now) const {
  std::vector<Sequence*> late;
  if (!costs_.has_prefill_speed()) return late;
  for (const auto& [ticket, load] : loads_) {
    if (load.sequence == nullptr) continue;
    const Sequence& sequence = *load.sequence;
    const double elapsed = std::chrono::duration<double>(now - sequence.restore_began_at).count();
    const double slack =
        std::max(CostModel::kNoiseSeconds, kSlackPart * sequence.restore_compute_seconds);
    if (elapsed <= slack) continue;
    const auto num_loaded = static_cast<int>(tier_->NumLoaded(ticket));
    const double computed =
        costs_.PrefillSeconds(sequence.num_computed, num_loaded * kKvBlockTokens);
    if (elapsed > slack + computed) late.push_back(load.sequence);
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
    load->second.held.push_back(std::move(sequence.blocks[i]));
  }
  if (given_up.completes) {
    load->second.sequence = nullptr;
  } else {
    kv::ReleaseLastToFirst(load->second.held);
    loads_.erase(load);
  }
  if (is_late) ++num_cut_;
  return static_cast<int>(given_up.num_ok);
}

}  // namespace kvgate::schedule
