#include "gateway/bench/gpu/speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "gateway/bench/bench_work.h"

namespace kvgate::bench::gpu {
namespace {

// Returns a new seed for every prompt of this process, so that none is cached.
uint64_t NextSeed() {
  static std::atomic<uint64_t> seed{1};
  return seed++;
}

double MillisecondsSince(Clock::time_point begin) {
  return 1e3 * SecondsBetween(begin, Clock::now());
}

// The upper bound for decoding a batch at this context, in tok/s.
double DecodeLimit(const Run& run, const OpenedEngine& opened, double batch, double context) {
  const double bytes =
      WeightBytesRead(*opened.file, opened.config()) + batch * context * opened.kv_token_bytes();
  const double seconds = std::max(
      bytes / run.limits().read_bytes_per_second,
      batch * DecodeOperations(opened.config(), context) / run.limits().operations_per_second);
  return batch / seconds;
}

struct StepTimes {
  double noted_ms = 0;  // until the CPU has issued the step
  double whole_ms = 0;
};

// Times one sequence's decode step after `context` tokens, without an engine. The KV's content does
// not affect the time. Returns the fastest of several steps.
Result<StepTimes> TimeStep(LoadedModel& loaded, int context) {
  const model::ModelConfig& config = loaded.model->config();
  const auto num_blocks = static_cast<uint32_t>(context / kernels::kKvBlockTokens + 1);
  std::vector<BlockId> table;
  for (uint32_t i = 0; i < num_blocks; ++i) table.push_back(BlockId{i});
  const kernels::SequenceRows rows{
      .first_row = 0, .num_rows = 1, .first_position = context, .block_table = table};
  KVGATE_TRY(const auto arena,
             loaded.backend->AllocateKv(config.kv_shape(kernels::DType::kF16), num_blocks));
  const model::StepGroup group{.arena = arena.get(), .sequences = {&rows, 1}};
  const TokenId token = 1;
  const int row = 0;
  std::vector<float> logits(static_cast<size_t>(config.vocab_size));
  StepTimes best{.noted_ms = 1e9, .whole_ms = 1e9};
  for (int i = 0; i < 8; ++i) {
    auto begin = Clock::now();
    KVGATE_TRY_VOID(loaded.model->Forward(
        {.tokens = {&token, 1}, .groups = {&group, 1}, .logit_rows = {&row, 1}}, logits));
    best.whole_ms = std::min(best.whole_ms, MillisecondsSince(begin));
    // Without logits Forward returns as soon as the work is issued.
    begin = Clock::now();
    KVGATE_TRY_VOID(loaded.model->Forward(
        {.tokens = {&token, 1}, .groups = {&group, 1}, .logit_rows = {}}, {}));
    best.noted_ms = std::min(best.noted_ms, MillisecondsSince(begin));
    loaded.backend->Synchronize();
  }
  return best;
}

Result<void> MeasureSteps(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                          const std::string& part) {
  const Sizes& sizes = run.sizes();
  KVGATE_TRY(LoadedModel loaded, LoadModel(run.device(), std::move(file), sizes.long_context + 1));
  KVGATE_TRY_VOID(loaded.model->Reserve(1, 1));
  for (const int context : {sizes.short_context, sizes.long_context}) {
    KVGATE_TRY(const StepTimes times, TimeStep(loaded, context));
    run.figures().Add({.part = part,
                       .name = fmt::format("step at {}, noted by the CPU", context),
                       .measured = times.noted_ms,
                       .unit = "ms",
                       .limit = times.whole_ms,
                       .limit_name = "the whole step, its logits on the host"});
  }
  return {};
}

double RatioAsked(const SpeedParts& parts, const BatchShape& shape, const Sizes& sizes) {
  if (shape.num_sequences > 1) return 0.60;
  if (!parts.is_first) return 0.65;
  return shape.context == sizes.long_context ? 0.75 : 0.80;
}

Result<void> AddDecodes(Run& run, OpenedEngine& opened, const SpeedParts& parts) {
  const Sizes& sizes = run.sizes();
  std::vector<BatchShape> shapes = {
      {.num_sequences = 1, .context = sizes.short_context, .num_tokens = sizes.decode_tokens},
      {.num_sequences = 1, .context = sizes.long_context, .num_tokens = sizes.decode_tokens},
      {.num_sequences = sizes.batch,
       .context = sizes.short_context,
       .num_tokens = sizes.decode_tokens}};
  for (const BatchShape& shape : shapes) {
    const std::string name =
        fmt::format("{} {} at {}", shape.num_sequences,
                    shape.num_sequences == 1 ? "sequence" : "sequences", shape.context);
    if (run.IsCut("decode " + parts.dtype)) return {};
    run.Say(fmt::format("decode {}: {}", parts.dtype, name));
    KVGATE_TRY(const BatchSpeed speed, MeasureDecode(*opened.engine, shape, run.seconds_left()));
    // For other formats only batch 1 has a bound.
    const bool is_asked = parts.is_first || shape.num_sequences == 1;
    const Bound bound{.kind = BoundKind::kRatioMin, .value = RatioAsked(parts, shape, sizes)};
    run.figures().Add({.part = "decode " + parts.dtype,
                       .name = name,
                       .measured = speed.tokens_per_second,
                       .unit = "tok/s",
                       .limit = DecodeLimit(run, opened, shape.num_sequences, speed.context),
                       .limit_name = shape.num_sequences == 1 ? "bytes / copy bandwidth"
                                                              : "roofline of bytes and peak",
                       .bound = is_asked ? run.Asked(bound) : Bound{}});
  }
  return {};
}

Result<void> AddPrefills(Run& run, OpenedEngine& opened, const SpeedParts& parts) {
  for (size_t i = 0; i < run.sizes().prefills.size(); ++i) {
    const int num_tokens = run.sizes().prefills[i];
    if (run.IsCut("prefill " + parts.dtype)) return {};
    run.Say(fmt::format("prefill {}: {} tokens", parts.dtype, num_tokens));
    KVGATE_TRY(const double speed, MeasurePrefill(*opened.engine, num_tokens, run.seconds_left()));
    const Bound bound{.kind = BoundKind::kMin, .value = i == 0 ? 25'000.0 : 20'000.0};
    run.figures().Add({.part = "prefill " + parts.dtype,
                       .name = fmt::format("{} tokens", num_tokens),
                       .measured = speed,
                       .unit = "tok/s",
                       .limit = num_tokens * run.limits().operations_per_second /
                                PrefillOperations(opened.config(), num_tokens),
                       .limit_name = "operations / measured peak",
                       .bound = parts.is_first ? run.Asked(bound) : Bound{}});
    if (!parts.is_first) break;
  }
  return {};
}

int ContextTokens(const Sizes& sizes) {
  const int longest = std::max(sizes.long_context, sizes.prefills.back());
  return longest + sizes.decode_tokens + sizes.batch + sizes.tail_tokens;
}

}  // namespace

Result<BatchSpeed> MeasureDecode(engine::Engine& engine, const BatchShape& shape,
                                 double seconds_max) {
  // The first sequences already decode while the last prompts are prefilled, so they need more
  // tokens.
  const int max_tokens = shape.num_tokens + shape.num_sequences;
  const int vocab_size = engine.info().model.vocab_size;
  Requests requests(engine);
  for (int i = 0; i < shape.num_sequences; ++i) {
    KVGATE_TRY_VOID(requests.Submit(
        static_cast<size_t>(i),
        {.prompt = RandomTokens(shape.context, vocab_size, NextSeed()), .max_tokens = max_tokens}));
  }
  std::vector<Answer> answers;
  const auto until = After(seconds_max);
  while (requests.num_running() > 0) {
    std::optional<Answer> answer = requests.Next(until);
    if (!answer) {
      return MakeError(ErrorCode::kDeadline, "bench",
                       fmt::format("{} sequences at {} take over {:.0f} s", shape.num_sequences,
                                   shape.context, seconds_max));
    }
    if (answer->error) return *std::move(answer->error);
    answers.push_back(*std::move(answer));
  }
  auto begin = answers[0].times.front();
  auto end = answers[0].times.back();
  for (const Answer& answer : answers) {
    begin = std::max(begin, answer.times.front());
    end = std::min(end, answer.times.back());
  }
  if (begin >= end) {
    return MakeError(ErrorCode::kInternal, "bench", "the sequences never decoded together");
  }
  double count = 0;
  double positions = 0;
  for (const Answer& answer : answers) {
    for (size_t i = 0; i < answer.times.size(); ++i) {
      if (answer.times[i] <= begin || answer.times[i] > end) continue;
      count += 1;
      positions += shape.context + static_cast<double>(i);
    }
  }
  return BatchSpeed{.tokens_per_second = count / SecondsBetween(begin, end),
                    .context = positions / count};
}

Result<double> MeasurePrefill(engine::Engine& engine, int num_tokens, double seconds_max) {
  double best = 0;
  for (int i = 0; i < 2; ++i) {
    KVGATE_TRY(
        const Answer answer,
        AskOne(engine,
               {.prompt = RandomTokens(num_tokens, engine.info().model.vocab_size, NextSeed())},
               seconds_max));
    best = std::max(best, num_tokens / answer.stats.ttft_seconds);
  }
  return best;
}

Result<void> MeasureSpeed(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                          const SpeedParts& parts) {
  if (parts.has_decode && parts.is_first) {
    run.Say("steps without an engine");
    KVGATE_TRY_VOID(MeasureSteps(run, file, "step " + parts.dtype));
  }
  KVGATE_TRY(OpenedEngine opened,
             run.OpenEngine(std::move(file), {.context_tokens = ContextTokens(run.sizes())}));
  const engine::EngineInfo& info = opened.engine->info();
  run.figures().AddFact("KV pool " + parts.dtype,
                        fmt::format("{} tokens in {:.1f} GiB beside {:.1f} GiB of weights",
                                    uint64_t{info.num_kv_blocks} * kernels::kKvBlockTokens,
                                    static_cast<double>(info.num_kv_blocks) *
                                        static_cast<double>(info.kv_block_bytes) / (1 << 30),
                                    static_cast<double>(info.weight_bytes) / (1 << 30)));
  if (parts.has_decode) KVGATE_TRY_VOID(AddDecodes(run, opened, parts));
  if (parts.has_prefill) KVGATE_TRY_VOID(AddPrefills(run, opened, parts));
  return {};
}

Result<void> MeasureNumerics(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                             const std::string& dtype) {
  const Sizes& sizes = run.sizes();
  if (const auto fast = OpenBackend(run.device(true));
      !fast && fast.error().code == ErrorCode::kUnsupported) {
    run.figures().AddFact("numerics", "invariant alone: " + fast.error().detail);
    return {};
  }
  const std::vector<BatchShape> shapes = {
      {.num_sequences = 1, .context = sizes.short_context, .num_tokens = sizes.decode_tokens},
      {.num_sequences = sizes.batch,
       .context = sizes.short_context,
       .num_tokens = sizes.decode_tokens}};
  std::vector<double> speeds[2];  // invariant, fast
  for (const bool is_fast : {false, true}) {
    KVGATE_TRY(OpenedEngine opened,
               run.OpenEngine(file, {.context_tokens = ContextTokens(sizes)}, is_fast));
    run.Say(is_fast ? "numerics: fast" : "numerics: invariant");
    for (const BatchShape& shape : shapes) {
      KVGATE_TRY(const BatchSpeed speed, MeasureDecode(*opened.engine, shape, run.seconds_left()));
      speeds[is_fast ? 1 : 0].push_back(speed.tokens_per_second);
    }
    KVGATE_TRY(const double prefill,
               MeasurePrefill(*opened.engine, sizes.prefills.front(), run.seconds_left()));
    speeds[is_fast ? 1 : 0].push_back(prefill);
  }
  const std::vector<std::string> names = {
      fmt::format("invariant, 1 sequence at {}", sizes.short_context),
      fmt::format("invariant, {} sequences at {}", sizes.batch, sizes.short_context),
      fmt::format("invariant, prefill of {}", sizes.prefills.front())};
  for (size_t i = 0; i < names.size(); ++i) {
    run.figures().Add({.part = "numerics " + dtype,
                       .name = names[i],
                       .measured = speeds[0][i],
                       .unit = "tok/s",
                       .limit = speeds[1][i],
                       .limit_name = "the same in fast"});
  }
  return {};
}

}  // namespace kvgate::bench::gpu
