#include "engine/schedule/look_ups.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace kvgate::schedule {
namespace {

using kernels::kKvBlockTokens;

// It is worth asking if computing takes this many times as long as an answer, and if an answer that
// says nothing costs no more than a hit may.
constexpr double kWorthFactor = 2;
// How long it is awaited: this part of the time of computing, or this many times as long as answers
// take, but within these bounds.
constexpr double kPatiencePart = 0.05;
constexpr double kPatienceFactor = 3;
constexpr double kPatienceSecondsMin = CostModel::kNoiseSeconds;
constexpr double kPatienceSecondsMax = 0.25;
// If it is unknown how long an answer takes: half of the time of computing, but at most this.
constexpr double kFirstSecondsMax = 0.05;

}  // namespace

bool LookUps::Await(Sequence& sequence, int first_block) {
  if (sequence.look_up_ticket != 0) return true;
  if (stores_.shared == nullptr || sequence.was_looked_up || sequence.skips_stores) return false;
  const auto num_blocks = static_cast<int>(sequence.keys.size());
  if (first_block >= num_blocks || stores_.finder->is_paused()) return false;
  const double compute_seconds = costs_.PrefillSeconds(first_block * kKvBlockTokens,
                                                       (num_blocks - first_block) * kKvBlockTokens);
  const double usual = stores_.finder->answer_seconds();
  const bool is_cheap = usual <= std::max(kPatienceSecondsMin, kPatiencePart * compute_seconds);
  if (costs_.has_prefill_speed() && (compute_seconds < kWorthFactor * usual || !is_cheap)) {
    return false;
  }
  std::vector<tier::BlockFinder::Item> items;
  items.reserve(static_cast<size_t>(num_blocks) * groups_.size());
  for (const auto& group : groups_.all()) {
    // Windows may be missing in memory where the full group's blocks are not.
    const int first = group->index() == kv::kFullGroup ? first_block : 0;
    for (int block = first; block < num_blocks; ++block) {
      const kv::BlockKey& key = sequence.keys[static_cast<size_t>(block)];
      if (stores_.shared->Contains(key, group->index())) continue;
      items.push_back({.key = key, .group = group->index()});
    }
  }
  if (items.empty()) return false;
  // The entry exists before the question is asked, because the answer frees the sequence.
  std::unordered_map<uint64_t, Sequence*> entry{{0, &sequence}};
  auto node = entry.extract(entry.begin());
  waiting_.reserve(waiting_.size() + 1);
  sequence.look_up_ticket = node.key() =
      stores_.finder->Ask(std::move(items), Patience(compute_seconds));
  waiting_.insert(std::move(node));
  sequence.was_looked_up = true;
  return true;
}

std::chrono::microseconds LookUps::Patience(double compute_seconds) const {
  const double usual = stores_.finder->answer_seconds();
  double seconds = std::clamp(std::max(kPatiencePart * compute_seconds, kPatienceFactor * usual),
                              kPatienceSecondsMin, kPatienceSecondsMax);
  if (usual <= 0) {
    const double first = costs_.has_prefill_speed() ? compute_seconds / 2 : kFirstSecondsMax;
    seconds = std::max(seconds, std::min(first, kFirstSecondsMax));
  }
  return std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
}

void LookUps::OnAnswer(uint64_t ticket) {
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;  // the sequence has ended meanwhile
  found->second->look_up_ticket = 0;
  waiting_.erase(found);
}

void LookUps::Forget(Sequence& sequence) {
  waiting_.erase(std::exchange(sequence.look_up_ticket, 0));
}

}  // namespace kvgate::schedule
