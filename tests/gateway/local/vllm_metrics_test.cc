#include "gateway/local/vllm_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvgate::local {
namespace {

using ::testing::HasSubstr;

std::string Text(const engine::EngineStats& stats) {
  metrics::Registry registry;
  metrics::AnswerMetrics answers(registry);
  answers.local().ttft_seconds.Observe(0.5);
  engine::EngineInfo info;
  info.num_kv_blocks = 1024;
  std::string text;
  metrics::TextWriter writer(text);
  CollectVllm({.model_name = "tiny", .info = info, .stats = stats, .times = answers.local()},
              writer);
  return text;
}

TEST(VllmMetricsTest, NamesAndLabelsAreThoseOfVllm) {
  const std::string text = Text({.num_running = 3,
                                 .num_waiting = 2,
                                 .num_device_tokens = 600,
                                 .num_host_tokens = 30,
                                 .num_disk_tokens = 70,
                                 .num_computed_tokens = 300,
                                 .num_output_tokens = 55,
                                 .num_blocks_free = 60,
                                 .num_blocks_cached = 15,
                                 .num_blocks_used = 25});
  const std::string labels = "model_name=\"tiny\",engine=\"0\"";
  for (const std::string& line :
       {"vllm:num_requests_running{" + labels + "} 3\n",
        "vllm:num_requests_waiting{" + labels + "} 2\n",
        "vllm:kv_cache_usage_perc{" + labels + "} 0.25\n",
        "vllm:prefix_cache_queries_total{" + labels + "} 1000\n",
        "vllm:prefix_cache_queries{" + labels + "} 1000\n",
        "vllm:prefix_cache_hits_total{" + labels + "} 700\n",
        "vllm:prefix_cache_hits{" + labels + "} 700\n",
        "vllm:prompt_tokens_total{" + labels + "} 1000\n",
        "vllm:prompt_tokens_by_source_total{" + labels + ",source=\"local_compute\"} 300\n",
        "vllm:prompt_tokens_by_source_total{" + labels + ",source=\"local_cache_hit\"} 600\n",
        "vllm:prompt_tokens_by_source_total{" + labels + ",source=\"external_kv_transfer\"} 100\n",
        "vllm:generation_tokens_total{" + labels + "} 55\n",
        "vllm:time_to_first_token_seconds_bucket{" + labels + ",le=\"0.5\"} 1\n",
        "vllm:inter_token_latency_seconds_count{" + labels + "} 0\n",
        "vllm:e2e_request_latency_seconds_count{" + labels + "} 0\n",
        "vllm:cache_config_info{" + labels +
            ",block_size=\"32\",cache_dtype=\"f16\","
            "enable_prefix_caching=\"True\",num_gpu_blocks=\"1024\",num_cpu_blocks=\"0\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(VllmMetricsTest, AnEngineThatHasDoneNothingUsesNothing) {
  EXPECT_THAT(Text({}),
              HasSubstr("vllm:kv_cache_usage_perc{model_name=\"tiny\",engine=\"0\"} 0\n"));
}

}  // namespace
}  // namespace kvgate::local
