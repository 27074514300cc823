#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <kvgate/log.h>

#include "engine/engine_loop.h"

namespace kvgate::engine {
namespace {

constexpr int kContextTokensDefaultMax = 32768;
// More than any machine needs; keeps the pool's bookkeeping small where blocks are tiny.
constexpr uint64_t kNumKvBlocksMax = uint64_t{1} << 17;

Result<uint32_t> CountKvBlocks(const EngineOptions& options, size_t block_bytes) {
  const uint64_t num_blocks = std::min(options.kv_bytes / block_bytes, kNumKvBlocksMax);
  if (num_blocks < 2) {
    return MakeError(ErrorCode::kInvalidArgument, "engine",
                     fmt::format("{} bytes of KV memory hold no two blocks of {} bytes; give more",
                                 options.kv_bytes, block_bytes),
                     "kv-memory");
  }
  return static_cast<uint32_t>(num_blocks);
}

bool IsContextBounded(const EngineOptions& options) {
  return options.context_policy != schedule::ContextPolicy::kNone &&
         options.context_policy_tokens > 0;
}

// The longest sequence: what was asked for, what the model knows, what the pool can hold.
int ContextTokensMax(const EngineOptions& options, const model::ModelConfig& config,
                     uint32_t num_blocks) {
  int tokens = options.context_tokens_max > 0
                   ? options.context_tokens_max
                   : std::min(config.context_length, kContextTokensDefaultMax);
  if (tokens > config.context_length) {
    KVGATE_LOG(kWarning, "engine", "context of {} tokens cut to the model's own {}", tokens,
               config.context_length);
    tokens = config.context_length;
  }
  const int64_t pool_tokens = int64_t{num_blocks} * kernels::kKvBlockTokens;
  if (tokens > pool_tokens && !IsContextBounded(options)) {
    KVGATE_LOG(kWarning, "engine",
               "context of {} tokens cut to the {} that the KV memory holds; give it more memory "
               "for longer prompts",
               tokens, pool_tokens);
    tokens = static_cast<int>(pool_tokens);
  }
  return tokens;
}

Result<void> CheckContextPolicy(const EngineOptions& options, uint32_t num_blocks) {
  const int tokens = options.context_policy_tokens;
  // What is kept, twice (its copies are made before the first drop), and room for chunks.
  const int tokens_max = (static_cast<int>(num_blocks) / 2 - 16) * kernels::kKvBlockTokens;
  if (tokens == 0 || (tokens >= schedule::kContextPolicyTokensMin &&
                      (tokens <= tokens_max || !IsContextBounded(options)))) {
    return {};
  }
  return MakeError(
      ErrorCode::kInvalidArgument, "engine",
      fmt::format("context_policy_tokens is {}: 0 (no bound), or from {} to the {} that the KV "
                  "memory allows",
                  tokens, schedule::kContextPolicyTokensMin, std::max(tokens_max, 0)),
      "context_policy_tokens");
}

int BlocksFor(int num_tokens) {
  return (num_tokens + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
}

// What it writes into the first blocks is never hit: they are in no index, and are overwritten by
// whoever acquires them. Each row has a place of its own there, as threads write side by side.
// REQUIRES: the arena has as many blocks.
double TimeStep(int num_tokens, model::Model& model, kernels::KvArena& arena) {
  const std::vector<TokenId> tokens(static_cast<size_t>(num_tokens), 0);
  std::vector<BlockId> block_table;
  for (int block = 0; block < BlocksFor(num_tokens); ++block) {
    block_table.push_back(BlockId{static_cast<uint32_t>(block)});
  }
  const kernels::SequenceRows rows{
      .first_row = 0, .num_rows = num_tokens, .first_position = 0, .block_table = block_table};
  const int logit_row = num_tokens - 1;
  std::vector<float> logits(static_cast<size_t>(model.config().vocab_size));
  const auto began = std::chrono::steady_clock::now();
  const model::StepGroup group{.arena = &arena, .sequences = {&rows, 1}};
  model.Forward({.tokens = tokens, .groups = {&group, 1}, .logit_rows = {&logit_row, 1}}, logits);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// A small step before the first request brings weights, scratch and activations into memory, which
// would cost that request tens of milliseconds. A second one says what prefill costs here, so that
// the first hit on disk can be weighed: of as many tokens as half a second allows.
WarmUpStep WarmUp(const EngineOptions& options, model::Model& model, kernels::KvArena& arena) {
  constexpr double kSecondsMax = 0.5;
  const int smallest = std::min(options.step_tokens_max, 8);
  TimeStep(smallest, model, arena);
  WarmUpStep step{.num_rows = smallest, .seconds = TimeStep(smallest, model, arena)};
  for (const int num_rows : {32, 128}) {
    const double expected = step.seconds / step.num_rows * num_rows;
    const bool fits = num_rows <= options.step_tokens_max &&
                      BlocksFor(num_rows) <= static_cast<int>(arena.num_blocks());
    if (!fits || expected > kSecondsMax) break;
    step = {.num_rows = num_rows, .seconds = TimeStep(num_rows, model, arena)};
  }
  return step;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options,
                                             std::shared_ptr<const model::GgufFile> file,
                                             kernels::Backend& backend,
                                             const tokenizer::Tokenizer& tokenizer,
                                             store::KvStore* store) {
  EngineLoop::Parts parts{
      .file = file, .model = nullptr, .arena = nullptr, .host = nullptr, .warm_up = {}};
  // One group for all layers: windows are seen, and what they have left behind is kept.
  KVGATE_TRY(parts.model, model::Model::Load(std::move(file), backend,
                                             {.context_tokens = options.context_tokens_max > 0
                                                                    ? options.context_tokens_max
                                                                    : kContextTokensDefaultMax,
                                              .one_kv_group = true}));
  EngineInfo info;
  info.model = parts.model->config();
  info.backend = backend.Info();
  info.weight_bytes = parts.model->weight_bytes();
  info.kv_dtype = options.kv_dtype;
  const kernels::KvShape shape = info.model.kv_shape(options.kv_dtype);
  info.kv_block_bytes = shape.block_bytes();
  KVGATE_TRY(info.num_kv_blocks, CountKvBlocks(options, info.kv_block_bytes));
  KVGATE_TRY_VOID(CheckContextPolicy(options, info.num_kv_blocks));
  info.context_tokens_max = ContextTokensMax(options, info.model, info.num_kv_blocks);
  KVGATE_TRY(parts.arena, backend.AllocateKv(shape, info.num_kv_blocks));
  if (options.host_bytes > 0) {
    KVGATE_TRY(parts.host, tier::HostTier::Open(options.host_bytes, backend, *parts.arena));
  }
  KVGATE_TRY_VOID(parts.model->Reserve(options.step_tokens_max, options.sequences_max));
  parts.warm_up = WarmUp(options, *parts.model, *parts.arena);
  return std::make_unique<EngineLoop>(options, std::move(info), std::move(parts), backend,
                                      tokenizer, store);
}

}  // namespace kvgate::engine
