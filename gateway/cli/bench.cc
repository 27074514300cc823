// `kvgate bench engine | kv-cache`: the command line of bench_engine.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "gateway/cli/bench_engine.h"
#include "gateway/cli/commands.h"

namespace kvgate::cli {
namespace {

struct EngineFlags {
  BenchEngineOptions options;
  std::vector<std::string> types = {"f16", "q8_0"};
};

Result<int> BenchEngine(EngineFlags flags) {
  flags.options.dtypes.clear();
  for (const std::string& type : flags.types) {
    flags.options.dtypes.push_back(type == "f32"   ? kernels::DType::kF32
                                   : type == "f16" ? kernels::DType::kF16
                                                   : kernels::DType::kQ8_0);
  }
  KVGATE_TRY_VOID(RunBenchEngine(flags.options));
  return 0;
}

void AddBenchEngine(CLI::App& bench, Run& chosen) {
  auto flags = std::make_shared<EngineFlags>();
  BenchEngineOptions& options = flags->options;
  CLI::App* command = bench.add_subcommand("engine", "Prefill and decode against the machine");
  command->add_option("--type", flags->types, "f32, f16, q8_0; several are measured in turn")
      ->check(CLI::IsMember({"f32", "f16", "q8_0"}))
      ->capture_default_str();
  command->add_option("--threads", options.threads, "several are measured in turn")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--prompt-tokens", options.prompt_tokens)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--decode-tokens", options.decode_tokens)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--repetitions", options.repetitions, "the median is reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--cache-dir", options.cache_directory, "keeps the made models");
  command->callback([flags, &chosen] { chosen = [flags] { return BenchEngine(*flags); }; });
}

void AddBenchKvCache(CLI::App& bench, Run& chosen) {
  auto options = std::make_shared<BenchKvCacheOptions>();
  CLI::App* command =
      bench.add_subcommand("kv-cache", "Generation with and without the KV cache: n, n(n+1)/2");
  command->add_option("--model", options->model_path, "GGUF file (default: random weights)");
  command->add_option("--tokens", options->num_tokens)
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--threads", options->threads)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->callback([options, &chosen] {
    chosen = [options]() -> Result<int> {
      KVGATE_TRY_VOID(RunBenchKvCache(*options));
      return 0;
    };
  });
}

}  // namespace

void AddBench(CLI::App& app, Run& chosen) {
  CLI::App* bench = app.add_subcommand("bench", "Measure the engine");
  bench->require_subcommand(1);
  AddBenchEngine(*bench, chosen);
  AddBenchKvCache(*bench, chosen);
}

}  // namespace kvgate::cli
