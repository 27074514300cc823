#include "engine/schedule/cost_model.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "base/check.h"
#include "kernels/backend.h"

namespace kvgate::schedule {
namespace {

// A smaller pass is bound by reading the weights, not by its rows.
constexpr int kRowsTrusted = 96;
// Weight of the newest pass in the mean; speeds change with clock rates and neighbours.
constexpr double kNewest = 0.25;
// Speeds vary by a tenth between steps; over a shorter distance this noise exceeds the slope.
constexpr double kSlopePositionsMin = 2048;
// Cost of a load besides its bytes: two thread switches.
constexpr double kLoadSecondsMin = 200e-6;

}  // namespace

int CostModel::BucketOf(double position) {
  const auto scaled = static_cast<uint32_t>(std::max(position, 0.0)) / kFirstBucketTokens;
  return std::min(static_cast<int>(std::bit_width(scaled)), kNumBuckets - 1);
}

void CostModel::ObserveStep(int num_rows, double mean_position, double seconds) {
  KVGATE_CHECK(num_rows > 0 && seconds >= 0, "an impossible step");
  const int rows = std::min(num_rows, kRowsTrusted);
  // A small pass is less accurate than the larger ones seen before.
  const int rows_best = std::ranges::max_element(buckets_, {}, &Bucket::num_rows)->num_rows;
  if (rows < rows_best) return;
  if (rows > rows_best) buckets_.fill({});  // estimates from smaller passes are worse
  const double sample = seconds / num_rows;
  Bucket& bucket = buckets_[static_cast<size_t>(BucketOf(mean_position))];
  const double newest = bucket.num_rows > 0 ? kNewest : 1;
  bucket.seconds_per_token += newest * (sample - bucket.seconds_per_token);
  bucket.position += newest * (mean_position - bucket.position);
  bucket.num_rows = rows;
  ++num_observed_;
  FitPieces();
}

void CostModel::SetSlope(double seconds_per_position) {
  slope_ = std::max(seconds_per_position, 0.0);
  FitPieces();
}

// Before the first observed position and behind the last one, the cost has the slope between these
// two; there it never falls with the position.
void CostModel::FitPieces() {
  num_pieces_ = 0;
  const Bucket* first = nullptr;
  const Bucket* last = nullptr;
  for (const Bucket& bucket : buckets_) {
    if (bucket.num_rows == 0) continue;
    if (first == nullptr) first = &bucket;
    if (last != nullptr) {
      const double slope =
          (bucket.seconds_per_token - last->seconds_per_token) / (bucket.position - last->position);
      pieces_[static_cast<size_t>(num_pieces_++)] = {.end = bucket.position,
                                                     .position = last->position,
                                                     .seconds_per_token = last->seconds_per_token,
                                                     .slope = slope};
    }
    last = &bucket;
  }
  if (first == nullptr) return;
  if (last->position - first->position >= kSlopePositionsMin) {
    slope_ = std::max(
        (last->seconds_per_token - first->seconds_per_token) / (last->position - first->position),
        0.0);
  }
  // Before the first position the slope is at most the one that reaches 0 at position 0.
  const double before = std::min(slope_, first->seconds_per_token / std::max(first->position, 1.0));
  std::copy_backward(pieces_.begin(), pieces_.begin() + num_pieces_,
                     pieces_.begin() + num_pieces_ + 1);
  pieces_[0] = {.end = first->position,
                .position = first->position,
                .seconds_per_token = first->seconds_per_token,
                .slope = before};
  pieces_[static_cast<size_t>(++num_pieces_)] = {.end = std::numeric_limits<double>::infinity(),
                                                 .position = last->position,
                                                 .seconds_per_token = last->seconds_per_token,
                                                 .slope = slope_};
  ++num_pieces_;
}

double CostModel::Piece::Integral(double first, double last) const {
  const double middle = (first + last) / 2;
  return (last - first) * (seconds_per_token + slope * (middle - position));
}

double CostModel::PrefillSeconds(int first_position, int num_tokens) const {
  double seconds = 0;
  double at = first_position;
  const double end = at + num_tokens;
  for (const Piece& piece : std::span(pieces_).first(static_cast<size_t>(num_pieces_))) {
    if (at >= end) break;
    if (at >= piece.end) continue;
    const double piece_end = std::min(end, piece.end);
    seconds += piece.Integral(at, piece_end);
    at = piece_end;
  }
  return seconds;
}

int CostModel::TokensWithin(int first_position, double seconds) const {
  KVGATE_CHECK(has_prefill_speed(), "nothing was measured yet");
  const int block_tokens = kernels::kKvBlockTokens;
  // Bounds the loop; no step has more tokens.
  constexpr int kTokensMax = 1 << 16;
  int num_tokens = 0;
  while (num_tokens < kTokensMax) {
    seconds -= PrefillSeconds(first_position + num_tokens, block_tokens);
    if (seconds < 0) break;
    num_tokens += block_tokens;
  }
  return num_tokens;
}

double CostModel::prefill_tokens_per_second() const {
  const double seconds = PrefillSeconds(0, kFirstBucketTokens);
  return seconds > 0 ? kFirstBucketTokens / seconds : 0.0;
}

CostModel::RestorePlan CostModel::PlanRestore(const RestoreArgs& args) const {
  const int block_tokens = kernels::kKvBlockTokens;
  const auto compute = [&](int num_blocks) {
    return PrefillSeconds(args.first_position, num_blocks * block_tokens);
  };
  const double all = compute(args.num_blocks);
  if (!has_prefill_speed() || args.bytes_per_second <= 0) {
    return {.num_blocks = args.num_blocks, .compute_seconds = all, .restore_seconds = 0};
  }
  const double ahead = static_cast<double>(args.bytes_ahead) / args.bytes_per_second +
                       std::max(kLoadSecondsMin, args.latency_seconds);
  const double per_block = static_cast<double>(args.block_bytes) / args.bytes_per_second;
  const double restore_all = ahead + args.num_blocks * per_block;
  if (restore_all <= all + kNoiseSeconds) {
    return {.num_blocks = args.num_blocks, .compute_seconds = all, .restore_seconds = restore_all};
  }
  RestorePlan best;
  double best_seconds = all;
  double computed = 0;  // by the first k blocks
  for (int k = 1; k <= args.num_blocks; ++k) {
    computed += PrefillSeconds(args.first_position + (k - 1) * block_tokens, block_tokens);
    const double restore = ahead + k * per_block;
    if (restore + (all - computed) >= best_seconds) continue;
    best_seconds = restore + (all - computed);
    best = {.num_blocks = k, .compute_seconds = computed, .restore_seconds = restore};
  }
  return best;
}

bool CostModel::Pays(const LoadArgs& args) const {
  if (!has_prefill_speed() || args.bytes_per_second <= 0) return true;
  const auto bytes = static_cast<double>(args.bytes_ahead + args.bytes);
  const double latency = std::max(kLoadSecondsMin, args.latency_seconds);
  const double load = latency + bytes / args.bytes_per_second;
  return load <= PrefillSeconds(args.first_position, args.num_tokens) + kNoiseSeconds;
}

}  // namespace kvgate::schedule
