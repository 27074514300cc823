// Reads the shape of a model from the metadata of its file. A feature that cannot be computed
// exactly is refused by the name of its key: a model that runs but differs from its authors' is
// worse than none.
#include "engine/model/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/model/architecture.h"

namespace kvgate::model {

using modelfile::Metadata;
using modelfile::ModelDataLoss;
using modelfile::ModelFile;

namespace {

constexpr int kDimMax = 1 << 20;

bool HasTensor(const ModelFile& file, std::string_view name) {
  return file.FindTensor(name) != nullptr;
}

Result<void> ReadAttentionShape(const Metadata& metadata, ModelConfig& config) {
  constexpr int kHeadsMax = 1 << 12;
  constexpr int kHeadDimMax = 1 << 12;
  KVGATE_TRY(config.num_heads, metadata.Count("attention.head_count", kHeadsMax));
  KVGATE_TRY(config.num_kv_heads,
             metadata.Count("attention.head_count_kv", kHeadsMax, config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return ModelDataLoss(fmt::format("metadata '{}' is {}, which does not divide the {} heads",
                                     metadata.Key("attention.head_count_kv"), config.num_kv_heads,
                                     config.num_heads));
  }
  if (!metadata.Has("attention.key_length") && config.hidden_dim % config.num_heads != 0) {
    return ModelDataLoss(
        fmt::format("metadata '{}' is {}, which does not divide the embedding length "
                    "{}",
                    metadata.Key("attention.head_count"), config.num_heads, config.hidden_dim));
  }
  const int head_dim = config.hidden_dim / config.num_heads;
  KVGATE_TRY(config.head_dim, metadata.Count("attention.key_length", kHeadDimMax, head_dim));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("attention.value_length", config.head_dim));
  KVGATE_TRY(config.rotary_dim,
             metadata.Count("rope.dimension_count", config.head_dim, config.head_dim));
  if (config.rotary_dim % 2 != 0) {
    return ModelDataLoss(fmt::format("metadata '{}' is {}: rope turns pairs, so it must be even",
                                     metadata.Key("rope.dimension_count"), config.rotary_dim));
  }
  return {};
}

// The vocabulary has the size of the embedding table; other statements of its size must agree.
Result<void> ReadVocabSize(const Metadata& metadata, ModelConfig& config) {
  constexpr int64_t kVocabMax = 1 << 24;
  const ModelFile& file = metadata.file();
  const modelfile::GgufTensor* table = file.FindTensor("token_embd.weight");
  if (table == nullptr) return ModelDataLoss("tensor 'token_embd.weight' is missing");
  if (table->dimensions.size() != 2 || table->dimensions[1] > kVocabMax) {
    return ModelDataLoss("tensor 'token_embd.weight' is not a matrix of at most 2^24 rows");
  }
  config.vocab_size = static_cast<int>(table->dimensions[1]);
  KVGATE_TRY(const int declared, metadata.Count("vocab_size", kVocabMax, config.vocab_size));
  if (declared != config.vocab_size) {
    return ModelDataLoss(
        fmt::format("metadata '{}' is {}, but tensor 'token_embd.weight' has {} rows",
                    metadata.Key("vocab_size"), declared, config.vocab_size));
  }
  constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
  if (file.Find(kTokensKey) == nullptr) return {};
  KVGATE_TRY(const std::span<const std::string> tokens, file.GetStrings(kTokensKey));
  if (tokens.size() != static_cast<size_t>(config.vocab_size)) {
    return ModelDataLoss(
        fmt::format("metadata '{}' has {} tokens, but tensor 'token_embd.weight' has "
                    "{} rows",
                    kTokensKey, tokens.size(), config.vocab_size));
  }
  return {};
}

Result<void> ReadScales(const Metadata& metadata, const Architecture& architecture,
                        ModelConfig& config) {
  const int query_dim = architecture.wide_query_layers == config.num_layers
                            ? config.hidden_dim / config.num_heads
                            : config.head_dim;
  const auto attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(query_dim)));
  if (architecture.has_scales) {
    KVGATE_TRY(config.attention_scale, metadata.Positive("attention.scale"));
    KVGATE_TRY(config.embedding_scale, metadata.Positive("embedding_scale"));
    KVGATE_TRY(config.residual_scale, metadata.Positive("residual_scale"));
    KVGATE_TRY(const float divisor, metadata.Positive("logit_scale"));
    config.logit_scale = static_cast<float>(1.0 / divisor);
    return {};
  }
  KVGATE_TRY(config.attention_scale, metadata.PositiveOr("attention.scale", attention_scale));
  for (const std::string_view name : {"embedding_scale", "residual_scale", "logit_scale"}) {
    KVGATE_TRY_VOID(metadata.OnlyNeutral(name, 1));
  }
  if (architecture.scales_embedding) {
    config.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config.hidden_dim)));
  }
  if (!architecture.has_softcaps) {
    KVGATE_TRY_VOID(metadata.OnlyNeutral("attn_logit_softcapping", 0));
    return metadata.OnlyNeutral("final_logit_softcapping", 0);
  }
  // An absent key means the architecture's own cap; 0 in the file means none.
  const auto read_cap = [&](std::string_view name, float absent) -> Result<float> {
    if (!metadata.Has(name)) return absent;
    return metadata.PositiveOr(name, 0);
  };
  KVGATE_TRY(config.attention_softcap,
             read_cap("attn_logit_softcapping", architecture.attention_softcap));
  KVGATE_TRY(config.logit_softcap, read_cap("final_logit_softcapping", architecture.logit_softcap));
  return {};
}

