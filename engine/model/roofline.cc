#include "engine/model/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/backend.h"
#include "kernels/dtype.h"

namespace kvgate::model {
namespace {

constexpr std::string_view kSource = "model";
constexpr uint64_t kGiB = uint64_t{1} << 30;

// From the makers' data sheets, as of November 2026: dense products of 16-bit floats.
constexpr std::array<MachineSpeed, 12> kMachines = {{
    {"a100-40gb", 312e12, 1.555e12, 40 * kGiB},
    {"a100-80gb", 312e12, 2.039e12, 80 * kGiB},
    {"b200", 2250e12, 8.0e12, 180 * kGiB},
    {"h100-nvl", 835e12, 3.9e12, 94 * kGiB},
    {"h100-sxm", 989e12, 3.35e12, 80 * kGiB},
    {"h200", 989e12, 4.8e12, 140 * kGiB},
    {"l4", 121e12, 0.3e12, 24 * kGiB},
    {"l40s", 362e12, 0.864e12, 48 * kGiB},
    {"mi300x", 1307e12, 5.3e12, 192 * kGiB},
    {"rtx-3090", 71e12, 0.936e12, 24 * kGiB},
    {"rtx-4090", 165e12, 1.008e12, 24 * kGiB},
    {"rtx-5090", 209e12, 1.792e12, 32 * kGiB},
}};

// A step's tokens at one place of their sequence, and what they cost.
struct Step {
  double tokens = 0;     // of all sequences together
  double looked_at = 0;  // tokens in front of each of them, itself included, on average
  double num_sequences = 1;
};

class Roof {
 public:
  Roof(const CapacityShape& shape, const CapacityRequest& capacity, const MachineSpeed& machine)
      : shape_(shape), machine_(machine), use_(CountParameterUse(shape)) {
    const double weights = static_cast<double>(
        capacity.weight_bytes > 0 ? capacity.weight_bytes : WeightBytes(shape, capacity));
    const double parameters = shape.num_parameters > 0 ? static_cast<double>(shape.num_parameters)
                                                       : use_.always + use_.experts;
    bytes_per_parameter_ = parameters > 0 ? weights / parameters : 0;
    const auto head_bytes = static_cast<double>(
        kernels::DTypeBytes(capacity.kv_dtype, static_cast<size_t>(shape.head_dim)));
    layer_token_bytes_ = 2 * head_bytes * shape.num_kv_heads;
  }

  double Operations(const Step& step) const {
    const double attention = 4.0 * shape_.num_heads * shape_.head_dim * LayerTokens(step.looked_at);
    return step.tokens * (2 * use_.per_token + attention);
  }

  double Bytes(const Step& step) const {
    // An expert is read once, if any token has chosen it.
    const double missed =
        shape_.num_experts > 0
            ? std::pow(1 - static_cast<double>(shape_.num_experts_used) / shape_.num_experts,
                       step.tokens)
            : 0;
    const double weights = (use_.always + use_.experts * (1 - missed)) * bytes_per_parameter_;
    return weights + step.num_sequences * layer_token_bytes_ * LayerTokens(step.looked_at);
  }

  double Seconds(const Step& step) const {
    return std::max(Operations(step) / machine_.operations_per_second,
                    Bytes(step) / machine_.bytes_per_second);
  }
  bool IsByMemory(const Step& step) const {
    return Bytes(step) / machine_.bytes_per_second >
           Operations(step) / machine_.operations_per_second;
  }

 private:
  static uint64_t WeightBytes(const CapacityShape& shape, const CapacityRequest& capacity) {
    const auto unit = static_cast<uint64_t>(kernels::DTypeElements(capacity.weight_dtype));
    return (shape.num_parameters + unit - 1) / unit *
           kernels::DTypeBytes(capacity.weight_dtype, static_cast<size_t>(unit));
  }

  // Tokens that all layers look at together: those of a window see no more than it.
  double LayerTokens(double tokens) const {
    const double windowed = shape_.num_window_layers;
    return (shape_.num_layers - windowed) * tokens +
           windowed * std::min<double>(tokens, shape_.window_tokens);
  }

