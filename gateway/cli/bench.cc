// `kvgate bench engine`, `gpu`, `load`, `kv-cache`, `kv-quality`, `tokenizer` and `serve`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "engine/model/weight_recipe.h"
#include "gateway/bench/bench_engine.h"
#include "gateway/bench/bench_kv_quality.h"
#include "gateway/bench/bench_load.h"
#include "gateway/bench/bench_model_load.h"
#include "gateway/bench/bench_shapes.h"
#include "gateway/bench/bench_tokenizer.h"
#include "gateway/bench/gpu/gpu_bench.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/server/server_target.h"

namespace kvgate::cli {
namespace {

// Parses "LOW:HIGH", or one number for both; returns an error text, empty on success.
std::string ParseRange(const std::string& text, int& low, int& high) {
  const size_t colon = text.find(':');
  const auto parse = [](const std::string& part, int& value) {
    return CLI::detail::lexical_cast(part, value) && value >= 0;
  };
  const bool ok = parse(text.substr(0, colon), low) &&
                  parse(colon == std::string::npos ? text : text.substr(colon + 1), high);
  return ok ? "" : fmt::format("'{}' is not LOW:HIGH", text);
}

CLI::Option* AddRange(CLI::App& app, const char* name, const char* help, int& low, int& high) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &low, &high](const std::string& text) {
            const std::string problem = ParseRange(text, low, high);
            if (!problem.empty()) throw CLI::ValidationError(name, problem);
          },
          help)
      ->default_str(fmt::format("{}:{}", low, high));
}

void AddBenchServe(CLI::App& bench, Run& chosen) {
  struct Flags {
    bench::BenchLoadOptions load;
    server::TargetFlags target;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  bench::BenchLoadOptions& load = flags->load;
  CLI::App* serve = bench.add_subcommand(
      "serve", "Many clients against a running server: TTFT, ITL and whether answers agree");
  flags->target.url = load.url;
  server::AddTargetFlags(*serve, flags->target);
  serve->add_option("--model", load.model)->capture_default_str();
  serve->add_option("--clients", load.clients, "At once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  serve->add_option("--seconds", load.seconds, "No request starts later")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  AddRange(*serve, "--prompt-tokens", "Prompt lengths, LOW:HIGH", load.prompt_tokens_min,
           load.prompt_tokens_max);
  serve->add_option("--output-tokens", load.output_tokens)
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  serve->add_option("--prompts", load.prompts, "Different prompts, used again and again")
      ->capture_default_str();
  serve->add_option("--shared-prefixes", load.shared_prefixes, "Half the prompts begin with one")
      ->capture_default_str();
  serve->add_option("--fresh", load.fresh_share, "Share of prompts that are never sent again")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  serve->add_option("--cancel", load.cancel_share, "Share of requests ended midway")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  AddRange(*serve, "--token-ids", "Of which the prompts are made, LOW:HIGH", load.token_id_min,
           load.token_id_max);
  serve->add_option("--seed", load.seed)->capture_default_str();
  serve->add_flag("--json", flags->json, "Print one JSON object");
  serve->callback([&chosen, flags] {
    chosen = [flags]() -> Result<int> {
      flags->load.url = flags->target.url;
      KVGATE_TRY(flags->load.authorization, server::AuthorizationOf(flags->target));
      KVGATE_TRY(const bench::BenchLoadReport report, bench::RunBenchLoad(flags->load));
      fmt::print("{}", flags->json ? bench::ReportJson(report) : bench::ReportText(report));
      return report.num_errors + report.num_different == 0 ? 0 : 1;
    };
  });
}

void AddShape(CLI::App& app, model::MakeModelOptions& shape) {
  app.add_option_function<std::string>(
         "--shape",
         [&shape](const std::string& name) { shape = bench::FindBenchShape(name).value(); },
         "Whose shape the random weights have")
      ->check(CLI::IsMember(bench::BenchShapeNames()))
      ->default_str("0.5b");
}

void AddModelLoad(CLI::App& bench, Run& chosen) {
  CLI::App* load = bench.add_subcommand(
      "load", "Loading a model against reading its file, and the memory held meanwhile");
  auto options = std::make_shared<bench::BenchModelLoadOptions>();
  AddShape(*load, options->shape);
  load->add_option("--types", options->types, "Formats of the weights, as in make-model --type")
      ->check(CLI::IsMember(model::RecipeNames()))
      ->delimiter(',')
      ->capture_default_str();
  load->add_option("--threads", options->threads, "0: one per hardware thread")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  load->add_option("--kv-memory", options->kv_bytes)
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  load->add_option("--repetitions", options->repetitions, "The fastest of this many runs")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  load->add_option("--cache", options->cache_directory,
                   "Keeps the models made for the measurement here for the next run");
  load->callback([&chosen, options] {
    chosen = [options]() -> Result<int> {
      KVGATE_TRY(const bool is_within, bench::RunBenchModelLoad(*options));
      return is_within ? 0 : 1;
    };
  });
}

void AddEngine(CLI::App& bench, Run& chosen) {
  CLI::App* engine = bench.add_subcommand(
      "engine", "Prefill and decode against the machine's own bandwidth and FMA peak");
  auto options = std::make_shared<bench::BenchEngineOptions>();
  AddShape(*engine, options->shape);
  CLI::Option* types =
      engine
          ->add_option("--types", options->types, "Formats of the weights, as in make-model --type")
          ->check(CLI::IsMember(model::RecipeNames()))
          ->delimiter(',')
          ->capture_default_str();
  engine
      ->add_option("--model", options->model_path,
                   "A file or folder of your own, as it is; default: random weights")
      ->excludes(types)
      ->excludes("--shape");
  engine->add_option("--threads", options->threads, "Numbers of threads to measure")
      ->capture_default_str();
  engine->add_option("--cpu-target", options->cpu_target,
                     "As serve's; the best there is otherwise");
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
      ->check(CLI::IsMember({"f32", "f16", "bf16", "fp8_e4m3", "q8_0", "q4_0"}))
      ->capture_default_str();
  engine->add_option("--cache", options->cache_directory,
                     "Keeps the models made for the measurement here for the next run");
  engine->callback([&chosen, options, kv_dtype] {
    options->kv_dtype = kernels::FindDType(*kv_dtype).value();
    chosen = [options]() -> Result<int> {
      KVGATE_TRY_VOID(bench::RunBenchEngine(*options));
      return 0;
    };
  });
}

void AddGpu(CLI::App& bench, Run& chosen) {
  CLI::App* command = bench.add_subcommand(
      "gpu", "A device: decode, prefill, the cache's tiers and agents, each beside its limit");
  auto options = std::make_shared<bench::gpu::RunOptions>();
  command->add_option("--shape", options->shape, "Whose shape the random weights have")
      ->check(CLI::IsMember(bench::gpu::SizesNames()))
      ->capture_default_str();
  command->add_option("--dtype", options->dtypes, "Formats of the weights; the first in all parts")
      ->check(CLI::IsMember(model::RecipeNames()))
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--device", [options](const std::string& name) { options->is_cuda = name == "cuda"; })
      ->check(CLI::IsMember({"cuda", "cpu"}))
      ->default_str("cuda");
  command->add_option("--only", options->parts, "Parts to run; default: all")
      ->check(CLI::IsMember(bench::gpu::PartNames()))
      ->delimiter(',');
  command->add_flag("--quick", options->is_quick, "Fewer tokens, turns and sessions");
  command->add_option("--minutes", options->minutes, "For all parts together")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str();
  command->add_option("--threads", options->cpu_threads, "Of the CPU; 0: one per hardware thread")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--kv-memory", options->kv_bytes, "Of the KV pool; 0: what is free")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--host-memory", options->host_bytes, "Of the agents' host tier; 0: 32 GiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--disk", options->disk_bytes, "Of the agents' disk tier")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--dir", options->directory, "Where the disk tier lies meanwhile");
  command->add_flag("--json", options->is_json, "Print one JSON object, not the table");
  command->add_option("--json-file", options->json_file, "Write the JSON object here as well");
  command->callback([&chosen, options] {
    chosen = [options]() -> Result<int> {
      KVGATE_TRY(const bool is_within, bench::gpu::RunGpuBench(*options));
      return is_within ? 0 : 1;
    };
  });
}

