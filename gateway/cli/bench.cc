// `kvgate bench engine` and `kvgate bench kv-cache`.
#include <CLI/CLI.hpp>
#include <memory>

#include "gateway/cli/bench_engine.h"
#include "gateway/cli/commands.h"

namespace kvgate::cli {

void AddBench(CLI::App& app, Run& chosen) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine and print the figures");
  bench->require_subcommand(1);

  CLI::App* engine = bench->add_subcommand(
      "engine", "Prefill and decode against the machine's own bandwidth and FMA peak");
  auto options = std::make_shared<BenchEngineOptions>();
  engine->add_option("--threads", options->threads, "Numbers of threads to measure")
      ->capture_default_str();
  engine->add_option("--prompt", options->prompt_tokens, "Tokens of the prefill")
      ->check(CLI::Range(1, 8192))
      ->capture_default_str();
  engine->add_option("--decode", options->decode_tokens, "Tokens of the decode")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  engine->add_option("--repetitions", options->repetitions, "The median of this many runs")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  engine->add_option("--cache", options->cache_directory,
                     "Keeps the models made for the measurement here for the next run");
  engine->callback([&chosen, options] {
    chosen = [options]() -> Result<int> {
      KVGATE_TRY_VOID(RunBenchEngine(*options));
      return 0;
    };
  });

  CLI::App* kv_cache = bench->add_subcommand(
      "kv-cache", "Generation with and without the KV cache: work n against n(n+1)/2");
  auto demonstration = std::make_shared<BenchKvCacheOptions>();
  kv_cache->add_option("--model", demonstration->model_path, "A GGUF file; default: a small one");
  kv_cache->add_option("--tokens", demonstration->num_tokens, "Tokens to generate")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  kv_cache->add_option("--threads", demonstration->threads)->capture_default_str();
  kv_cache->callback([&chosen, demonstration] {
    chosen = [demonstration]() -> Result<int> {
      KVGATE_TRY_VOID(RunBenchKvCache(*demonstration));
      return 0;
    };
  });
}

}  // namespace kvgate::cli
