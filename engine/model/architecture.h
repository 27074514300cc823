// The architectures by name, with the properties that their files' keys do not state.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/model/model_config.h"
#include "engine/modelfile/metadata.h"

namespace kvgate::model {

// Decides which layers have a window, if attention.sliding_window gives one.
enum class WindowRule : uint8_t {
  kNever,    // a file with a window is refused
  kAll,      // every layer
  kPattern,  // all but the last of each window_period layers
};

enum class ExpertRule : uint8_t { kNever, kOptional, kAlways };

struct Architecture {
  std::string_view name;
  kernels::RopeKind rope_kind = kernels::RopeKind::kHalves;
  float rope_theta = 10000;  // if the file has none
  bool qkv_bias = false;     // required; other architectures may have one
  bool output_bias = false;  // required; other architectures may have one
  bool attention_sinks = false;
  QkNorm qk_norm = QkNorm::kNone;
  bool pre_norms = true;
  bool post_norms = false;
  std::string_view ffn_norm = "ffn_norm";
  kernels::GluKind glu = kernels::GluKind::kSilu;
  bool fused_gate_up = false;
  bool scales_embedding = false;  // by the square root of the hidden dimension
  bool has_scales = false;        // the four factors of granite, which its files must state
  bool has_softcaps = false;      // otherwise a file that asks for one is refused
  float attention_softcap = 0;    // if the file has none
  float logit_softcap = 0;
  // Models with this many layers divide scores by sqrt(hidden_dim / num_heads) instead of
  // sqrt(head_dim); their files do not state it.
  int wide_query_layers = 0;
  int rope_skip_period = 0;  // every layer with this period has no rope; 0 means that all have it

  WindowRule window_rule = WindowRule::kNever;
  int window_period = 0;
  int window = 0;                // in tokens, if the file states none
  bool window_required = false;  // the file must state one
  // Rope base of the layers with a window, without scaling; 0 means the same rope as all others;
  // negative means the same base without scaling.
  float window_rope_theta = 0;
  bool yarn_rounds = true;  // rounds yarn's range of dimensions to whole ones

  // Encoders only make embeddings: layer norms behind each part, weights and biases as BERT has
  // them, and rows that see the whole text.
  bool is_encoder = false;
  bool learned_positions = false;  // and no rope
  bool has_ffn_gate = true;
  bool ffn_bias = false;

  ExpertRule experts = ExpertRule::kNever;
  ExpertGating gating = ExpertGating::kSoftmax;
  bool renormalise = false;
  bool shared_expert = false;
  bool shared_gate = false;
  bool expert_biases = false;  // of the experts and the router
  bool ffn_split = false;  // without expert_feed_forward_length, an expert has ffn_dim / num_used
};

// Those that generate text, and those that only make embeddings.
std::span<const Architecture> Architectures();
std::span<const Architecture> Encoders();
// Returns null for an unknown name.
const Architecture* FindArchitecture(std::string_view name);
// Returns "llama, qwen2, ..." of these.
std::string ArchitectureNames(std::span<const Architecture> architectures = Architectures());

// Returns the windows of all layers; 0 means none.
Result<std::vector<int>> ReadWindows(const modelfile::Metadata& metadata,
                                     const Architecture& architecture, int num_layers,
                                     int context_length);

// Sets the ropes of the model and each layer's index into them (layers[i].rope). REQUIRES:
// rotary_dim, context_length and the layers' windows are set.
Result<void> ReadRopes(const modelfile::Metadata& metadata, const Architecture& architecture,
                       int context_tokens, ModelConfig& config);

}  // namespace kvgate::model
