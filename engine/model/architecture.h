// The architectures by the name that files give them: what their keys leave unsaid.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/model/metadata.h"
#include "engine/model/model_config.h"

namespace kvgate::model {

// Which of the layers have a window, where attention.sliding_window gives one.
enum class WindowRule : uint8_t {
  kNever,    // a file with a window is refused
  kAll,      // every layer
  kPattern,  // of window_period layers all but the last
};

enum class ExpertRule : uint8_t { kNever, kOptional, kAlways };

struct Architecture {
  std::string_view name;
  kernels::RopeKind rope_kind = kernels::RopeKind::kHalves;
  float rope_theta = 10000;  // where the file says nothing
  bool qkv_bias = false;     // required; others may have one
  bool output_bias = false;  // likewise
  bool attention_sinks = false;
  QkNorm qk_norm = QkNorm::kNone;
  bool pre_norms = true;
  bool post_norms = false;
  std::string_view ffn_norm = "ffn_norm";
  kernels::GluKind glu = kernels::GluKind::kSilu;
  bool fused_gate_up = false;
  bool scales_embedding = false;  // by the root of the hidden dimension
  bool has_scales = false;        // the four factors of granite, which its files must give
  bool has_softcaps = false;      // else a file that asks for one is refused
  float attention_softcap = 0;    // where the file says nothing
  float logit_softcap = 0;
  // Models of this many layers divide scores by sqrt(hidden_dim / num_heads), not by
  // sqrt(head_dim); the files do not say so.
  int wide_query_layers = 0;
  int rope_skip_period = 0;  // each so-manieth layer has no rope; 0: all have it

  WindowRule window_rule = WindowRule::kNever;
  int window_period = 0;
  int window = 0;                // where the file says nothing
  bool window_required = false;  // it must say something
  // Layers with a window turn by a base of their own, without scaling; 0: as all others;
  // below 0: by the same base, without scaling.
  float window_rope_theta = 0;
  bool yarn_rounds = true;  // yarn's range of dimensions, to whole ones

  ExpertRule experts = ExpertRule::kNever;
  ExpertGating gating = ExpertGating::kSoftmax;
  bool renormalise = false;
  bool shared_expert = false;
  bool shared_gate = false;
  bool expert_biases = false;  // and the router's
  bool ffn_split = false;      // without expert_feed_forward_length: ffn_dim / num_used
};

std::span<const Architecture> Architectures();
// Null for a name we do not know.
const Architecture* FindArchitecture(std::string_view name);
// "llama, qwen2, ...".
std::string ArchitectureNames();

// The windows of all layers; 0: none.
Result<std::vector<int>> ReadWindows(const Metadata& metadata, const Architecture& architecture,
                                     int num_layers, int context_length);

// How all layers turn (ropes) and which of them where (layers[i].rope). REQUIRES: rotary_dim,
// context_length and the layers' windows are set.
Result<void> ReadRopes(const Metadata& metadata, const Architecture& architecture,
                       int context_tokens, ModelConfig& config);

}  // namespace kvgate::model