void AddKvCache(CLI::App& bench, Run& chosen) {
  CLI::App* kv_cache = bench.add_subcommand(
      "kv-cache", "Generation with and without the KV cache: work n against n(n+1)/2");
  auto demonstration = std::make_shared<bench::BenchKvCacheOptions>();
  kv_cache->add_option("--model", demonstration->model_path,
                       "A GGUF file or a Hugging Face folder; default: a small one");
  kv_cache->add_option("--tokens", demonstration->num_tokens, "Tokens to generate")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  kv_cache->add_option("--threads", demonstration->threads)->capture_default_str();
  kv_cache->callback([&chosen, demonstration] {
    chosen = [demonstration]() -> Result<int> {
      KVGATE_TRY_VOID(bench::RunBenchKvCache(*demonstration));
      return 0;
    };
  });
}

void AddKvQuality(CLI::App& bench, Run& chosen) {
  CLI::App* command = bench.add_subcommand(
      "kv-quality", "What KV dtypes and context policies cost in logits and save in bytes");
  auto options = std::make_shared<bench::BenchKvQualityOptions>();
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
      KVGATE_TRY_VOID(bench::RunBenchKvQuality(*options));
      return 0;
    };
  });
}

void AddTokenizer(CLI::App& bench, Run& chosen) {
  CLI::App* command = bench.add_subcommand(
      "tokenizer", "MB/s of text to tokens and back with one thread, beside its bounds");
  auto options = std::make_shared<bench::BenchTokenizerOptions>();
  command->add_option("--model", options->model_path,
                      "A GGUF file or a tokenizer.json; default: gpt-2 of the test data");
  command->add_option("--text", options->text_path, "A text file; default: the GNU GPL of Debian");
  command->add_option("--seconds", options->seconds, "For each line")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  command->callback([&chosen, options] {
    chosen = [options]() -> Result<int> {
      KVGATE_TRY_VOID(bench::RunBenchTokenizer(*options));
      return 0;
    };
  });
}

}  // namespace

void AddBench(CLI::App& app, Run& chosen) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine and print the figures");
  bench->require_subcommand(1);
  AddEngine(*bench, chosen);
  AddGpu(*bench, chosen);
  AddModelLoad(*bench, chosen);
  AddKvCache(*bench, chosen);
  AddKvQuality(*bench, chosen);
  AddTokenizer(*bench, chosen);
  AddBenchServe(*bench, chosen);
}

}  // namespace kvgate::cli
