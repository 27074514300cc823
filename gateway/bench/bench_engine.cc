#include "gateway/bench/bench_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/model/model.h"
#include "engine/modelfile/hf_folder.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "gateway/bench/bench_file.h"
#include "gateway/bench/bench_work.h"
#include "gateway/cli/terminal/progress.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/peak.h"

namespace kvgate::bench {
namespace {

using kernels::DType;

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A model and one sequence in it. Restart sets its position back to 0.
class BenchSequence {
 public:
  static Result<std::unique_ptr<BenchSequence>> Open(const std::filesystem::path& path,
                                                     int num_threads, int context,
                                                     DType kv_dtype = DType::kF16,
                                                     const std::string& cpu_target = {}) {
    std::unique_ptr<BenchSequence> sequence(new BenchSequence);
    KVGATE_TRY(std::unique_ptr<modelfile::ModelFile> file, modelfile::OpenModelFile(path));
    sequence->file_ = std::move(file);
    KVGATE_TRY(sequence->backend_,
               kernels::cpu::MakeCpuBackend({.num_threads = num_threads, .target = cpu_target}));
    KVGATE_TRY(sequence->model_,
               model::Model::Load(sequence->file_, *sequence->backend_,
                                  {.context_tokens = context, .one_kv_group = true}));
    KVGATE_TRY_VOID(sequence->model_->Reserve(context, 1));
    const auto num_blocks =
        static_cast<uint32_t>((context + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens);
    KVGATE_TRY(sequence->arena_,
               sequence->backend_->AllocateKv(sequence->config().kv_shape(kv_dtype), num_blocks));
    for (uint32_t i = 0; i < num_blocks; ++i) sequence->blocks_.push_back(BlockId{i});
    sequence->logits_.resize(static_cast<size_t>(sequence->config().vocab_size));
    return sequence;
  }

  void Restart() { position_ = 0; }

  // Runs `tokens` and returns the most likely next token.
  TokenId Step(std::span<const TokenId> tokens) {
    const kernels::SequenceRows rows = {.first_row = 0,
                                        .num_rows = static_cast<int>(tokens.size()),
                                        .first_position = position_,
                                        .block_table = blocks_};
    const int last = rows.num_rows - 1;
    const model::StepGroup group = {.arena = arena_.get(), .sequences = {&rows, 1}};
    Result<void> computed = model_->Forward(
        {.tokens = tokens, .groups = {&group, 1}, .logit_rows = {&last, 1}}, logits_);
    if (!computed) computed_ = std::move(computed);
    position_ += rows.num_rows;
    return static_cast<TokenId>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
  }

  // The error of a step that failed, which makes the figures meaningless.
  const Result<void>& computed() const { return computed_; }

  const model::ModelConfig& config() const { return model_->config(); }
  size_t kv_block_bytes() const { return arena_->block_bytes(); }
  const modelfile::ModelFile& file() const { return *file_; }

 private:
  BenchSequence() = default;
  std::shared_ptr<const modelfile::ModelFile> file_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<kernels::KvArena> arena_;
  std::vector<BlockId> blocks_;
  std::vector<float> logits_;
  Result<void> computed_;
  int position_ = 0;
};

// Bytes that one decoded token reads: each matrix that it uses once, and the KV before it.
double DecodeBytes(const BenchSequence& sequence, double context) {
  const double kv_token = static_cast<double>(sequence.kv_block_bytes()) / kernels::kKvBlockTokens;
  return WeightBytesRead(sequence.file(), sequence.config()) + kv_token * context;
}

std::vector<TokenId> BenchPrompt(int num_tokens, int vocab_size) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < num_tokens; ++i) {
    tokens.push_back(static_cast<TokenId>((int64_t{i} * 7919 + 13) % vocab_size));
  }
  return tokens;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Speeds {
  double prefill_tokens_per_second = 0;
  double decode_tokens_per_second = 0;
  double decode_context = 0;  // mean number of tokens before the decoded one
};

Speeds MeasureSpeeds(BenchSequence& sequence, const BenchEngineOptions& options) {
  const std::vector<TokenId> prompt =
      BenchPrompt(options.prompt_tokens, sequence.config().vocab_size);
  std::vector<double> prefill;
  std::vector<double> decode;
  Speeds speeds;
  sequence.Step(std::span(prompt).first(std::min<size_t>(prompt.size(), 32)));  // touches the pages
  for (int run = 0; run < options.repetitions; ++run) {
    sequence.Restart();
    prefill.push_back(options.prompt_tokens / SecondsOf([&] { sequence.Step(prompt); }));
    sequence.Restart();
    TokenId token = prompt[0];
    int count = 0;
    const auto start = std::chrono::steady_clock::now();
    double seconds = 0;
    while (count < options.decode_tokens && seconds < options.decode_seconds_max) {
      token = sequence.Step({&token, 1});
      ++count;
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    decode.push_back(count / seconds);
    speeds.decode_context = (count + 1) / 2.0;
  }
  speeds.prefill_tokens_per_second = Median(std::move(prefill));
  speeds.decode_tokens_per_second = Median(std::move(decode));
  return speeds;
}

Result<void> CheckOptions(const BenchEngineOptions& options) {
  const auto invalid = [](std::string_view field) {
    return MakeError(ErrorCode::kInvalidArgument, "bench",
                     fmt::format("{} must be positive", field), std::string(field));
  };
  if (options.prompt_tokens < 1) return invalid("prompt_tokens");
  if (options.decode_tokens < 1) return invalid("decode_tokens");
  if (options.repetitions < 1) return invalid("repetitions");
  if (std::ranges::any_of(options.threads, [](int n) { return n < 1; })) return invalid("threads");
  return {};
}

// Prints two lines for each number of threads.
Result<void> MeasureFile(const std::filesystem::path& path, std::string_view label,
                         const BenchEngineOptions& options) {
  const int context = std::max(options.prompt_tokens, options.decode_tokens);
  for (const int threads : options.threads) {
    const double bandwidth = kernels::cpu::MeasureReadBandwidth(threads);
    const double peak = kernels::cpu::MeasureFmaPeak(threads);
    const double tiles = kernels::cpu::MeasureTilePeak(threads);
    KVGATE_TRY(const auto sequence, BenchSequence::Open(path, threads, context, options.kv_dtype,
                                                        options.cpu_target));
    const int64_t known = sequence->config().context_length;
    if (context > known) {
      return MakeError(ErrorCode::kInvalidArgument, "bench",
                       fmt::format("{} tokens; the model's context is {}", context, known),
                       "prompt_tokens");
    }
    const Speeds speeds = MeasureSpeeds(*sequence, options);
    KVGATE_TRY_VOID(sequence->computed());
    const double operations = PrefillOperations(sequence->config(), options.prompt_tokens) *
                              speeds.prefill_tokens_per_second / options.prompt_tokens;
    const double bytes =
        DecodeBytes(*sequence, speeds.decode_context) * speeds.decode_tokens_per_second;
    fmt::print(options.out, "{:<8}{:>8}{:>12.1f}{:>10.1f}{:>9.0f}%{:>12.1f}{:>10.2f}{:>11.0f}%\n",
               label, threads, speeds.prefill_tokens_per_second, operations / 1e9,
               100 * operations / peak, speeds.decode_tokens_per_second, bytes / 1e9,
               bandwidth > 0 ? 100 * bytes / bandwidth : 0);
    fmt::print(options.out,
               "{:<8}{:>8}  limits here: FMA peak {:.1f} GFLOP/s, read {:.2f} GB/s{}\n", "", "",
               peak / 1e9, bandwidth / 1e9,
               tiles > 0 ? fmt::format(", int8 tiles {:.1f} GOP/s", tiles / 1e9) : "");
    std::fflush(options.out);
  }
  return {};
}

}  // namespace

Result<void> RunBenchEngine(const BenchEngineOptions& options) {
  KVGATE_TRY_VOID(CheckOptions(options));
  fmt::print(options.out, "{:<8}{:>8}{:>12}{:>10}{:>10}{:>12}{:>10}{:>12}\n", "type", "threads",
             fmt::format("pp{} tok/s", options.prompt_tokens), "GFLOP/s", "of FMA",
             fmt::format("tg{} tok/s", options.decode_tokens), "GB/s", "of read bw");
  if (!options.model_path.empty()) return MeasureFile(options.model_path, "as it is", options);
  for (const std::string& type : options.types) {
    KVGATE_TRY(const auto file, BenchFile::MakeAs(type, options.shape, options.cache_directory));
    KVGATE_TRY_VOID(MeasureFile(file->path(), type, options));
  }
  return {};
}

Result<void> RunBenchKvCache(const BenchKvCacheOptions& options) {
  if (options.num_tokens < 1 || options.threads < 1) {
    return MakeError(ErrorCode::kInvalidArgument, "bench", "tokens and threads must be positive",
                     options.threads < 1 ? "threads" : "num_tokens");
  }
  std::unique_ptr<BenchFile> made;
  std::filesystem::path path = options.model_path;
  if (path.empty()) {
    const model::MakeModelOptions shape = {
        .num_layers = 6, .hidden_dim = 512, .ffn_dim = 1408, .vocab_size = 4096, .name = ""};
    KVGATE_TRY(made, BenchFile::Make(shape, {}));
    path = made->path();
  }
  const int64_t n = options.num_tokens;
  KVGATE_TRY(const auto sequence, BenchSequence::Open(path, options.threads, options.num_tokens));
  if (n > sequence->config().context_length) {
    return MakeError(
        ErrorCode::kInvalidArgument, "bench",
        fmt::format("{} tokens; the model's context is {}", n, sequence->config().context_length),
        "num_tokens");
  }
  KVGATE_TRY(const auto tokenizer, tokenizer::Tokenizer::Load(sequence->file()));
  const TokenId first = tokenizer->bos().value_or(0);
  sequence->Step({&first, 1});  // touches the pages

  std::vector<TokenId> kept = {first};
  sequence->Restart();
  const double kept_seconds = [&] {
    cli::terminal::Progress progress("with the KV cache", "tokens");
    return SecondsOf([&] {
      for (int64_t i = 0; i < n; ++i) {
        progress.Set(static_cast<uint64_t>(i), static_cast<uint64_t>(n));
        kept.push_back(sequence->Step({&kept.back(), 1}));
      }
    });
  }();
  std::vector<TokenId> again = {first};
  int64_t num_again = 0;
  std::optional<cli::terminal::Progress> progress(std::in_place, "without the KV cache",
                                                  "token-forwards");
  const double again_seconds = SecondsOf([&] {
    for (int64_t i = 0; i < n; ++i) {
      progress->Set(static_cast<uint64_t>(num_again), static_cast<uint64_t>(n * (n + 1) / 2));
      sequence->Restart();
      num_again += std::ssize(again);
      again.push_back(sequence->Step(again));
    }
  });
  progress.reset();
  const bool same = kept == again && tokenizer->Decode(kept) == tokenizer->Decode(again);
  fmt::print(options.out, "{:<22}{:>16}{:>10}{:>12}\n", fmt::format("{} new tokens", n),
             "token-forwards", "seconds", "tok/s");
  fmt::print(options.out, "{:<22}{:>16}{:>10.3f}{:>12.1f}\n", "with the KV cache", n, kept_seconds,
             static_cast<double>(n) / kept_seconds);
  fmt::print(options.out, "{:<22}{:>16}{:>10.3f}{:>12.1f}\n", "without", num_again, again_seconds,
             static_cast<double>(n) / again_seconds);
  fmt::print(options.out, "work {:.1f}x, time {:.1f}x; texts {}\n",
             static_cast<double>(num_again) / static_cast<double>(n), again_seconds / kept_seconds,
             same ? "identical" : "DIFFER");
  if (!same) {
    return MakeError(ErrorCode::kInternal, "bench", "the texts with and without the cache differ");
  }
  return {};
}

}  // namespace kvgate::bench
