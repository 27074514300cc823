// `kvgate bench engine`, `kvgate bench kv-cache` and `kvgate bench kv-quality`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "gateway/cli/bench_engine.h"
#include "gateway/cli/bench_kv_quality.h"
#include "gateway/cli/commands.h"

namespace kvgate::cli {

namespace {

void AddEngine(CLI::App& bench, Run& chosen) {
  CLI::App* engine = bench.add_subcommand(
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
  auto kv_dtype = std::make_shared<std::string>("f16");
  engine->add_option("--kv-dtype", *kv_dtype)
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0", "q4_0"}))
      ->capture_default_str();
  engine->add_option("--cache", options->cache_directory,
                     "Keeps the models made for the measurement here for the next run");
  engine->callback([&chosen, options, kv_dtype] {
    options->kv_dtype = kernels::FindDType(*kv_dtype).value();
    chosen = [options]() -> Result<int> {
      KVGATE_TRY_VOID(RunBenchEngine(*options));
      return 0;
    };
  });
}

void AddKvCache(CLI::App& bench, Run& chosen) {
  CLI::App* kv_cache = bench.add_subcommand(
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

void AddKvQuality(CLI::App& bench, Run& chosen) {
  CLI::App* command = bench.add_subcommand(
      "kv-quality", "What KV dtypes and context policies cost in logits and save in bytes");
  auto options = std::make_shared<BenchKvQualityOptions>();
  command->add_option("--model", options->model_path,
                      "A GGUF file; default: the trained one of the test data, else a random one");
  command->add_option("--text", options->text_path, "A text file; default: a built-in story");
  command->add_option("--tokens", options->num_tokens, "Tokens of the text, at most")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_option("--threads", options->threads)->capture_default_str();
  command
      ->add_option("--attention-tokens", options->attention_tokens,
                   "Tokens that the measured decode attention reads; 0: none")
      ->check(CLI::Range(0, 1 << 17))
      ->capture_default_str();
  command->callback([&chosen, options] {
    chosen = [options]() -> Result<int> {
      KVGATE_TRY_VOID(RunBenchKvQuality(*options));
      return 0;
    };
  });
}

}  // namespace

void AddBench(CLI::App& app, Run& chosen) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine and print the figures");
  bench->require_subcommand(1);
  AddEngine(*bench, chosen);
  AddKvCache(*bench, chosen);
  AddKvQuality(*bench, chosen);
}

}  // namespace kvgate::cli
