#include "gateway/ledger/rollup/bucket.h"

#include <array>
#include <cstddef>
#include <optional>

#include "gateway/ledger/segment/record_segment.h"
#include "store/file/byte_codec.h"

namespace kvgate::ledger::rollup {
namespace {

using segment::kStoredNumberMax;
using store::file::AppendVarint;

constexpr char kVersion = 2;
constexpr char kOldVersion = 1;  // it had no direct cost

// Their order is that of the bits in the mask: append only.
constexpr std::array kCounts = {&Bucket::requests,         &Bucket::failed,
                                &Bucket::cached_tokens,    &Bucket::written_tokens,
                                &Bucket::uncached_tokens,  &Bucket::output_tokens,
                                &Bucket::nanodollars,      &Bucket::uncached_nanodollars,
                                &Bucket::breaks,           &Bucket::lost_tokens,
                                &Bucket::lost_nanodollars, &Bucket::decoded_tokens,
                                &Bucket::decode_us,        &Bucket::direct_nanodollars};
constexpr size_t kOldCounts = kCounts.size() - 1;

// The bits of the histograms follow those of the counts.
constexpr uint64_t TtftBit(size_t num_counts) { return uint64_t{1} << num_counts; }
constexpr uint64_t TpotBit(size_t num_counts) { return uint64_t{2} << num_counts; }
constexpr uint64_t kTtft = TtftBit(kCounts.size());
constexpr uint64_t kTpot = TpotBit(kCounts.size());

uint64_t Fold(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t Unfold(uint64_t value) { return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1)); }

}  // namespace

void Bucket::Merge(const Bucket& other) {
  for (const auto count : kCounts) this->*count += other.*count;
  if (!other.ttft.empty()) ttft.Merge(other.ttft);
  if (!other.tpot.empty()) tpot.Merge(other.tpot);
}

std::string EncodeBucket(const Bucket& bucket) {
  uint64_t mask = (bucket.ttft.empty() ? 0 : kTtft) | (bucket.tpot.empty() ? 0 : kTpot);
  for (size_t i = 0; i < kCounts.size(); ++i) {
    if (bucket.*kCounts[i] != 0) mask |= uint64_t{1} << i;
  }
  std::string out(1, kVersion);
  AppendVarint(out, mask);
  for (const auto count : kCounts) {
    if (bucket.*count != 0) AppendVarint(out, Fold(bucket.*count));
  }
  if (!bucket.ttft.empty()) bucket.ttft.Append(out);
  if (!bucket.tpot.empty()) bucket.tpot.Append(out);
  return out;
}

bool DecodeBucket(std::string_view bytes, Bucket& bucket) {
  if (bytes.empty() || (bytes.front() != kVersion && bytes.front() != kOldVersion)) return false;
  const size_t num_counts = bytes.front() == kOldVersion ? kOldCounts : kCounts.size();
  bytes.remove_prefix(1);
  const std::optional<uint64_t> mask = store::file::TakeVarint(bytes);
  if (!mask || *mask >= TpotBit(num_counts) << 1) return false;
  bucket = {};
  for (size_t i = 0; i < num_counts; ++i) {
    if ((*mask >> i & 1) == 0) continue;
    const std::optional<uint64_t> value = store::file::TakeVarint(bytes);
    if (!value) return false;
    bucket.*kCounts[i] = Unfold(*value);
    if (bucket.*kCounts[i] > kStoredNumberMax || bucket.*kCounts[i] < -kStoredNumberMax) {
      return false;
    }
  }
  if (num_counts == kOldCounts) bucket.direct_nanodollars = bucket.nanodollars;
  if ((*mask & TtftBit(num_counts)) != 0 && !bucket.ttft.Take(bytes)) return false;
  if ((*mask & TpotBit(num_counts)) != 0 && !bucket.tpot.Take(bytes)) return false;
  return bytes.empty();
}

}  // namespace kvgate::ledger::rollup
