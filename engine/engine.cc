#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/engine_loop.h"
#include "engine/kv/memory_split.h"
#include "engine/model/capacity.h"

namespace kvgate::engine {
namespace {

// More than any machine needs; it keeps the pool's bookkeeping small if blocks are tiny.
constexpr uint64_t kNumKvBlocksMax = uint64_t{1} << 17;

// Returns the longest context that is requested, regardless of memory.
int WantedContextTokens(const EngineOptions& options, const model::ModelConfig& config) {
  return options.context_tokens_max > 0 ? options.context_tokens_max : config.context_length;
}

std::vector<kv::GroupShape> GroupShapes(const EngineInfo& info) {
  std::vector<kv::GroupShape> shapes;
  for (const KvGroupInfo& group : info.kv_groups) {
    shapes.push_back({.block_bytes = group.block_bytes, .window = group.window});
  }
  return shapes;
}

// Returns the longest sequence that the division of the KV memory plans for. By default it is the
// number of tokens that the whole KV memory would hold, if the model supports more than that.
int SplitContextTokens(const EngineOptions& options, const EngineInfo& info) {
  const int wanted = WantedContextTokens(options, info.model);
  if (options.context_tokens_max > 0) return wanted;
  const std::vector<uint32_t> num_blocks =
      kv::SplitKvMemory(GroupShapes(info), {.bytes = options.kv_bytes,
                                            .context_tokens = wanted,
                                            .step_tokens = options.step_tokens_max,
                                            .num_blocks_max = kNumKvBlocksMax});
  const uint64_t held = uint64_t{num_blocks[kv::kFullGroup]} * kernels::kKvBlockTokens;
  return static_cast<int>(std::clamp<uint64_t>(held, 1, static_cast<uint64_t>(wanted)));
}

std::string MebiBytes(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// Returns the size of the KV pools: the requested one, or what the device's memory allows once
// weights and activations are in place.
Result<uint64_t> KvBytes(const EngineOptions& options, const EngineInfo& info,
                         const kernels::Backend& backend) {
  const kernels::BackendMemory memory = backend.Memory();
  if (memory.bytes_total == 0) return options.kv_bytes;
  const uint64_t room = memory.bytes_free - model::DeviceReserveBytes(memory.bytes_free);
  if (options.kv_bytes == 0) return model::DevicePoolBytes(memory.bytes_free);
  if (options.kv_bytes <= room) return options.kv_bytes;
  return MakeError(
      ErrorCode::kInvalidArgument, "engine",
      fmt::format("kv_memory {} does not fit: of the device's {} there are {} free beside weights "
                  "({}) and activations ({}), and steps need some; set it to {} or less, or leave "
                  "it out",
                  MebiBytes(options.kv_bytes), MebiBytes(memory.bytes_total),
                  MebiBytes(memory.bytes_free), MebiBytes(info.weight_bytes),
                  MebiBytes(info.activation_bytes), MebiBytes(room)),
      "kv_memory");
}

uint64_t ActivationBytes(const EngineOptions& options, const model::ModelConfig& config,
                         const kernels::Backend& backend) {
  const model::ActivationFloats floats =
      model::CountActivations(config, backend.Info().routes_experts);
  return sizeof(float) *
         (floats.fixed + floats.per_token * static_cast<uint64_t>(options.step_tokens_max) +
          floats.per_logit_row * static_cast<uint64_t>(options.sequences_max));
}

// Fills in the groups' shapes and block counts for the KV memory of `options`.
Result<void> SizeGroups(const EngineOptions& options, EngineInfo& info) {
  for (size_t i = 0; i < info.model.kv_groups.size(); ++i) {
    const model::KvGroup& group = info.model.kv_groups[i];
    info.kv_groups.push_back(
        {.window = group.window,
         .num_layers = group.num_layers,
         .num_blocks = 0,
         .block_bytes = info.model.kv_shape(options.kv_dtype, i).block_bytes()});
  }
  const std::vector<uint32_t> num_blocks =
      kv::SplitKvMemory(GroupShapes(info), {.bytes = options.kv_bytes,
                                            .context_tokens = SplitContextTokens(options, info),
                                            .step_tokens = options.step_tokens_max,
                                            .num_blocks_max = kNumKvBlocksMax});
  size_t bytes = 0;  // one block of every group
  for (size_t i = 0; i < num_blocks.size(); ++i) {
    info.kv_groups[i].num_blocks = num_blocks[i];
    info.kv_bytes += uint64_t{num_blocks[i]} * info.kv_groups[i].block_bytes;
    bytes += info.kv_groups[i].block_bytes;
  }
  info.num_kv_blocks = num_blocks[kv::kFullGroup];
  info.kv_block_bytes = info.kv_groups[kv::kFullGroup].block_bytes;
  if (info.num_kv_blocks >= 2) return {};
  return MakeError(ErrorCode::kInvalidArgument, "engine",
                   fmt::format("{} bytes of KV memory hold no two blocks of {} bytes; give more",
                               options.kv_bytes, bytes),
                   "kv_memory");
}

bool IsContextBounded(const EngineOptions& options) {
  return options.context_policy != schedule::ContextPolicy::kNone &&
         options.context_policy_tokens > 0;
}

// Returns the longest sequence: the least of the requested length, the model's own and the pool's,
// unless a context policy bounds the KV.
int ContextTokensMax(const EngineOptions& options, const model::ModelConfig& config,
                     uint32_t num_blocks) {
  int tokens = WantedContextTokens(options, config);
  if (tokens > config.context_length) {
    KVGATE_LOG(kWarning, "engine", "context of {} tokens cut to the model's own {}", tokens,
               config.context_length);
    tokens = config.context_length;
  }
  const int64_t pool_tokens = int64_t{num_blocks} * kernels::kKvBlockTokens;
  if (tokens > pool_tokens && !IsContextBounded(options)) {
    // The default is the model's own context, which no user asked for: no warning then.
    if (options.context_tokens_max > 0) {
      KVGATE_LOG(kWarning, "engine",
                 "context of {} tokens cut to the {} that the KV memory holds; give it more memory "
                 "for longer prompts",
                 tokens, pool_tokens);
    } else {
      KVGATE_LOG(kInfo, "engine",
                 "context of {} tokens, which is what the KV memory holds; the model knows {} "
                 "(engine.kv_memory makes room)",
                 pool_tokens, tokens);
    }
    tokens = static_cast<int>(pool_tokens);
  }
  return tokens;
}

Result<void> CheckContextPolicy(const EngineOptions& options, const EngineInfo& info) {
  const auto windowed = std::ranges::find_if(
      info.kv_groups, [](const KvGroupInfo& group) { return group.window > 0; });
  if (IsContextBounded(options) && windowed != info.kv_groups.end()) {
    return MakeError(
        ErrorCode::kInvalidArgument, "engine",
        fmt::format("context_policy {}: this model's layers have a window of {} tokens and see the "
                    "context by it; take context_policy none",
                    schedule::ContextPolicyName(options.context_policy), windowed->window),
        "context_policy");
  }
  const int tokens = options.context_policy_tokens;
  const uint32_t num_blocks = info.num_kv_blocks;
  // The kept blocks count twice, because their copies are made before the first drop; 16 more are
  // for prefill chunks.
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

// Times a forward pass of num_tokens tokens behind first_position others. The rows write into the
// arenas' first blocks, one slot per row because threads write side by side. No index lists these
// blocks and whoever acquires them overwrites them, so they are never hit. The preceding positions
// read an arbitrary block. REQUIRES: the arenas have that many blocks; first_position is a multiple
// of the block size.
Result<double> TimeStep(int num_tokens, int first_position, model::Model& model,
                        const tier::KvGroups& kv_groups) {
  const std::vector<TokenId> tokens(static_cast<size_t>(num_tokens), 0);
  const auto num_written = static_cast<uint32_t>(schedule::BlocksFor(num_tokens));
  std::vector<BlockId> block_table(static_cast<size_t>(schedule::BlocksFor(first_position)),
                                   BlockId{num_written - 1});
  for (uint32_t block = 0; block < num_written; ++block) block_table.push_back(BlockId{block});
  const kernels::SequenceRows rows{.first_row = 0,
                                   .num_rows = num_tokens,
                                   .first_position = first_position,
                                   .block_table = block_table};
  const int logit_row = num_tokens - 1;
  std::vector<float> logits(static_cast<size_t>(model.config().vocab_size));
  const auto began = std::chrono::steady_clock::now();
  std::vector<model::StepGroup> groups;
  for (const auto& group : kv_groups.all()) {
    groups.push_back({.arena = &group->arena(), .sequences = {&rows, 1}});
  }
  KVGATE_TRY_VOID(
      model.Forward({.tokens = tokens, .groups = groups, .logit_rows = {&logit_row, 1}}, logits));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Returns the quicker of two runs if a run takes at most 50 ms, because other processes distort
// such short times.
Result<double> TimeQuickStep(int num_tokens, int first_position, model::Model& model,
                             const tier::KvGroups& kv_groups) {
  constexpr double kQuickSeconds = 0.05;
  KVGATE_TRY(const double seconds, TimeStep(num_tokens, first_position, model, kv_groups));
  if (seconds > kQuickSeconds) return seconds;
  KVGATE_TRY(const double again, TimeStep(num_tokens, first_position, model, kv_groups));
  return std::min(seconds, again);
}

// Runs steps before the first request. A small one brings weights, scratch and activations into
// memory, which would cost that request tens of milliseconds. A second one, of as many tokens as
// half a second allows, measures prefill, so that the first disk hit can be weighed. A third one,
// at a far position, measures by how much attention makes later tokens slower: extrapolated from
// the first positions, computing 40,000 tokens would seem five times as quick as it is.
Result<WarmUp> MeasureWarmUp(const EngineOptions& options, model::Model& model,
                             const tier::KvGroups& kv_groups) {
  constexpr double kSecondsMax = 0.5;
  constexpr int kFarPosition = 4096;
  const int smallest = std::min(options.step_tokens_max, 8);
  KVGATE_TRY([[maybe_unused]] const double cold, TimeStep(smallest, 0, model, kv_groups));
  WarmUp step{.num_rows = smallest};
  KVGATE_TRY(step.seconds, TimeStep(smallest, 0, model, kv_groups));
  uint32_t num_blocks = UINT32_MAX;
  for (const auto& group : kv_groups.all()) {
    num_blocks = std::min(num_blocks, group->arena().num_blocks());
  }
  for (const int num_rows : {32, 128}) {
    const double expected = step.seconds / step.num_rows * num_rows;
    const bool fits = num_rows <= options.step_tokens_max &&
                      static_cast<uint32_t>(schedule::BlocksFor(num_rows)) <= num_blocks;
    if (!fits || expected > kSecondsMax) break;
    step.num_rows = num_rows;
    KVGATE_TRY(step.seconds, TimeQuickStep(num_rows, 0, model, kv_groups));
    if (num_rows != kernels::kKvBlockTokens) continue;
    const int far = std::min(kFarPosition, model.config().context_length / 2) /
                    kernels::kKvBlockTokens * kernels::kKvBlockTokens;
    if (far == 0 || step.seconds > kSecondsMax / 4) continue;
    KVGATE_TRY(const double far_seconds, TimeQuickStep(num_rows, far, model, kv_groups));
    step.seconds_per_position = (far_seconds - step.seconds) / num_rows / far;
  }
  if (tier::HostTier* const host = kv_groups.full().host(); host != nullptr) {
    step.host_bytes_per_second = host->MeasureBytesPerSecond();
  }
  return step;
}

Result<tier::KvGroups> OpenGroups(const EngineOptions& options, const EngineInfo& info,
                                  kernels::Backend& backend) {
  std::vector<uint32_t> num_blocks;
  for (const KvGroupInfo& group : info.kv_groups) num_blocks.push_back(group.num_blocks);
  const std::vector<uint64_t> host_bytes =
      kv::SplitHostMemory(options.host_bytes, GroupShapes(info), num_blocks);
  std::vector<tier::KvGroup::Options> groups;
  for (size_t i = 0; i < num_blocks.size(); ++i) {
    groups.push_back({.window = info.kv_groups[i].window,
                      .shape = info.model.kv_shape(options.kv_dtype, i),
                      .num_blocks = num_blocks[i],
                      .host_bytes = {},
                      .owner_blocks_max = OwnerBlocksMax(options, num_blocks[i])});
    if (options.host_bytes > 0) groups.back().host_bytes = host_bytes[i];
  }
  return tier::KvGroups::Open(groups, backend);
}

Error DoesNotFit(const EngineOptions& options, std::string_view refused) {
  return MakeError(
      ErrorCode::kOverloaded, "engine",
      fmt::format("the engine does not start: the system refused {} for it. Beside the model's "
                  "weights it wants engine.kv_memory = {}, cache.host_memory = {} and room for "
                  "steps of {} tokens (engine.step_tokens). Lower these or engine.context, or "
                  "raise the limit of the process (ulimit -v, ulimit -u, a container's)",
                  refused, MebiBytes(options.kv_bytes), MebiBytes(options.host_bytes),
                  options.step_tokens_max));
}

// Throws if the system refuses memory (std::bad_alloc) or threads (std::system_error).
Result<std::unique_ptr<Engine>> OpenOrThrow(const EngineOptions& wanted,
                                            std::unique_ptr<model::Model> model,
                                            kernels::Backend& backend,
                                            const tokenizer::Tokenizer& tokenizer,
                                            const Stores& stores) {
  EngineLoop::Parts parts{.model = std::move(model), .groups = {}, .warm_up = {}};
  EngineInfo info;
  info.model = parts.model->config();
  info.backend = backend.Info();
  info.weight_bytes = parts.model->weight_bytes();
  info.kv_dtype = wanted.kv_dtype;
  // Activations are reserved before the KV pools, which take what is left of a device's memory.
  KVGATE_TRY_VOID(parts.model->Reserve(wanted.step_tokens_max, wanted.sequences_max));
  info.activation_bytes = ActivationBytes(wanted, info.model, backend);
  EngineOptions options = wanted;
  KVGATE_TRY(options.kv_bytes, KvBytes(wanted, info, backend));
  KVGATE_TRY_VOID(SizeGroups(options, info));
  KVGATE_TRY_VOID(CheckContextPolicy(options, info));
  info.context_tokens_max = ContextTokensMax(options, info.model, info.num_kv_blocks);
  info.tenant_tokens_max =
      int64_t{OwnerBlocksMax(options, info.num_kv_blocks)} * kernels::kKvBlockTokens;
  KVGATE_TRY(parts.groups, OpenGroups(options, info, backend));
  KVGATE_TRY(parts.warm_up, MeasureWarmUp(options, *parts.model, parts.groups));
  return std::make_unique<EngineLoop>(options, std::move(info), std::move(parts), backend,
                                      tokenizer, stores);
}

}  // namespace

Error OutOfMemory() noexcept {
  // This detail fits std::string's inline buffer, so it takes no memory.
  Error error{.code = ErrorCode::kOverloaded, .source = "engine", .detail = "out of memory"};
  error.retryable = true;
  try {
    error.detail =
        "the server has no memory left for this request; try again later, or with less in it (its "
        "operator may lower engine.kv_memory, engine.context or cache.host_memory)";
  } catch (const std::bad_alloc&) {
  }
  return error;
}

Result<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options,
                                             std::shared_ptr<const modelfile::ModelFile> file,
                                             kernels::Backend& backend,
                                             const tokenizer::Tokenizer& tokenizer,
                                             const Stores& stores) {
  KVGATE_TRY(
      std::unique_ptr<model::Model> model,
      model::Model::Load(std::move(file), backend,
                         {.context_tokens = options.context_tokens_max, .one_kv_group = false}));
  return Open(options, std::move(model), backend, tokenizer, stores);
}

// Catches what the system refused at start and reports it in terms of the configuration.
Result<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options,
                                             std::unique_ptr<model::Model> model,
                                             kernels::Backend& backend,
                                             const tokenizer::Tokenizer& tokenizer,
                                             const Stores& stores) {
  try {
    return OpenOrThrow(options, std::move(model), backend, tokenizer, stores);
  } catch (const std::bad_alloc&) {
    return DoesNotFit(options, "memory");
  } catch (const std::system_error& failure) {
    return DoesNotFit(options, failure.what());
  }
}

}  // namespace kvgate::engine
