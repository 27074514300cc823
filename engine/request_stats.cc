#include "engine/request_stats.h"

#include "base/clock.h"

namespace kvgate::engine {

using schedule::Clock;

RequestStats StatsOf(const schedule::Sequence& sequence) {
  RequestStats stats;
  stats.num_prompt_tokens = sequence.num_prompt_tokens;
  stats.num_device_tokens = sequence.num_device_tokens;
  stats.num_disk_tokens = sequence.num_disk_tokens;
  stats.num_host_tokens = sequence.num_host_tokens;
  stats.num_shared_tokens = sequence.num_shared_tokens;
  stats.num_cached_tokens = stats.num_device_tokens + stats.num_host_tokens +
                            stats.num_disk_tokens + stats.num_shared_tokens;
  stats.num_computed_tokens = sequence.num_prefilled_tokens;
  stats.total_seconds = Seconds(sequence.submitted_at, Clock::now());
  if (sequence.num_stored_blocks > 0) {
    const auto last = static_cast<size_t>(sequence.num_stored_blocks) - 1;
    stats.last_stored_block = sequence.keys[last].hash;
  }
  stats.given_up = {.reason = NameOf(sequence.given_up.reason),
                    .num_tokens = sequence.given_up.num_tokens,
                    .load_seconds = sequence.given_up.load_seconds,
                    .compute_seconds = sequence.given_up.compute_seconds};
  if (!sequence.admitted_before) {
    stats.queue_seconds = stats.total_seconds;
    return stats;
  }
  stats.queue_seconds = Seconds(sequence.submitted_at, sequence.admitted_at);
  stats.restore_seconds = Seconds(sequence.admitted_at, sequence.restored_at);
  if (sequence.first_token_at != Clock::time_point{}) {
    stats.prefill_seconds = Seconds(sequence.restored_at, sequence.first_token_at);
    stats.ttft_seconds = Seconds(sequence.submitted_at, sequence.first_token_at);
  }
  return stats;
}

}  // namespace kvgate::engine
