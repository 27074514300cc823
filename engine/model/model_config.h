// ModelConfig: what tells one transformer from another, as data. The forward function reads it and
// knows no architecture by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/model/model_file.h"
#include "kernels/backend.h"
#include "kernels/expert_routing.h"

namespace kvgate::model {

// Layers whose KV lives and dies together: they have an arena and block tables of their own.
struct KvGroup {
  // A layer of this group reads the last `window` positions, its own included; what lies before
  // them need not be kept. 0: all positions.
  int window = 0;
  int num_layers = 0;
};

// One way of turning queries and keys. A model has one, or two where layers differ.
struct RopeConfig {
  std::vector<float> inv_freq;  // [rotary_dim / 2]: radians per position, scaling included
  float magnitude = 1;          // of cosine and sine: the attention factor of yarn and longrope
};

struct LayerConfig {
  int window = 0;    // positions that a row sees, its own included; 0: all before it
  int rope = 0;      // index into ModelConfig::ropes; -1: positions are not encoded here
  int kv_group = 0;  // index into ModelConfig::kv_groups,
  int kv_layer = 0;  // and the layer's own in the group's arenas
};

// Norms of queries and keys before they are turned.
enum class QkNorm : uint8_t {
  kNone,
  kHead,        // over each head, with one weight for all heads
  kProjection,  // over all heads together
};

using kernels::ExpertGating;

// The feed-forward part of a mixture of experts; num_experts 0: there is none.
struct ExpertConfig {
  int num_experts = 0;
  int num_used = 0;          // by a token: those with the highest logits
  int ffn_dim = 0;           // of one expert
  int shared_dim = 0;        // of the expert that all tokens take; 0: none
  bool shared_gate = false;  // the shared expert's output times sigmoid(router_shared(x))
  ExpertGating gating = ExpertGating::kSoftmax;
  bool renormalise = false;  // shares are divided by their sum
  float share_scale = 1;     // and multiplied by this
  bool router_bias = false;
  bool biases = false;           // of the experts' own products
  bool one_tensor_each = false;  // blk.N.ffn_gate.E.weight, not one tensor of all experts

  kernels::ExpertRule rule() const {
    return {.num_experts = num_experts,
            .num_used = num_used,
            .gating = gating,
            .renormalise = renormalise,
            .share_scale = share_scale};
  }
};

struct ModelConfig {
  std::string architecture;  // "llama", "qwen2"
  std::string name;          // general.name, may be empty
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int hidden_dim = 0;
  int ffn_dim = 0;  // of the feed-forward part; 0 where all layers are mixtures of experts
  int vocab_size = 0;
  int context_length = 0;  // the model's own maximum, in tokens
  float norm_eps = 0;
  int rotary_dim = 0;
  kernels::RopeKind rope_kind = kernels::RopeKind::kInterleaved;
  bool tied_embeddings = false;

  // Each part of a layer is x += residual_scale * post_norm(part(pre_norm(x))).
  bool pre_norms = true;
  bool post_norms = false;
  float embedding_scale = 1;
  float residual_scale = 1;
  float logit_scale = 1;
  float logit_softcap = 0;  // as AttentionShape::softcap; 0: none

  bool qkv_bias = false;
  bool output_bias = false;    // of attn_output
  bool fused_qkv = false;      // attn_qkv holds the rows of attn_q, attn_k and attn_v
  bool fused_gate_up = false;  // ffn_up holds the rows of ffn_gate and then its own
  bool attention_sinks = false;
  QkNorm qk_norm = QkNorm::kNone;
  float attention_scale = 0;
  float attention_softcap = 0;  // 0: none
  // Of the tensor whose norm comes before the feed-forward part.
  std::string ffn_norm_name = "ffn_norm";
  kernels::GluKind glu = kernels::GluKind::kSilu;
  ExpertConfig experts;

  std::vector<RopeConfig> ropes;
  std::vector<LayerConfig> layers;  // [num_layers]
  // The first is of the layers without a window, and of all layers where each has one: its blocks
  // are kept from position 0 on. Then one for each size of window.
  std::vector<KvGroup> kv_groups;

  kernels::KvShape kv_shape(kernels::DType dtype, size_t group = 0) const {
    return {.num_layers = kv_groups[group].num_layers,
            .num_kv_heads = num_kv_heads,
            .head_dim = head_dim,
            .dtype = dtype};
  }
};

struct ConfigOptions {
  // Tokens that a sequence may have; 0: the model's own context. What is scaled by it (longrope's
  // factors) is decided once, for all sequences.
  int context_tokens = 0;
  // All layers in one KV group, windows or not.
  bool one_kv_group = false;
};

// kUnsupported: unknown architecture (detail lists those we have) or a feature we lack; kDataLoss:
// a key is missing or senseless.
Result<ModelConfig> ReadModelConfig(const ModelFile& file, const ConfigOptions& options = {});

// Sets kv_groups and the layers' places in them, by the layers' windows.
void GroupLayers(ModelConfig& config, bool one_kv_group);

}  // namespace kvgate::model