Result<void> CheckGatingKey(const Metadata& metadata, ExpertGating gating) {
  // The file format's numbers: 1 is softmax, 2 is sigmoid, 3 is softmax of the selected experts.
  const bool is_selected = gating == ExpertGating::kSoftmaxOfSelected;
  if (!metadata.Has("expert_gating_func")) return {};
  KVGATE_TRY(const double value, metadata.file().GetNumber(metadata.Key("expert_gating_func")));
  if (value == 0) return {};
  return metadata.OnlyNeutral("expert_gating_func", is_selected ? 3 : 1);
}

Result<void> ReadExperts(const Metadata& metadata, const Architecture& architecture,
                         ModelConfig& config) {
  constexpr int kExpertsMax = 1 << 12;
  for (const auto& [name, neutral] :
       {std::pair<std::string_view, double>{"leading_dense_block_count", 0},
        {"interleave_moe_layer_step", 1},
        {"expert_group_count", 1},
        {"expert_group_used_count", 1}}) {
    KVGATE_TRY_VOID(metadata.OnlyNeutral(name, neutral));
  }
  if (architecture.experts == ExpertRule::kNever) return metadata.OnlyNeutral("expert_count", 0);
  ExpertConfig& experts = config.experts;
  if (architecture.experts == ExpertRule::kAlways) {
    KVGATE_TRY(experts.num_experts, metadata.Count("expert_count", kExpertsMax));
  } else {
    KVGATE_TRY(experts.num_experts, metadata.CountOrZero("expert_count", kExpertsMax));
    if (experts.num_experts == 0) return {};
  }
  KVGATE_TRY(experts.num_used, metadata.Count("expert_used_count", experts.num_experts));
  if (!metadata.Has("expert_feed_forward_length")) {
    KVGATE_TRY(const int whole, metadata.Count("feed_forward_length", kDimMax));
    experts.ffn_dim = architecture.ffn_split ? whole / experts.num_used : whole;
  } else {
    KVGATE_TRY(experts.ffn_dim, metadata.Count("expert_feed_forward_length", kDimMax));
  }
  if (experts.ffn_dim < 1) {
    return ModelDataLoss(fmt::format("metadata '{}' is below the number of experts used",
                                     metadata.Key("feed_forward_length")));
  }
  constexpr std::string_view kSharedName = "expert_shared_feed_forward_length";
  if (!architecture.shared_expert) {
    KVGATE_TRY_VOID(metadata.OnlyNeutral(kSharedName, 0));
  } else if (architecture.shared_gate && !metadata.Has(kSharedName)) {
    KVGATE_TRY(experts.shared_dim, metadata.Count("feed_forward_length", kDimMax));
  } else {
    KVGATE_TRY(experts.shared_dim, metadata.CountOrZero(kSharedName, kDimMax));
  }
  experts.shared_gate = architecture.shared_gate && experts.shared_dim > 0;
  experts.gating = architecture.gating;
  KVGATE_TRY_VOID(CheckGatingKey(metadata, experts.gating));
  KVGATE_TRY(experts.renormalise, metadata.Bool("expert_weights_norm", architecture.renormalise));
  KVGATE_TRY(experts.share_scale, metadata.PositiveOr("expert_weights_scale", 1));
  experts.router_bias = experts.biases = architecture.expert_biases;
  experts.one_tensor_each = HasTensor(metadata.file(), "blk.0.ffn_gate.0.weight");
  return {};
}

