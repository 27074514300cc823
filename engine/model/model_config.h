// ModelConfig: describes a transformer as data. The forward function reads it and knows no
// architecture by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/modelfile/model_file.h"
#include "kernels/backend.h"
#include "kernels/expert_routing.h"

namespace kvgate::model {

// Layers that share an arena and block tables, so their KV is kept and dropped together.
struct KvGroup {
  // In tokens: a layer of this group reads the last `window` positions, its own included, so the KV
  // before them need not be kept. 0 means all positions.
  int window = 0;
  int num_layers = 0;
};

// The rotation of queries and keys. A model has one, or two if its layers differ.
struct RopeConfig {
  std::vector<float> inv_freq;  // [rotary_dim / 2]: radians per position, scaling included
  float magnitude = 1;  // factor of cosine and sine: the attention factor of yarn and longrope
};

struct LayerConfig {
  int window = 0;    // positions that a row sees, its own included; 0 means all up to its own
  int rope = 0;      // index into ModelConfig::ropes; -1 means no position encoding
  int kv_group = 0;  // index into ModelConfig::kv_groups,
  int kv_layer = 0;  // and the layer's index in that group's arena
};

// Normalisation of queries and keys before rope is applied.
enum class QkNorm : uint8_t {
  kNone,
  kHead,        // over each head, with one weight for all heads
  kProjection,  // over all heads together
};

using kernels::ExpertGating;

// What a model is loaded for: a file that states a pooling makes embeddings.
enum class Purpose : uint8_t {
  kText,        // logits of next tokens
  kEmbeddings,  // one vector for each text
};

// How the rows of a text become one vector.
enum class Pooling : uint8_t {
  kMean,   // the mean of all rows
  kFirst,  // the first row: [CLS] of BERT
  kLast,   // the last row
};

// The feed-forward part of a mixture of experts; num_experts is 0 if there is none.
struct ExpertConfig {
  int num_experts = 0;
  int num_used = 0;          // experts per token: those with the highest logits
  int ffn_dim = 0;           // of one expert
  int shared_dim = 0;        // of the shared expert, which all tokens use; 0 means none
  bool shared_gate = false;  // the shared expert's output times sigmoid(router_shared(x))
  ExpertGating gating = ExpertGating::kSoftmax;
  bool renormalise = false;  // the shares are divided by their sum
  float share_scale = 1;     // and multiplied by this
  bool router_bias = false;
  bool biases = false;  // of the experts' matrix products
  // Names are blk.N.ffn_gate.E.weight, instead of one tensor for all experts.
  bool one_tensor_each = false;

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
  int ffn_dim = 0;  // of the feed-forward part; 0 if all layers are mixtures of experts
  int vocab_size = 0;
  int context_length = 0;  // the model's own maximum, in tokens
  kernels::NormKind norm_kind = kernels::NormKind::kRms;
  float norm_eps = 0;
  int rotary_dim = 0;  // 0: no layer has a rope
  kernels::RopeKind rope_kind = kernels::RopeKind::kInterleaved;
  bool tied_embeddings = false;

  // Each part of a layer is x += residual_scale * post_norm(part(pre_norm(x))).
  bool pre_norms = true;
  bool post_norms = false;
  bool stream_norms = false;  // instead of both, x = norm(x + part(x)): encoders
  float embedding_scale = 1;
  float residual_scale = 1;
  float logit_scale = 1;
  float logit_softcap = 0;  // as AttentionShape::softcap; 0 means none

  bool qkv_bias = false;
  bool output_bias = false;    // of attn_output
  bool fused_qkv = false;      // attn_qkv holds the rows of attn_q, attn_k and attn_v
  bool fused_gate_up = false;  // ffn_up holds the rows of ffn_gate, then its own
  bool attention_sinks = false;
  QkNorm qk_norm = QkNorm::kNone;
  float attention_scale = 0;
  float attention_softcap = 0;  // 0 means none
  // Name of the norm tensor before the feed-forward part.
  std::string ffn_norm_name = "ffn_norm";
  kernels::GluKind glu = kernels::GluKind::kSilu;
  bool has_ffn_gate = true;  // false: glu without a gate
  bool ffn_bias = false;
  ExpertConfig experts;

  // Of an encoder: what is added to the embeddings, and whether they are normalised then.
  int num_token_types = 0;  // every text is of the first type; 0: the model has none
  int num_positions = 0;    // learned positions; 0: the model has none
  bool embedding_norm = false;
  bool output_norm = true;  // in front of the output
  // A row sees the later rows of its text, too, which are therefore in the same step.
  bool sees_later_rows = false;
  std::optional<Pooling> pooling = {};  // set if it was loaded for embeddings

  std::vector<RopeConfig> ropes;
  std::vector<LayerConfig> layers;  // [num_layers]
  // Group 0 holds the layers without a window, or all layers if each has one; its blocks are kept
  // from position 0 on. Then follows one group for each window size.
  std::vector<KvGroup> kv_groups;

  kernels::KvShape kv_shape(kernels::DType dtype, size_t group = 0) const {
    return {.num_layers = kv_groups[group].num_layers,
            .num_kv_heads = num_kv_heads,
            .head_dim = head_dim,
            .dtype = dtype};
  }
};

struct ConfigOptions {
  // Maximum tokens of a sequence; 0 means the model's own context. What depends on it (longrope's
  // factors) is decided once, for all sequences.
  int context_tokens = 0;
  // Puts all layers into one KV group, with or without windows.
  bool one_kv_group = false;
  // For embeddings each text is computed in one step, so that all layers share one layer of KV, and
  // no output matrix is loaded.
  Purpose purpose = Purpose::kText;
};

// Returns true if the file says how its rows become one vector, or is of an architecture that makes
// embeddings only.
bool MakesEmbeddings(const modelfile::ModelFile& file);

// Fails with kUnsupported for an unknown architecture (detail lists the known ones) or a feature
// that is missing here, and with kDataLoss if a key is missing or invalid.
Result<ModelConfig> ReadModelConfig(const modelfile::ModelFile& file,
                                    const ConfigOptions& options = {});

// Returns "mean", "cls" or "last", as files' users call them.
std::string_view PoolingName(Pooling pooling);

// Sets kv_groups, and kv_group and kv_layer of each layer, from the layers' windows.
void GroupLayers(ModelConfig& config, bool one_kv_group);

}  // namespace kvgate::model
