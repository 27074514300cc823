#include "gateway/local/engine_metrics.h"

#include <cstddef>

namespace kvgate::local {
namespace {

void WriteOne(std::string_view name, std::string_view type, std::string_view help, uint64_t value,
              metrics::TextWriter& writer) {
  writer.Family(name, type, help);
  writer.Sample(name, {}, value);
}

void CollectWork(const engine::EngineStats& stats, metrics::TextWriter& writer) {
  constexpr std::string_view kTokens = "kvgate_engine_prompt_tokens_total";
  writer.Family(kTokens, "counter", "Prompt tokens of the engine by where their KV came from.");
  writer.Sample(kTokens, {{"source", "computed"}}, stats.num_computed_tokens);
  writer.Sample(kTokens, {{"source", "device"}}, stats.num_device_tokens);
  writer.Sample(kTokens, {{"source", "host"}}, stats.num_host_tokens);
  writer.Sample(kTokens, {{"source", "disk"}}, stats.num_disk_tokens);
  writer.Sample(kTokens, {{"source", "shared"}}, stats.num_shared_tokens);
  WriteOne("kvgate_output_tokens_total", "counter", "Tokens generated.", stats.num_output_tokens,
           writer);
  WriteOne("kvgate_requests_running", "gauge", "Sequences in the batch.", stats.num_running,
           writer);
  WriteOne("kvgate_requests_waiting", "gauge", "Requests not scheduled yet.", stats.num_waiting,
           writer);
  WriteOne("kvgate_preemptions_total", "counter", "Sequences dropped to a lower tier.",
           stats.num_preemptions, writer);
  WriteOne("kvgate_engine_steps_total", "counter", "Forward passes.", stats.num_steps, writer);
  WriteOne("kvgate_out_of_memory_total", "counter",
           "Times that the engine gave something up for want of memory.", stats.num_out_of_memory,
           writer);
  writer.Family("kvgate_kv_blocks", "gauge", "KV blocks of the device pool by state.");
  writer.Sample("kvgate_kv_blocks", {{"state", "free"}}, stats.num_blocks_free);
  writer.Sample("kvgate_kv_blocks", {{"state", "cached"}}, stats.num_blocks_cached);
  writer.Sample("kvgate_kv_blocks", {{"state", "used"}}, stats.num_blocks_used);
  writer.Family("kvgate_kv_window_blocks", "gauge",
                "KV blocks of the layers with a sliding window by state.");
  writer.Sample("kvgate_kv_window_blocks", {{"state", "free"}}, stats.num_window_blocks_free);
  writer.Sample("kvgate_kv_window_blocks", {{"state", "cached"}}, stats.num_window_blocks_cached);
  writer.Sample("kvgate_kv_window_blocks", {{"state", "used"}}, stats.num_window_blocks_used);
  WriteOne("kvgate_kv_blocks_evicted_total", "counter", "KV blocks evicted from the device pool.",
           stats.num_blocks_evicted, writer);
  WriteOne("kvgate_kv_digest_mismatches_total", "counter",
           "Blocks whose hash matched and whose digest did not; served as misses.",
           stats.num_digest_mismatches, writer);
}

void CollectLowerTiers(const engine::EngineStats& stats, metrics::TextWriter& writer) {
  WriteOne("kvgate_write_back_queued_bytes", "gauge", "KV waiting to be written to disk.",
           stats.write_back_bytes_queued, writer);
  WriteOne("kvgate_kv_blocks_written_total", "counter", "KV blocks written to disk.",
           stats.num_blocks_written, writer);
  WriteOne("kvgate_kv_blocks_write_skipped_total", "counter",
           "KV blocks not written: the queue was full or the disk tier off.",
           stats.num_blocks_write_skipped, writer);
  writer.Family("kvgate_host_kv_blocks", "gauge", "KV blocks of the host arena by state.");
  writer.Sample("kvgate_host_kv_blocks", {{"state", "cached"}}, stats.num_host_blocks);
  writer.Sample("kvgate_host_kv_blocks", {{"state", "free"}},
                stats.num_host_blocks_max - stats.num_host_blocks);
  WriteOne("kvgate_requests_refused_by_slo_total", "counter",
           "Requests refused because their first token would have come too late.",
           stats.num_refused_by_slo, writer);
  WriteOne("kvgate_single_flight_total", "counter",
           "Requests that waited for another one to compute their prefix.", stats.num_single_flight,
           writer);
  WriteOne("kvgate_restores_cut_total", "counter",
           "Loads from disk given up because recomputing was quicker.", stats.num_restores_cut,
           writer);
  WriteOne("kvgate_restores_skipped_total", "counter",
           "Disk hits recomputed from the start because that was quicker.",
           stats.num_restores_skipped, writer);
  WriteOne("kvgate_prefill_tokens_per_second", "gauge", "Prefill speed, measured.",
           stats.prefill_tokens_per_second, writer);
  WriteOne("kvgate_restore_bytes_per_second", "gauge", "Speed of loads from disk, measured.",
           stats.restore_bytes_per_second, writer);
}

void CollectMoves(const engine::EngineStats& stats, metrics::TextWriter& writer) {
  const auto seconds = [&](std::string_view name, std::string_view help, uint64_t us) {
    writer.Family(name, "counter", help);
    writer.Sample(name, {}, static_cast<double>(us) / 1e6);
  };
  WriteOne("kvgate_write_back_bytes_total", "counter", "KV written to disk.",
           stats.moved.write_bytes, writer);
  seconds("kvgate_write_back_seconds_total", "Time that threads were busy writing KV to disk.",
          stats.moved.write_us);
  WriteOne("kvgate_load_back_bytes_total", "counter", "KV loaded from disk.",
           stats.moved.load_bytes, writer);
  seconds("kvgate_load_back_seconds_total", "Time that threads were busy loading KV from disk.",
          stats.moved.load_us);
  constexpr std::string_view kEvictions = "kvgate_kv_evictions_total";
  writer.Family(kEvictions, "counter", "KV blocks evicted from the engine's tiers.");
  writer.Sample(kEvictions, {{"tier", "gpu"}},
                stats.num_blocks_evicted + stats.num_window_blocks_evicted);
  writer.Sample(kEvictions, {{"tier", "ram"}}, stats.num_host_blocks_evicted);
}

}  // namespace

void CollectEngine(const engine::EngineStats& stats, metrics::TextWriter& writer) {
  CollectWork(stats, writer);
  CollectLowerTiers(stats, writer);
  CollectMoves(stats, writer);
}

std::vector<TierFill> EngineTiers(const engine::EngineInfo& info,
                                  const engine::EngineStats& stats) {
  const auto share = [](uint64_t part, uint64_t whole, uint64_t bytes) {
    return whole == 0
               ? 0
               : static_cast<uint64_t>(static_cast<double>(bytes) * static_cast<double>(part) /
                                       static_cast<double>(whole));
  };
  const uint64_t group_bytes = uint64_t{info.num_kv_blocks} * info.kv_block_bytes;
  uint64_t window_bytes = 0;
  for (size_t i = 1; i < info.kv_groups.size(); ++i) {
    window_bytes += uint64_t{info.kv_groups[i].num_blocks} * info.kv_groups[i].block_bytes;
  }
  const uint64_t held = stats.num_blocks_used + stats.num_blocks_cached;
  const uint64_t window_held = stats.num_window_blocks_used + stats.num_window_blocks_cached;
  std::vector<TierFill> tiers;
  tiers.push_back(
      {.name = "device",
       .label = "gpu",
       .used_bytes = share(held, held + stats.num_blocks_free, group_bytes) +
                     share(window_held, window_held + stats.num_window_blocks_free, window_bytes),
       .capacity_bytes = group_bytes + window_bytes});
  tiers.push_back({.name = "host",
                   .label = "ram",
                   .used_bytes = stats.num_host_blocks * info.kv_block_bytes,
                   .capacity_bytes = stats.num_host_blocks_max * info.kv_block_bytes});
  return tiers;
}

void CollectTiers(const std::vector<TierFill>& tiers, metrics::TextWriter& writer) {
  writer.Family("kvgate_kv_used_bytes", "gauge", "KV that a tier holds.");
  for (const TierFill& tier : tiers) {
    writer.Sample("kvgate_kv_used_bytes", {{"tier", tier.label}}, tier.used_bytes);
  }
  writer.Family("kvgate_kv_capacity_bytes", "gauge", "KV that a tier can hold; 0: no bound.");
  for (const TierFill& tier : tiers) {
    writer.Sample("kvgate_kv_capacity_bytes", {{"tier", tier.label}}, tier.capacity_bytes);
  }
  writer.Family("kvgate_kv_utilization_ratio", "gauge", "The part of a tier that holds KV.");
  for (const TierFill& tier : tiers) {
    const double ratio = tier.capacity_bytes == 0 ? 0
                                                  : static_cast<double>(tier.used_bytes) /
                                                        static_cast<double>(tier.capacity_bytes);
    writer.Sample("kvgate_kv_utilization_ratio", {{"tier", tier.label}}, ratio);
  }
}

}  // namespace kvgate::local