// The file format's numbers of poolings.
constexpr int kPoolingMax = 4;
constexpr int kPoolingNone = 0;
constexpr int kPoolingRank = 4;

Result<void> ReadPooling(const Metadata& metadata, ModelConfig& config) {
  constexpr std::string_view kName = "pooling_type";
  const auto refuse = [&](std::string_view what) {
    return modelfile::ModelUnsupported(
        fmt::format("metadata '{}' is {}; a model for embeddings states 1 (mean), 2 (cls) or 3 "
                    "(last)",
                    metadata.Key(kName), what));
  };
  if (!metadata.Has(kName)) return refuse("missing, so that the file makes no embeddings");
  KVGATE_TRY(const int type, metadata.CountOrZero(kName, kPoolingMax));
  if (type == kPoolingNone) return refuse("0 (none: a vector for each token)");
  if (type == kPoolingRank) return refuse("4 (rank: a model that compares two texts)");
  config.pooling = type == 1 ? Pooling::kMean : type == 2 ? Pooling::kFirst : Pooling::kLast;
  return {};
}

// Reads what a model for embeddings has besides, or an encoder lacks.
Result<void> ReadEmbeddingKeys(const Metadata& metadata, const Architecture& architecture,
                               ModelConfig& config) {
  KVGATE_TRY_VOID(ReadPooling(metadata, config));
  KVGATE_TRY(const bool causal, metadata.Bool("attention.causal", !architecture.is_encoder));
  config.sees_later_rows = !causal;
  if (!causal && std::ranges::any_of(config.layers, [](auto& layer) { return layer.window > 0; })) {
    return modelfile::ModelUnsupported(
        fmt::format("metadata '{}' is false, and layers have a sliding window",
                    metadata.Key("attention.causal")));
  }
  if (!architecture.is_encoder) return {};
  constexpr int kTypesMax = 1 << 10;
  const ModelFile& file = metadata.file();
  const auto rows_of = [&](std::string_view name) -> Result<int> {
    const modelfile::GgufTensor* tensor = file.FindTensor(name);
    if (tensor == nullptr) return 0;
    const std::vector<int64_t>& dimensions = tensor->dimensions;
    const int64_t rows = dimensions.size() == 2 ? dimensions[1] : 1;
    if (rows < 1 || rows > kDimMax) {
      return ModelDataLoss(fmt::format("tensor '{}' has {} rows", name, rows));
    }
    return static_cast<int>(rows);
  };
  KVGATE_TRY(config.num_token_types, rows_of("token_types.weight"));
  if (config.num_token_types > kTypesMax) {
    return ModelDataLoss(
        fmt::format("tensor 'token_types.weight' has {} rows", config.num_token_types));
  }
  if (!architecture.learned_positions) return {};
  KVGATE_TRY(config.num_positions, rows_of("position_embd.weight"));
  if (config.num_positions == 0) return ModelDataLoss("tensor 'position_embd.weight' is missing");
  config.context_length = std::min(config.context_length, config.num_positions);
  return {};
}

