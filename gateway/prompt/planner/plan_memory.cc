#include "gateway/prompt/planner/plan_memory.h"

#include <algorithm>

namespace kvgate::prompt::planner {
namespace {

constexpr double kSecond = 1e6;
constexpr double kPatienceUs = 120 * kSecond;  // time constant by which an open request decays
constexpr double kMinuteUs = 60 * kSecond;
constexpr double kCountsMax = 200;  // then both counts are halved, because traffic changes
// Share of all traffic; below the promised 2 %, because token estimates may be off.
constexpr double kLossShare = 0.016;
constexpr double kSurplusRequests = 4;

double Decay(int64_t from_us, int64_t to_us, double time_us) {
  return std::exp(-static_cast<double>(std::max<int64_t>(to_us - from_us, 0)) / time_us);
}

}  // namespace

void GapCounts::Add(Gap gap, double keep) {
  for (double& count : counts_) count *= keep;
  counts_[static_cast<size_t>(gap)] += 1;
}

GapShares Blend(const GapShares& prior, std::initializer_list<WeightedGaps> evidence) {
  GapShares shares = prior;
  for (const WeightedGaps& some : evidence) {
    for (size_t i = 0; i < kNumGaps; ++i) shares[i] += some.weight * some.gaps.counts()[i];
  }
  const double sum = shares[0] + shares[1] + shares[2];
  for (double& share : shares) share /= sum;
  return shares;
}

double ReuseCounts::OpenAt(int64_t now_us) const {
  return open_ * Decay(open_us_, now_us, kPatienceUs);
}

void ReuseCounts::Issue(int64_t now_us) {
  if (issued_ >= kCountsMax) {
    issued_ /= 2;
    returned_ /= 2;
  }
  open_ = OpenAt(now_us) + 1;
  open_us_ = now_us;
  issued_ += 1;
}

void ReuseCounts::Return(int64_t issued_us, int64_t now_us) {
  // An open request's share decays with its age, so exactly the remainder is subtracted.
  open_ = std::max(0.0, OpenAt(now_us) - Decay(issued_us, now_us, kPatienceUs));
  open_us_ = now_us;
  returned_ = std::min(returned_ + 1, issued_);
}

void ReuseCounts::Withdraw(int64_t issued_us) {
  open_ = std::max(0.0, open_ - Decay(issued_us, open_us_, kPatienceUs));
  issued_ = std::max(0.0, issued_ - 1);
  returned_ = std::min(returned_, issued_);
}

double ReuseCounts::Share(double prior, double weight, int64_t now_us) const {
  const double ended = std::max(issued_ - OpenAt(now_us), returned_);
  return (prior * weight + returned_) / (weight + ended);
}

void Account::Send(double premium, double total_tokens) {
  loss += premium;
  direct += total_tokens;
  num_requests += 1;
}

void Account::Unsend(double premium, double total_tokens) {
  loss -= premium;
  direct = std::max(0.0, direct - total_tokens);
  num_requests = std::max(0.0, num_requests - 1);
}

void Account::Save(double saved, double total_tokens) {
  loss = std::max(loss - saved, std::min(loss, -kSurplusRequests * total_tokens));
}

bool Account::Affords(double premium, double total_tokens, const Bound& bound) const {
  const double all = direct + total_tokens;
  const double mean = all / (num_requests + 1);
  return loss + premium <= std::max(bound.num_lost * mean + bound.surplus, kLossShare * all);
}

void Remember(std::vector<CacheEntry>& entries, const CacheEntry& entry, size_t entries_max) {
  for (CacheEntry& known : entries) {
    if (known.prefix != entry.prefix) continue;
    if (known.IsAlive(entry.written_us)) {
      known.readable_us = std::min(known.readable_us, entry.readable_us);
      known.expires_us = std::max(known.expires_us, entry.expires_us);
      known.ttl_us = std::max(known.ttl_us, entry.ttl_us);
    } else {
      known = entry;
    }
    return;
  }
  if (entries.size() >= entries_max) {
    entries.erase(std::min_element(
        entries.begin(), entries.end(),
        [](const CacheEntry& a, const CacheEntry& b) { return a.expires_us < b.expires_us; }));
  }
  entries.push_back(entry);
}

double RateMeter::At(int64_t now_us) const { return count * Decay(last_us, now_us, kMinuteUs); }

void RateMeter::Add(int64_t now_us) {
  count = At(now_us) + 1;
  last_us = now_us;
}

}  // namespace kvgate::prompt::planner
