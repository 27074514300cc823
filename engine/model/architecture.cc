#include "engine/model/architecture.h"

#include <fmt/format.h>

#include <array>

namespace kvgate::model {

using modelfile::Metadata;

namespace {

using kernels::GluKind;
using kernels::RopeKind;

// GGUF files of these architectures hold q and k permuted, so that the pairs of rope are
// neighbours.
constexpr auto kNeighbours = RopeKind::kInterleaved;

constexpr std::array<Architecture, 15> kArchitectures = {{
    {.name = "llama",
     .rope_kind = kNeighbours,
     .window_rule = WindowRule::kAll,
     .experts = ExpertRule::kOptional,
     .renormalise = true},
    {.name = "qwen2", .qkv_bias = true},
    {.name = "qwen3", .qk_norm = QkNorm::kHead},
    {.name = "gemma", .glu = GluKind::kGeluTanh, .scales_embedding = true},
    {.name = "gemma2",
     .post_norms = true,
     .glu = GluKind::kGeluTanh,
     .scales_embedding = true,
     .has_softcaps = true,
     .attention_softcap = 50,
     .logit_softcap = 30,
     .wide_query_layers = 46,
     .window_rule = WindowRule::kPattern,
     .window_period = 2,
     .window = 4096},
    {.name = "gemma3",
     .rope_theta = 1e6f,
     .qk_norm = QkNorm::kHead,
     .post_norms = true,
     .glu = GluKind::kGeluTanh,
     .scales_embedding = true,
     .has_softcaps = true,
     .wide_query_layers = 62,
     .window_rule = WindowRule::kPattern,
     .window_period = 6,
     .window_required = true,
     .window_rope_theta = 10000},
    {.name = "phi3", .fused_gate_up = true, .window_rule = WindowRule::kAll},
    {.name = "smollm3", .rope_kind = kNeighbours, .rope_skip_period = 4},
    {.name = "olmo2",
     .qk_norm = QkNorm::kProjection,
     .pre_norms = false,
     .post_norms = true,
     .window_rule = WindowRule::kPattern,
     .window_period = 4,
     .window_rope_theta = -1},
    {.name = "olmoe", .qk_norm = QkNorm::kProjection, .experts = ExpertRule::kAlways},
    {.name = "granite", .rope_kind = kNeighbours, .has_scales = true},
    {.name = "granitemoe",
     .rope_kind = kNeighbours,
     .has_scales = true,
     .experts = ExpertRule::kAlways,
     .gating = ExpertGating::kSoftmaxOfSelected,
     .shared_expert = true},
    {.name = "qwen2moe",
     .qkv_bias = true,
     .experts = ExpertRule::kAlways,
     .shared_expert = true,
     .shared_gate = true,
     .ffn_split = true},
    {.name = "qwen3moe",
     .qk_norm = QkNorm::kHead,
     .experts = ExpertRule::kAlways,
     .renormalise = true,
     .ffn_split = true},
    {.name = "gpt-oss",
     .qkv_bias = true,
     .output_bias = true,
     .attention_sinks = true,
     .ffn_norm = "post_attention_norm",
     .glu = GluKind::kClampedSilu,
     .window_rule = WindowRule::kPattern,
     .window_period = 2,
     .window_required = true,
     .yarn_rounds = false,
     .experts = ExpertRule::kAlways,
     .gating = ExpertGating::kSoftmaxOfSelected,
     .expert_biases = true},
}};

// BERT's activation is the exact gelu, as its authors' and torch's; other users of the format take
// the tanh approximation, which differs by up to 5e-4.
constexpr std::array<Architecture, 2> kEncoders = {{
    {.name = "bert",
     .qkv_bias = true,
     .output_bias = true,
     .pre_norms = false,
     .glu = GluKind::kGelu,
     .is_encoder = true,
     .learned_positions = true,
     .has_ffn_gate = false,
     .ffn_bias = true},
    {.name = "nomic-bert", .pre_norms = false, .is_encoder = true},
}};

// Returns the window of older phi3 files, which have no key for it; 0 if the shape is unknown.
int OldPhi3Window(const Metadata& metadata, int num_layers, int context_length) {
  const bool is_mini = num_layers == 32;
  if (!is_mini && num_layers != 40) return 0;
  if (context_length == 4096) return 2047;
  if (context_length != 131072) return 0;
  const Result<int64_t> kv_heads =
      metadata.file().GetInteger(metadata.Key("attention.head_count_kv"));
  if (is_mini && kv_heads && *kv_heads != 32) return 0;
  return is_mini ? 262144 : 131072;
}

Result<int> ReadWindow(const Metadata& metadata, const Architecture& architecture, int num_layers,
                       int context_length) {
  constexpr int kWindowMax = 1 << 28;
  constexpr std::string_view kName = "attention.sliding_window";
  if (metadata.Has(kName)) return metadata.CountOrZero(kName, kWindowMax);
  if (architecture.name == "phi3") {
    const int window = OldPhi3Window(metadata, num_layers, context_length);
    if (window > 0) return window;
  }
  if (architecture.window_required || architecture.name == "phi3") {
    return modelfile::ModelDataLoss(fmt::format("metadata '{}' is missing", metadata.Key(kName)));
  }
  return architecture.window;
}

// Returns which layers have the window: the key holds a period or an array with one flag per layer.
Result<std::vector<bool>> ReadPattern(const Metadata& metadata, const Architecture& architecture,
                                      int num_layers) {
  constexpr std::string_view kName = "attention.sliding_window_pattern";
  int period = architecture.window_rule == WindowRule::kAll ? 0 : architecture.window_period;
  const std::string key = metadata.Key(kName);
  if (const modelfile::GgufValue* value = metadata.file().Find(key); value != nullptr) {
    const auto* array = std::get_if<std::shared_ptr<const modelfile::GgufArray>>(value);
    if (array == nullptr) {
      KVGATE_TRY(period, metadata.Count(kName, 1 << 12));
    } else {
      const auto* flags = std::get_if<std::vector<bool>>(&(*array)->values);
      if (flags == nullptr || std::ssize(*flags) != num_layers) {
        return modelfile::ModelDataLoss(
            fmt::format("metadata '{}' is no array of {} booleans", key, num_layers));
      }
      return *flags;
    }
  }
  std::vector<bool> pattern;
  for (int i = 0; i < num_layers; ++i) {
    pattern.push_back(period == 0 || i % period < period - 1);
  }
  return pattern;
}

}  // namespace

std::span<const Architecture> Architectures() { return kArchitectures; }

std::span<const Architecture> Encoders() { return kEncoders; }

const Architecture* FindArchitecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  for (const Architecture& architecture : kEncoders) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

std::string ArchitectureNames(std::span<const Architecture> architectures) {
  std::string names;
  for (const Architecture& architecture : architectures) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", architecture.name);
  }
  return names;
}

Result<std::vector<int>> ReadWindows(const Metadata& metadata, const Architecture& architecture,
                                     int num_layers, int context_length) {
  std::vector<int> windows(static_cast<size_t>(num_layers), 0);
  if (architecture.window_rule == WindowRule::kNever) {
    KVGATE_TRY_VOID(metadata.OnlyNeutral("attention.sliding_window", 0));
    return windows;
  }
  KVGATE_TRY(const int window, ReadWindow(metadata, architecture, num_layers, context_length));
  KVGATE_TRY(const std::vector<bool> pattern, ReadPattern(metadata, architecture, num_layers));
  for (size_t i = 0; i < windows.size(); ++i) {
    if (pattern[i]) windows[i] = window;
  }
  return windows;
}

}  // namespace kvgate::model