Result<void> CheckPurpose(const Architecture& architecture, Purpose purpose) {
  if (purpose == Purpose::kEmbeddings || !architecture.is_encoder) return {};
  return modelfile::ModelUnsupported(
      fmt::format("architecture \"{}\" makes embeddings and no text; architectures that generate "
                  "text are {}",
                  architecture.name, ArchitectureNames()));
}

Result<void> CheckOtherKeys(const Metadata& metadata, Purpose purpose) {
  KVGATE_TRY_VOID(metadata.OnlyNeutral("attention.max_alibi_bias", 0));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("attention.clamp_kqv", 0));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("attention.temperature_scale", 0));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("router_logit_softcapping", 0));
  KVGATE_TRY(const bool causal, metadata.Bool("attention.causal", true));
  if (!causal && purpose == Purpose::kText) {
    return modelfile::ModelUnsupported(
        fmt::format("metadata '{}' is false", metadata.Key("attention.causal")));
  }
  return {};
}

// Sets the switches that follow from the architecture or from the tensors in the file.
void TakeSwitches(const Architecture& architecture, const ModelFile& file, ModelConfig& config) {
  config.rope_kind = architecture.rope_kind;
  config.qkv_bias = architecture.qkv_bias || HasTensor(file, "blk.0.attn_q.bias");
  config.output_bias = architecture.output_bias || HasTensor(file, "blk.0.attn_output.bias");
  config.fused_qkv = HasTensor(file, "blk.0.attn_qkv.weight");
  config.fused_gate_up = architecture.fused_gate_up && !HasTensor(file, "blk.0.ffn_gate.weight");
  config.attention_sinks = architecture.attention_sinks;
  config.qk_norm = architecture.qk_norm;
  config.pre_norms = architecture.pre_norms;
  config.post_norms = architecture.post_norms;
  config.ffn_norm_name = architecture.ffn_norm;
  config.glu = architecture.glu;
  config.norm_kind = architecture.is_encoder ? kernels::NormKind::kLayer : kernels::NormKind::kRms;
  config.stream_norms = config.embedding_norm = architecture.is_encoder;
  config.output_norm = !architecture.is_encoder;
  config.has_ffn_gate = architecture.has_ffn_gate;
  config.ffn_bias = architecture.ffn_bias;
  config.tied_embeddings = !HasTensor(file, "output.weight");
}

Result<void> ReadLayers(const Metadata& metadata, const Architecture& architecture,
                        const ConfigOptions& options, ModelConfig& config) {
  KVGATE_TRY(const std::vector<int> windows,
             ReadWindows(metadata, architecture, config.num_layers, config.context_length));
  for (const int window : windows) config.layers.push_back({.window = window});
  if (architecture.learned_positions) {
    config.rotary_dim = 0;
    for (LayerConfig& layer : config.layers) layer.rope = -1;
  } else {
    KVGATE_TRY_VOID(ReadRopes(metadata, architecture, options.context_tokens, config));
  }
  for (LayerConfig& layer : config.layers) {
    if (layer.window >= config.context_length) layer.window = 0;  // it exceeds every context
  }
  GroupLayers(config, options.one_kv_group || options.purpose == Purpose::kEmbeddings);
  if (options.purpose == Purpose::kText) return {};
  for (LayerConfig& layer : config.layers) layer.kv_layer = 0;
  config.kv_groups[0].num_layers = 1;
  return {};
}

}  // namespace