  const CapacityShape& shape_;
  const MachineSpeed& machine_;
  const ParameterUse use_;
  double bytes_per_parameter_ = 0;
  double layer_token_bytes_ = 0;
};

Error Invalid(std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(detail));
}

}  // namespace

std::span<const MachineSpeed> KnownMachines() { return kMachines; }

const MachineSpeed* FindKnownMachine(std::string_view name) {
  const auto at = std::find_if(kMachines.begin(), kMachines.end(),
                               [&](const MachineSpeed& machine) { return machine.name == name; });
  return at == kMachines.end() ? nullptr : &*at;
}

ParameterUse CountParameterUse(const CapacityShape& shape) {
  const double hidden = shape.hidden_dim;
  const double heads = static_cast<double>(shape.num_heads) * shape.head_dim;
  const double kv_heads = static_cast<double>(shape.num_kv_heads) * shape.head_dim;
  const double layers = shape.num_layers;
  const double table = hidden * shape.vocab_size;
  const double attention = layers * (2 * hidden * heads + 2 * hidden * kv_heads);
  const bool has_experts = shape.num_experts > 0;
  const auto feed_forward = [&](double matrices) {
    return layers * matrices * hidden * shape.ffn_dim * (has_experts ? shape.num_experts : 1);
  };
  const double shared = layers * 3 * hidden * shape.shared_expert_dim;
  // Older models have two matrices in a layer's feed-forward part, newer ones a gate beside them;
  // the embedding table is stored once or twice. The count of all parameters tells which.
  double matrices = 3;
  double closest = std::numeric_limits<double>::infinity();
  for (const double tried : {3.0, 2.0}) {
    for (const double tables : {1.0, 2.0}) {
      const double off = std::abs(attention + feed_forward(tried) + shared + tables * table -
                                  static_cast<double>(shape.num_parameters));
      if (shape.num_parameters == 0 || off >= closest) continue;
      closest = off;
      matrices = tried;
    }
  }
  const double layers_all = attention + feed_forward(matrices) + shared;
  // The output matrix is the embedding table where that is not stored twice.
  ParameterUse use;
  use.experts = has_experts ? feed_forward(matrices) : 0;
  use.always = layers_all - use.experts + table;
  use.per_token = use.always;
  if (has_experts) use.per_token += use.experts * shape.num_experts_used / shape.num_experts;
  return use;
}

Result<Speed> PredictSpeed(const CapacityShape& shape, const CapacityRequest& capacity,
                           const SpeedRequest& request, const MachineSpeed& machine) {
  if (request.prompt_tokens < 1 || request.output_tokens < 1 || capacity.num_sequences < 1 ||
      capacity.step_tokens < 1) {
    return Invalid("prompt, output, sequences and step must be 1 token or more");
  }
  if (!(machine.operations_per_second > 0) || !(machine.bytes_per_second > 0)) {
    return Invalid("the machine's speeds must be above 0");
  }
  const Roof roof(shape, capacity, machine);
  Speed speed;
  double by_memory_seconds = 0;
  for (int done = 0; done < request.prompt_tokens;) {
    const int tokens = std::min(capacity.step_tokens, request.prompt_tokens - done);
    const Step step = {.tokens = static_cast<double>(tokens),
                       .looked_at = done + (tokens + 1) / 2.0};
    const double seconds = roof.Seconds(step);
    speed.cold_ttft_seconds += seconds;
    if (roof.IsByMemory(step)) by_memory_seconds += seconds;
    done += tokens;
  }
  speed.prefill_is_by_memory = by_memory_seconds > speed.cold_ttft_seconds / 2;
  const int rest = std::min(request.prompt_tokens, kernels::kKvBlockTokens);
  speed.warm_ttft_seconds = roof.Seconds(
      {.tokens = static_cast<double>(rest), .looked_at = request.prompt_tokens - (rest - 1) / 2.0});
  const double together = capacity.num_sequences;
  const Step decode = {.tokens = together,
                       .looked_at = request.prompt_tokens + request.output_tokens / 2.0,
                       .num_sequences = together};
  speed.tpot_seconds = roof.Seconds(decode);
  speed.tokens_per_second = together / speed.tpot_seconds;
  speed.decode_is_by_memory = roof.IsByMemory(decode);
  return speed;
}

}  // namespace kvgate::model
