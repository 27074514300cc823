#include "engine/model/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/model/architecture.h"
#include "kernels/backend.h"

namespace kvgate::model {
namespace {

constexpr std::string_view kSource = "model";

// From the models' own config files; parameter counts are those of their weights.
const std::vector<CapacityShape>& Table() {
  using std::string;
  static const std::vector<CapacityShape> shapes = {
      // name, parameters, layers, heads, KV heads, head_dim, hidden, ffn, vocabulary, context,
      // window layers, window, experts, experts used
      {"falcon-7b", 7'217'189'760, 32, 71, 1, 64, 4544, 18176, 65024, 2048, 0, 0},
      {"gemma-2-27b", 27'227'128'320, 46, 32, 16, 128, 4608, 36864, 256000, 8192, 23, 4096},
      {"gemma-2-2b", 2'614'341'888, 26, 8, 4, 256, 2304, 9216, 256000, 8192, 13, 4096},
      {"gemma-2-9b", 9'241'705'984, 42, 16, 8, 256, 3584, 14336, 256000, 8192, 21, 4096},
      {"gemma-3-1b", 999'885'952, 26, 4, 1, 256, 1152, 6912, 262144, 32768, 22, 512},
      {"gpt-2", 124'439'808, 12, 12, 12, 64, 768, 3072, 50257, 1024, 0, 0},
      {"gpt-3", 174'600'000'000, 96, 96, 96, 128, 12288, 49152, 50257, 2048, 0, 0},
      {"gpt-oss-20b", 20'914'757'184, 24, 64, 8, 64, 2880, 2880, 201088, 131072, 12, 128, 32, 4},
      {"llama-2-13b", 13'015'864'320, 40, 40, 40, 128, 5120, 13824, 32000, 4096, 0, 0},
      {"llama-2-70b", 68'976'648'192, 80, 64, 8, 128, 8192, 28672, 32000, 4096, 0, 0},
      {"llama-2-7b", 6'738'415'616, 32, 32, 32, 128, 4096, 11008, 32000, 4096, 0, 0},
      {"llama-3-8b", 8'030'261'248, 32, 32, 8, 128, 4096, 14336, 128256, 8192, 0, 0},
      {"llama-3.1-405b", 405'853'388'800, 126, 128, 8, 128, 16384, 53248, 128256, 131072, 0, 0},
      {"llama-3.1-70b", 70'553'706'496, 80, 64, 8, 128, 8192, 28672, 128256, 131072, 0, 0},
      {"llama-3.1-8b", 8'030'261'248, 32, 32, 8, 128, 4096, 14336, 128256, 131072, 0, 0},
      {"llama-3.2-1b", 1'235'814'400, 16, 32, 8, 64, 2048, 8192, 128256, 131072, 0, 0},
      {"llama-3.2-3b", 3'212'749'824, 28, 24, 8, 128, 3072, 8192, 128256, 131072, 0, 0},
      {"mistral-7b", 7'241'732'096, 32, 32, 8, 128, 4096, 14336, 32000, 32768, 0, 0},
      {"mixtral-8x7b", 46'702'792'704, 32, 32, 8, 128, 4096, 14336, 32000, 32768, 0, 0, 8, 2},
      {"phi-3-mini", 3'821'079'552, 32, 32, 32, 96, 3072, 8192, 32064, 4096, 0, 0},
      {"qwen2.5-0.5b", 494'032'768, 24, 14, 2, 64, 896, 4864, 151936, 32768, 0, 0},
      {"qwen2.5-72b", 72'706'203'648, 80, 64, 8, 128, 8192, 29568, 152064, 32768, 0, 0},
      {"qwen2.5-7b", 7'615'616'512, 28, 28, 4, 128, 3584, 18944, 152064, 32768, 0, 0},
      {"qwen3-0.6b", 596'049'920, 28, 16, 8, 128, 1024, 3072, 151936, 40960, 0, 0},
      {"qwen3-30b-a3b", 30'532'122'624, 48, 32, 4, 128, 2048, 768, 151936, 40960, 0, 0, 128, 8},
      {"qwen3-32b", 32'762'123'264, 64, 64, 8, 128, 5120, 25600, 151936, 40960, 0, 0},
      {"qwen3-8b", 8'190'735'360, 36, 32, 8, 128, 4096, 12288, 151936, 40960, 0, 0},
      {"smollm2-135m", 134'515'008, 30, 9, 3, 64, 576, 1536, 49152, 8192, 0, 0},
  };
  return shapes;
}

// Multiplies and adds, and records if 64 bits were exceeded.
class Bytes {
 public:
  uint64_t Product(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    overflows_ |= __builtin_mul_overflow(a, b, &product);
    return product;
  }
  uint64_t Sum(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    overflows_ |= __builtin_add_overflow(a, b, &sum);
    return sum;
  }
  bool overflows() const { return overflows_; }

 private:
  bool overflows_ = false;
};

Error Invalid(std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(detail));
}

Result<void> Check(const CapacityShape& shape, const CapacityRequest& request) {
  if (request.context_tokens < 1) {
    return Invalid(fmt::format("context {} is below 1", request.context_tokens));
  }
  if (request.num_sequences < 1) {
    return Invalid(fmt::format("sequences {} is below 1", request.num_sequences));
  }
  const int elements = kernels::DTypeElements(request.kv_dtype);
  if (shape.head_dim % elements != 0) {
    return Invalid(fmt::format("kv-dtype {} needs heads of a multiple of {} dimensions; {} has {}",
                               kernels::DTypeName(request.kv_dtype), elements, shape.name,
                               shape.head_dim));
  }
  return {};
}

// Reads windows and experts, if the architecture is a supported one.
Result<void> ReadKnownParts(const modelfile::ModelFile& file, const std::string& name,
                            CapacityShape& shape) {
  const Architecture* architecture = FindArchitecture(name);
  if (architecture == nullptr) return {};
  const modelfile::Metadata metadata(file, name);
  ModelConfig config;
  KVGATE_TRY(const std::vector<int> windows,
             ReadWindows(metadata, *architecture, shape.num_layers, shape.context_length));
  for (const int window : windows) config.layers.push_back({.window = window});
  GroupLayers(config, false);
  if (config.kv_groups.size() > 1) {
    shape.num_window_layers = config.kv_groups[1].num_layers;
    shape.window_tokens = config.kv_groups[1].window;
  }
  constexpr int kCountMax = 1 << 28;
  if (architecture->experts == ExpertRule::kNever) return {};
  KVGATE_TRY(shape.num_experts, metadata.CountOrZero("expert_count", kCountMax));
  if (shape.num_experts == 0) return {};
  KVGATE_TRY(shape.num_experts_used, metadata.Count("expert_used_count", shape.num_experts));
  KVGATE_TRY(shape.ffn_dim, metadata.Count("expert_feed_forward_length", kCountMax, shape.ffn_dim));
  if (!architecture->shared_expert) return {};
  KVGATE_TRY(shape.shared_expert_dim,
             metadata.CountOrZero("expert_shared_feed_forward_length", kCountMax));
  return {};
}

Result<int> ReadCount(const modelfile::ModelFile& file, const std::string& key) {
  constexpr int64_t kCountMax = 1 << 28;
  const Result<int64_t> value = file.GetInteger(key);
  if (!value && value.error().code != ErrorCode::kNotFound) {
    // Some architectures have an array here, with one number per layer.
    return MakeError(ErrorCode::kUnsupported, kSource,
                     fmt::format("metadata '{}' is no single number: layers differ in width", key));
  }
  if (!value) {
    return MakeError(ErrorCode::kDataLoss, kSource, fmt::format("metadata '{}' is missing", key));
  }
  if (*value < 1 || *value > kCountMax) {
    return MakeError(ErrorCode::kDataLoss, kSource,
                     fmt::format("metadata '{}' is {}, not in 1 to {}", key, *value, kCountMax));
  }
  return static_cast<int>(*value);
}

}  // namespace

std::span<const CapacityShape> KnownShapes() { return Table(); }

const CapacityShape* FindKnownShape(std::string_view name) {
  const auto& shapes = Table();
  const auto at = std::find_if(shapes.begin(), shapes.end(),
                               [&](const CapacityShape& shape) { return shape.name == name; });
  return at == shapes.end() ? nullptr : &*at;
}

Result<CapacityShape> ReadCapacityShape(const modelfile::ModelFile& file) {
  KVGATE_TRY(const std::string architecture, file.GetString("general.architecture"));
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", architecture, name); };
  CapacityShape shape;
  shape.name = architecture;
  if (file.Find("general.name") != nullptr) {
    KVGATE_TRY(shape.name, file.GetString("general.name"));
  }
  KVGATE_TRY(shape.num_layers, ReadCount(file, key("block_count")));
  KVGATE_TRY(shape.num_heads, ReadCount(file, key("attention.head_count")));
  KVGATE_TRY(shape.hidden_dim, ReadCount(file, key("embedding_length")));
  // A mixture of experts may have its length under another key, which ReadKnownParts reads.
  if (file.Find(key("feed_forward_length")) != nullptr ||
      file.Find(key("expert_feed_forward_length")) == nullptr) {
    KVGATE_TRY(shape.ffn_dim, ReadCount(file, key("feed_forward_length")));
  }
  KVGATE_TRY(shape.context_length, ReadCount(file, key("context_length")));
  shape.num_kv_heads = shape.num_heads;
  if (file.Find(key("attention.head_count_kv")) != nullptr) {
    KVGATE_TRY(shape.num_kv_heads, ReadCount(file, key("attention.head_count_kv")));
  }
  shape.head_dim = shape.hidden_dim / shape.num_heads;
  if (file.Find(key("attention.key_length")) != nullptr) {
    KVGATE_TRY(shape.head_dim, ReadCount(file, key("attention.key_length")));
  }
  if (shape.head_dim < 1) {
    return MakeError(
        ErrorCode::kDataLoss, kSource,
        fmt::format("metadata '{}' is below the number of heads", key("embedding_length")));
  }
  if (const modelfile::GgufTensor* table = file.FindTensor("token_embd.weight");
      table != nullptr && table->dimensions.size() == 2) {
    shape.vocab_size = static_cast<int>(std::min<int64_t>(table->dimensions[1], 1 << 28));
  }
  for (const modelfile::GgufTensor& tensor : file.tensors()) {
    uint64_t elements = 1;
    for (const int64_t dimension : tensor.dimensions) elements *= static_cast<uint64_t>(dimension);
    shape.num_parameters += elements;
  }
  KVGATE_TRY_VOID(ReadKnownParts(file, architecture, shape));
  return shape;
}

uint64_t DeviceReserveBytes(uint64_t bytes_free) {
  // At most a sixteenth, so that a small device keeps room for KV.
  return std::min(uint64_t{512} << 20, bytes_free / 16);
}

uint64_t DevicePoolBytes(uint64_t bytes_free) {
  return (bytes_free - DeviceReserveBytes(bytes_free)) / 10 * 9;
}

uint64_t ProgramBytes(int vocab_size) {
  // Resident after a request, release build, less weights, KV and activations: 36.7 MiB with 1,024
  // entries, 41 MiB with 32,000, 77 to 83 MiB with 151,936 (Debian 12, x86-64, 2026-11).
  constexpr uint64_t kProgram = uint64_t{37} << 20;
  constexpr uint64_t kEntry = 280;
  return kProgram + kEntry * static_cast<uint64_t>(vocab_size);
}

Result<Capacity> ComputeCapacity(const CapacityShape& shape, const CapacityRequest& request) {
  KVGATE_TRY_VOID(Check(shape, request));
  Bytes bytes;
  Capacity capacity;
  const uint64_t head_bytes =
      kernels::DTypeBytes(request.kv_dtype, static_cast<size_t>(shape.head_dim));
  const uint64_t layer_bytes =
      bytes.Product(bytes.Product(2, static_cast<uint64_t>(shape.num_kv_heads)), head_bytes);
  capacity.kv_token_bytes = bytes.Product(layer_bytes, static_cast<uint64_t>(shape.num_layers));
  const auto round_up = [](int tokens) {
    const uint64_t block = kernels::kKvBlockTokens;
    return (static_cast<uint64_t>(tokens) + block - 1) / block * block;
  };
  const uint64_t context = round_up(request.context_tokens);
  const uint64_t window = std::min(context, round_up(shape.window_tokens));
  const uint64_t num_global = static_cast<uint64_t>(shape.num_layers - shape.num_window_layers);
  const uint64_t layer_tokens =
      num_global * context + static_cast<uint64_t>(shape.num_window_layers) * window;
  capacity.sequence_bytes = bytes.Product(layer_bytes, layer_tokens);
  capacity.peak_kv_bytes =
      bytes.Product(capacity.sequence_bytes, static_cast<uint64_t>(request.num_sequences));
  capacity.weight_bytes = request.weight_bytes;
  if (capacity.weight_bytes == 0) {
    const uint64_t unit = static_cast<uint64_t>(kernels::DTypeElements(request.weight_dtype));
    capacity.weight_bytes =
        bytes.Product((shape.num_parameters + unit - 1) / unit,
                      kernels::DTypeBytes(request.weight_dtype, static_cast<size_t>(unit)));
  }
  ModelConfig config;
  config.num_heads = shape.num_heads;
  config.num_kv_heads = shape.num_kv_heads;
  config.head_dim = config.rotary_dim = shape.head_dim;
  config.hidden_dim = shape.hidden_dim;
  config.ffn_dim = shape.ffn_dim;
  config.vocab_size = shape.vocab_size;
  config.ropes.resize(1);
  config.experts = {.num_experts = shape.num_experts,
                    .num_used = shape.num_experts_used,
                    .ffn_dim = shape.ffn_dim,
                    .shared_dim = shape.shared_expert_dim};
  const ActivationFloats floats = CountActivations(config, request.is_device);
  capacity.overhead_bytes = bytes.Product(
      sizeof(float),
      bytes.Sum(
          floats.fixed,
          bytes.Sum(
              bytes.Product(floats.per_token, static_cast<uint64_t>(request.step_tokens)),
              bytes.Product(floats.per_logit_row, static_cast<uint64_t>(request.num_sequences)))));
  if (!request.is_device) {
    capacity.program_bytes = ProgramBytes(shape.vocab_size);
    capacity.overhead_bytes = bytes.Sum(capacity.overhead_bytes, capacity.program_bytes);
  }
  const uint64_t fixed = bytes.Sum(capacity.weight_bytes, capacity.overhead_bytes);
  capacity.total_bytes = bytes.Sum(fixed, capacity.peak_kv_bytes);
  if (bytes.overflows()) return Invalid("that is more memory than 64 bits count");
  if (request.memory_bytes > fixed) {
    const uint64_t left = request.memory_bytes - fixed;
    capacity.kv_room_bytes = request.is_device ? DevicePoolBytes(left) : left;
    capacity.sequences_fit = capacity.kv_room_bytes / capacity.sequence_bytes;
  }
  return capacity;
}

}  // namespace kvgate::model
