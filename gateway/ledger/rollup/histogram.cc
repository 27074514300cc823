#include "gateway/ledger/rollup/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "store/file/byte_codec.h"

namespace kvgate::ledger::rollup {
namespace {

using store::file::AppendVarint;

constexpr unsigned kSubBits = 3;  // eight buckets in each power of two
constexpr uint32_t kNumSub = 1U << kSubBits;
constexpr uint32_t kBucketsMax = 64 * kNumSub;
// No server has so many requests. Without a bound, sums of damaged rows would overflow.
constexpr uint64_t kTimesMax = uint64_t{1} << 53;

uint32_t BucketOf(int64_t microseconds) {
  const auto value = static_cast<uint64_t>(std::max<int64_t>(microseconds, 0));
  if (value < kNumSub) return static_cast<uint32_t>(value);
  const unsigned power = static_cast<unsigned>(std::bit_width(value)) - 1;
  const auto sub = static_cast<uint32_t>(value >> (power - kSubBits)) & (kNumSub - 1);
  return (power - kSubBits + 1) * kNumSub + sub;
}

// The least duration of a bucket; that of the next one is its end.
double BeginOf(uint32_t bucket) {
  if (bucket < kNumSub) return bucket;
  const uint32_t power = bucket / kNumSub - 1;
  return std::ldexp(static_cast<double>(kNumSub + bucket % kNumSub), static_cast<int>(power));
}

}  // namespace

void Histogram::Add(int64_t microseconds, int64_t times) { AddTo({BucketOf(microseconds), times}); }

void Histogram::AddTo(const Count& count) {
  const auto at = std::lower_bound(counts_.begin(), counts_.end(), count.first,
                                   [](const Count& c, uint32_t b) { return c.first < b; });
  if (at != counts_.end() && at->first == count.first) {
    at->second += count.second;
  } else {
    counts_.insert(at, count);
  }
}

void Histogram::Merge(const Histogram& other) {
  // That of one request has one bucket at most.
  if (other.counts_.size() == 1) return AddTo(other.counts_.front());
  std::vector<Count> sum;
  sum.reserve(counts_.size() + other.counts_.size());
  auto a = counts_.begin();
  auto b = other.counts_.begin();
  while (a != counts_.end() || b != other.counts_.end()) {
    if (b == other.counts_.end() || (a != counts_.end() && a->first < b->first)) {
      sum.push_back(*a++);
    } else if (a == counts_.end() || b->first < a->first) {
      sum.push_back(*b++);
    } else {
      sum.emplace_back(a->first, a->second + b->second);
      ++a;
      ++b;
    }
  }
  counts_ = std::move(sum);
}

int64_t Histogram::count() const {
  int64_t sum = 0;
  for (const auto& [bucket, count] : counts_) sum += count;
  return sum;
}

int64_t Histogram::Percentile(double q) const {
  const double wanted = q * static_cast<double>(count());
  double before = 0;
  for (const auto& [bucket, counted] : counts_) {
    const auto here = static_cast<double>(counted);
    if (before + here >= wanted) {
      const double part = here > 0 ? std::max(0.0, wanted - before) / here : 0;
      return std::llround(BeginOf(bucket) + part * (BeginOf(bucket + 1) - BeginOf(bucket)));
    }
    before += here;
  }
  return -1;
}

void Histogram::Append(std::string& out) const {
  AppendVarint(out, counts_.size());
  uint32_t before = 0;
  for (const auto& [bucket, count] : counts_) {
    AppendVarint(out, bucket - before);
    AppendVarint(out, static_cast<uint64_t>(count));
    before = bucket;
  }
}

bool Histogram::Take(std::string_view& bytes) {
  const std::optional<uint64_t> size = store::file::TakeVarint(bytes);
  if (!size || *size > kBucketsMax) return false;
  counts_.clear();
  counts_.reserve(*size);
  uint64_t bucket = 0;
  for (uint64_t i = 0; i < *size; ++i) {
    const std::optional<uint64_t> step = store::file::TakeVarint(bytes);
    const std::optional<uint64_t> count = step ? store::file::TakeVarint(bytes) : std::nullopt;
    if (!count || *count > kTimesMax || *step > kBucketsMax || (i > 0 && *step == 0)) return false;
    bucket += *step;
    if (bucket >= kBucketsMax) return false;
    counts_.emplace_back(static_cast<uint32_t>(bucket), static_cast<int64_t>(*count));
  }
  return true;
}

}  // namespace kvgate::ledger::rollup