std::string_view PoolingName(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return "mean";
    case Pooling::kFirst:
      return "cls";
    case Pooling::kLast:
      return "last";
  }
  return "";
}

bool MakesEmbeddings(const ModelFile& file) {
  const Result<std::string> name = file.GetString("general.architecture");
  if (!name) return false;
  const Architecture* const architecture = FindArchitecture(*name);
  if (architecture != nullptr && architecture->is_encoder) return true;
  const Result<int> type = Metadata(file, *name).CountOrZero("pooling_type", kPoolingMax);
  return type && *type != kPoolingNone;
}

void GroupLayers(ModelConfig& config, bool one_kv_group) {
  const auto has_window = [](const LayerConfig& layer) { return layer.window > 0; };
  const bool is_one = one_kv_group || std::ranges::all_of(config.layers, has_window);
  config.kv_groups = {{.window = 0, .num_layers = 0}};
  for (LayerConfig& layer : config.layers) {
    const int window = is_one ? 0 : layer.window;
    auto group = std::ranges::find(config.kv_groups, window, &KvGroup::window);
    if (group == config.kv_groups.end()) {
      config.kv_groups.push_back({.window = window, .num_layers = 0});
      group = std::prev(config.kv_groups.end());
    }
    layer.kv_group = static_cast<int>(group - config.kv_groups.begin());
    layer.kv_layer = group->num_layers++;
  }
}

Result<ModelConfig> ReadModelConfig(const ModelFile& file, const ConfigOptions& options) {
  constexpr int kLayersMax = 1 << 12;
  constexpr int kContextMax = 1 << 28;
  KVGATE_TRY(const std::string name, file.GetString("general.architecture"));
  const Architecture* architecture = FindArchitecture(name);
  if (architecture == nullptr) {
    return modelfile::ModelUnsupported(fmt::format("architecture \"{}\" is not one of {}, {}", name,
                                                   ArchitectureNames(),
                                                   ArchitectureNames(Encoders())));
  }
  KVGATE_TRY_VOID(CheckPurpose(*architecture, options.purpose));

  const Metadata metadata(file, name);
  ModelConfig config;
  config.architecture = name;
  if (file.Find("general.name") != nullptr) {
    KVGATE_TRY(config.name, file.GetString("general.name"));
  }
  KVGATE_TRY(config.num_layers, metadata.Count("block_count", kLayersMax));
  KVGATE_TRY(config.hidden_dim, metadata.Count("embedding_length", kDimMax));
  KVGATE_TRY(config.context_length, metadata.Count("context_length", kContextMax));
  KVGATE_TRY(config.norm_eps,
             metadata.Positive(architecture->is_encoder ? "attention.layer_norm_epsilon"
                                                        : "attention.layer_norm_rms_epsilon"));
  TakeSwitches(*architecture, file, config);
  if (file.Find(modelfile::kRopeHalvesKey) != nullptr) {
    KVGATE_TRY(const bool halves, file.GetBool(modelfile::kRopeHalvesKey));
    if (halves) config.rope_kind = kernels::RopeKind::kHalves;
  }
  KVGATE_TRY_VOID(ReadAttentionShape(metadata, config));
  KVGATE_TRY_VOID(ReadVocabSize(metadata, config));
  KVGATE_TRY_VOID(ReadScales(metadata, *architecture, config));
  KVGATE_TRY_VOID(ReadExperts(metadata, *architecture, config));
  if (config.experts.num_experts == 0) {
    KVGATE_TRY(config.ffn_dim, metadata.Count("feed_forward_length", kDimMax));
  }
  KVGATE_TRY_VOID(CheckOtherKeys(metadata, options.purpose));
  KVGATE_TRY_VOID(ReadLayers(metadata, *architecture, options, config));
  if (options.purpose == Purpose::kEmbeddings) {
    KVGATE_TRY_VOID(ReadEmbeddingKeys(metadata, *architecture, config));
  }
  return config;
}

}  // namespace kvgate::model
