#include "engine/schedule/cost_model.h"

#include <algorithm>
#include <bit>

#include <kvgate/check.h>

#include "kernels/backend.h"

namespace kvgate::schedule {
namespace {

// Below that the pass is bound by reading the weights, not by its rows.
constexpr int kRowsTrusted = 96;
// The newest pass counts for this part: speeds change with clocks and neighbours.
constexpr double kNewest = 0.25;
// Of a load, beside its bytes: two changes of thread.
constexpr double kLoadSecondsMin = 200e-6;

}  // namespace

int CostModel::BucketOf(double position) {
  const auto scaled = static_cast<uint32_t>(std::max(position, 0.0)) / kFirstBucketTokens;
  return std::min(static_cast<int>(std::bit_width(scaled)), kNumBuckets - 1);
}

void CostModel::ObserveStep(int num_rows, double mean_position, double seconds) {
  KVGATE_CHECK(num_rows > 0 && seconds >= 0, "an impossible step");
  const auto bucket = static_cast<size_t>(BucketOf(mean_position));
  const int rows = std::min(num_rows, kRowsTrusted);
  // A small pass tells less than what larger ones have told.
  const int rows_best = *std::max_element(rows_seen_.begin(), rows_seen_.end());
  if (rows < rows_best) return;
  if (rows > rows_best) {  // all that was guessed from smaller ones is worse
    seconds_per_token_.fill(0);
    rows_seen_.fill(0);
  }
  const double sample = seconds / num_rows;
  double& estimate = seconds_per_token_[bucket];
  estimate = estimate > 0 ? estimate + kNewest * (sample - estimate) : sample;
  rows_seen_[bucket] = rows;
  ++num_observed_;
}

// Of a bucket not seen yet: the nearest one's below it, else above it.
double CostModel::SecondsPerToken(int bucket) const {
  for (int i = bucket; i >= 0; --i) {
    if (seconds_per_token_[static_cast<size_t>(i)] > 0) {
      return seconds_per_token_[static_cast<size_t>(i)];
    }
  }
  for (int i = bucket + 1; i < kNumBuckets; ++i) {
    if (seconds_per_token_[static_cast<size_t>(i)] > 0) {
      return seconds_per_token_[static_cast<size_t>(i)];
    }
  }
  return 0;
}

double CostModel::PrefillSeconds(int first_position, int num_tokens) const {
  double seconds = 0;
  int position = first_position;
  const int end = first_position + num_tokens;
  while (position < end) {
    const int bucket = BucketOf(position);
    const int bucket_end =
        bucket == kNumBuckets - 1 ? end : std::min(end, kFirstBucketTokens << bucket);
    seconds += SecondsPerToken(bucket) * (bucket_end - position);
    position = bucket_end;
  }
  return seconds;
}

int CostModel::TokensWithin(int first_position, double seconds) const {
  KVGATE_CHECK(has_prefill_speed(), "nothing was measured yet");
  const int block_tokens = kernels::kKvBlockTokens;
  // No step has more than that.
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
  const double seconds = SecondsPerToken(0);
  return seconds > 0 ? 1.0 / seconds : 0.0;
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
  const double ahead = static_cast<double>(args.bytes_ahead) / args.bytes_per_second;
  const double per_block = static_cast<double>(args.block_bytes) / args.bytes_per_second;
  const double restore_all = kLoadSecondsMin + ahead + args.num_blocks * per_block;
  if (restore_all <= all + kNoiseSeconds) {
    return {.num_blocks = args.num_blocks, .compute_seconds = all, .restore_seconds = restore_all};
  }
  RestorePlan best;
  double best_seconds = all;
  double computed = 0;  // by the blocks so far
  for (int k = 1; k <= args.num_blocks; ++k) {
    computed += PrefillSeconds(args.first_position + (k - 1) * block_tokens, block_tokens);
    const double restore = kLoadSecondsMin + ahead + k * per_block;
    if (restore + (all - computed) >= best_seconds) continue;
    best_seconds = restore + (all - computed);
    best = {.num_blocks = k, .compute_seconds = computed, .restore_seconds = restore};
  }
  return best;
}

bool CostModel::Pays(const LoadArgs& args) const {
  if (!has_prefill_speed() || args.bytes_per_second <= 0) return true;
  const auto bytes = static_cast<double>(args.bytes_ahead + args.bytes);
  const double load = kLoadSecondsMin + bytes / args.bytes_per_second;
  return load <= PrefillSeconds(args.first_position, args.num_tokens) + kNoiseSeconds;
}

}  // namespace kvgate::schedule
