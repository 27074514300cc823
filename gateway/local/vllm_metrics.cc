#include "gateway/local/vllm_metrics.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "kernels/backend.h"
#include "kernels/dtype.h"

namespace kvgate::local {
namespace {

class VllmWriter {
 public:
  VllmWriter(std::string_view model_name, metrics::TextWriter& writer)
      : labels_({{"model_name", std::string(model_name)}, {"engine", "0"}}), writer_(writer) {}

  template <typename Value>
  void One(std::string_view name, std::string_view type, std::string_view help, Value value) {
    writer_.Family(name, type, help);
    writer_.Sample(name, labels_, value);
  }
  void Histogram(std::string_view name, std::string_view help, const metrics::Histogram& values) {
    writer_.Family(name, "histogram", help);
    writer_.Sample(name, labels_, values);
  }
  void Sample(std::string_view name, std::string label, std::string value, uint64_t count) {
    metrics::Labels labels = labels_;
    labels.emplace_back(std::move(label), std::move(value));
    writer_.Sample(name, labels, count);
  }

 private:
  const metrics::Labels labels_;
  metrics::TextWriter& writer_;
};

void WriteCacheConfig(const VllmNumbers& numbers, metrics::TextWriter& writer) {
  const engine::EngineInfo& info = numbers.info;
  constexpr std::string_view kName = "vllm:cache_config_info";
  writer.Family(kName, "gauge", "Information of the cache's configuration.");
  writer.Sample(kName,
                {{"model_name", std::string(numbers.model_name)},
                 {"engine", "0"},
                 {"block_size", fmt::format("{}", kernels::kKvBlockTokens)},
                 {"cache_dtype", std::string(kernels::DTypeName(info.kv_dtype))},
                 {"enable_prefix_caching", "True"},
                 {"num_gpu_blocks", fmt::format("{}", info.num_kv_blocks)},
                 {"num_cpu_blocks", fmt::format("{}", numbers.stats.num_host_blocks_max)}},
                uint64_t{1});
}

}  // namespace

void CollectVllm(const VllmNumbers& numbers, metrics::TextWriter& text) {
  const engine::EngineStats& stats = numbers.stats;
  const uint64_t num_external =
      stats.num_host_tokens + stats.num_disk_tokens + stats.num_shared_tokens;
  const uint64_t num_cached = stats.num_device_tokens + num_external;
  const uint64_t num_prompt = num_cached + stats.num_computed_tokens;
  VllmWriter writer(numbers.model_name, text);
  writer.One("vllm:num_requests_running", "gauge", "Requests in the batch.", stats.num_running);
  writer.One("vllm:num_requests_waiting", "gauge", "Requests that wait.", stats.num_waiting);
  // Blocks that only the prefix cache holds can be taken at any time, so they are free.
  const uint64_t num_blocks =
      stats.num_blocks_used + stats.num_blocks_cached + stats.num_blocks_free;
  const double usage = num_blocks == 0 ? 0
                                       : static_cast<double>(stats.num_blocks_used) /
                                             static_cast<double>(num_blocks);
  writer.One("vllm:kv_cache_usage_perc", "gauge", "KV blocks in use; 1 means all.", usage);
  // Names with and without the suffix: both stand in boards and routers.
  for (const char* const name : {"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries"}) {
    writer.One(name, "counter", "Prompt tokens looked up in the prefix cache.", num_prompt);
  }
  for (const char* const name : {"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits"}) {
    writer.One(name, "counter", "Prompt tokens found in the prefix cache.", num_cached);
  }
  writer.One("vllm:prompt_tokens_total", "counter", "Prompt tokens.", num_prompt);
  constexpr std::string_view kBySource = "vllm:prompt_tokens_by_source_total";
  text.Family(kBySource, "counter", "Prompt tokens by where their KV came from.");
  writer.Sample(kBySource, "source", "local_compute", stats.num_computed_tokens);
  writer.Sample(kBySource, "source", "local_cache_hit", stats.num_device_tokens);
  writer.Sample(kBySource, "source", "external_kv_transfer", num_external);
  writer.One("vllm:prompt_tokens_cached_total", "counter", "Prompt tokens that were cached.",
             num_cached);
  writer.One("vllm:generation_tokens_total", "counter", "Tokens generated.",
             stats.num_output_tokens);
  writer.One("vllm:num_preemptions_total", "counter", "Sequences dropped to a lower tier.",
             stats.num_preemptions);
  writer.Histogram("vllm:time_to_first_token_seconds", "Time to the first token.",
                   numbers.times.ttft_seconds);
  writer.Histogram("vllm:inter_token_latency_seconds", "Time between two tokens.",
                   numbers.times.itl_seconds);
  writer.Histogram("vllm:request_time_per_output_token_seconds",
                   "Time per output token after the first, of each answer.",
                   numbers.times.tpot_seconds);
  writer.Histogram("vllm:e2e_request_latency_seconds", "Time of a whole request.",
                   numbers.times.request_seconds);
  WriteCacheConfig(numbers, text);
}

}  // namespace kvgate::local
