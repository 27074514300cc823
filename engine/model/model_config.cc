// The shape of a model from the metadata of its file. What we cannot compute exactly is refused by
// the name of its key: a model that runs but differs from its authors' would be worse than none.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "engine/model/model.h"

namespace kvgate::model {
namespace {

constexpr std::string_view kSource = "model";

// What tells one architecture from another. The forward function is the same.
struct Architecture {
  std::string_view name;
  kernels::RopeKind rope_kind;
  bool qkv_bias;
};

constexpr std::array<Architecture, 2> kArchitectures = {{
    // GGUF files of llama hold q and k permuted, so that rope pairs are neighbours.
    {.name = "llama", .rope_kind = kernels::RopeKind::kInterleaved, .qkv_bias = false},
    {.name = "qwen2", .rope_kind = kernels::RopeKind::kHalves, .qkv_bias = true},
}};

Error DataLoss(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, kSource, std::move(detail));
}

Error Unsupported(std::string detail) {
  return MakeError(ErrorCode::kUnsupported, kSource, std::move(detail));
}

// Reads keys "ARCHITECTURE.name" and checks their ranges.
class Metadata {
 public:
  Metadata(const ModelFile& file, std::string_view architecture)
      : file_(file), architecture_(architecture) {}

  std::string Key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool Has(std::string_view name) const { return file_.Find(Key(name)) != nullptr; }

  // The integer in [1, maximum], or `absent` where the key is not there and has a default.
  Result<int> Count(std::string_view name, int maximum, std::optional<int> absent = {}) const {
    const std::string key = Key(name);
    Result<int64_t> value = file_.GetInteger(key);
    if (!value) {
      if (value.error().code != ErrorCode::kNotFound) return std::move(value).error();
      if (absent) return *absent;
      return DataLoss(fmt::format("metadata '{}' is missing", key));
    }
    if (*value < 1 || *value > maximum) {
      return DataLoss(fmt::format("metadata '{}' is {}, not in 1 to {}", key, *value, maximum));
    }
    return static_cast<int>(*value);
  }

  // The finite number above 0, likewise.
  Result<float> Positive(std::string_view name, std::optional<float> absent = {}) const {
    const std::string key = Key(name);
    Result<double> value = file_.GetNumber(key);
    if (!value) {
      if (value.error().code != ErrorCode::kNotFound) return std::move(value).error();
      if (absent) return *absent;
      return DataLoss(fmt::format("metadata '{}' is missing", key));
    }
    const float number = static_cast<float>(*value);
    if (!std::isfinite(number) || number <= 0) {
      return DataLoss(fmt::format("metadata '{}' is {}, not a positive number", key, *value));
    }
    return number;
  }

  // kUnsupported when the key is there with another value than the one that changes nothing.
  Result<void> OnlyNeutral(std::string_view name, double neutral) const {
    if (!Has(name)) return {};
    KVGATE_TRY(const double value, file_.GetNumber(Key(name)));
    if (value == neutral) return {};
    return Unsupported(
        fmt::format("metadata '{}' is {}; only {} is supported", Key(name), value, neutral));
  }

 private:
  const ModelFile& file_;
  std::string architecture_;
};

Result<void> CheckRopeScaling(const ModelFile& file, const Metadata& metadata) {
  const std::string type_key = metadata.Key("rope.scaling.type");
  if (file.Find(type_key) != nullptr) {
    KVGATE_TRY(const std::string type, file.GetString(type_key));
    if (type != "none") {
      return Unsupported(
          fmt::format("metadata '{}' is \"{}\"; rope scaling is not supported", type_key, type));
    }
  } else {
    // Without a type a factor means linear scaling.
    KVGATE_TRY_VOID(metadata.OnlyNeutral("rope.scaling.factor", 1));
  }
  KVGATE_TRY_VOID(metadata.OnlyNeutral("rope.scale_linear", 1));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("rope.scaling.attn_factor", 1));
  if (file.FindTensor("rope_freqs.weight") != nullptr) {
    return Unsupported("tensor 'rope_freqs.weight': frequency factors are not supported");
  }
  return {};
}

Result<void> CheckFeatures(const ModelFile& file, const Metadata& metadata) {
  KVGATE_TRY_VOID(CheckRopeScaling(file, metadata));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("expert_count", 0));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("attention.sliding_window", 0));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("attention.max_alibi_bias", 0));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("attention.clamp_kqv", 0));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("logit_scale", 1));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("embedding_scale", 1));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("residual_scale", 1));
  const std::string causal_key = metadata.Key("attention.causal");
  if (file.Find(causal_key) != nullptr) {
    KVGATE_TRY(const bool causal, file.GetBool(causal_key));
    if (!causal) return Unsupported(fmt::format("metadata '{}' is false", causal_key));
  }
  return {};
}

Result<void> ReadAttentionShape(const Metadata& metadata, ModelConfig& config) {
  constexpr int kHeadsMax = 1 << 12;
  constexpr int kHeadDimMax = 1 << 12;
  KVGATE_TRY(config.num_heads, metadata.Count("attention.head_count", kHeadsMax));
  KVGATE_TRY(config.num_kv_heads,
             metadata.Count("attention.head_count_kv", kHeadsMax, config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return DataLoss(fmt::format("metadata '{}' is {}, which does not divide the {} heads",
                                metadata.Key("attention.head_count_kv"), config.num_kv_heads,
                                config.num_heads));
  }
  if (!metadata.Has("attention.key_length") && config.hidden_dim % config.num_heads != 0) {
    return DataLoss(
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
    return DataLoss(fmt::format("metadata '{}' is {}: rope turns pairs, so it must be even",
                                metadata.Key("rope.dimension_count"), config.rotary_dim));
  }
  return {};
}

// The vocabulary is as large as the embedding table; what else speaks of its size must agree.
Result<void> ReadVocabSize(const ModelFile& file, const Metadata& metadata, ModelConfig& config) {
  constexpr int64_t kVocabMax = 1 << 24;
  const GgufTensor* table = file.FindTensor("token_embd.weight");
  if (table == nullptr) return DataLoss("tensor 'token_embd.weight' is missing");
  if (table->dimensions.size() != 2 || table->dimensions[1] > kVocabMax) {
    return DataLoss("tensor 'token_embd.weight' is not a matrix of at most 2^24 rows");
  }
  config.vocab_size = static_cast<int>(table->dimensions[1]);
  KVGATE_TRY(const int declared, metadata.Count("vocab_size", kVocabMax, config.vocab_size));
  if (declared != config.vocab_size) {
    return DataLoss(fmt::format("metadata '{}' is {}, but tensor 'token_embd.weight' has {} rows",
                                metadata.Key("vocab_size"), declared, config.vocab_size));
  }
  constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
  if (file.Find(kTokensKey) == nullptr) return {};
  KVGATE_TRY(const std::span<const std::string> tokens, file.GetStrings(kTokensKey));
  if (tokens.size() != static_cast<size_t>(config.vocab_size)) {
    return DataLoss(
        fmt::format("metadata '{}' has {} tokens, but tensor 'token_embd.weight' has "
                    "{} rows",
                    kTokensKey, tokens.size(), config.vocab_size));
  }
  return {};
}

}  // namespace

Result<ModelConfig> ReadModelConfig(const ModelFile& file) {
  constexpr int kLayersMax = 1 << 12;
  constexpr int kDimMax = 1 << 20;
  constexpr int kContextMax = 1 << 28;
  KVGATE_TRY(const std::string name, file.GetString("general.architecture"));
  const Architecture* architecture = nullptr;
  std::string known;
  for (const Architecture& candidate : kArchitectures) {
    if (candidate.name == name) architecture = &candidate;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", candidate.name);
  }
  if (architecture == nullptr) {
    return Unsupported(fmt::format("architecture \"{}\" is not one of {}", name, known));
  }

  const Metadata metadata(file, name);
  ModelConfig config;
  config.architecture = name;
  if (file.Find("general.name") != nullptr) {
    KVGATE_TRY(config.name, file.GetString("general.name"));
  }
  KVGATE_TRY(config.num_layers, metadata.Count("block_count", kLayersMax));
  KVGATE_TRY(config.hidden_dim, metadata.Count("embedding_length", kDimMax));
  KVGATE_TRY(config.ffn_dim, metadata.Count("feed_forward_length", kDimMax));
  KVGATE_TRY(config.context_length, metadata.Count("context_length", kContextMax));
  KVGATE_TRY(config.norm_eps, metadata.Positive("attention.layer_norm_rms_epsilon"));
  KVGATE_TRY(config.rope_theta, metadata.Positive("rope.freq_base", 10000.0f));
  KVGATE_TRY_VOID(ReadAttentionShape(metadata, config));
  KVGATE_TRY_VOID(ReadVocabSize(file, metadata, config));
  KVGATE_TRY_VOID(CheckFeatures(file, metadata));
  config.rope_kind = architecture->rope_kind;
  if (file.Find(kRopeHalvesKey) != nullptr) {
    KVGATE_TRY(const bool halves, file.GetBool(kRopeHalvesKey));
    if (halves) config.rope_kind = kernels::RopeKind::kHalves;
  }
  config.qkv_bias = architecture->qkv_bias;
  config.tied_embeddings = file.FindTensor("output.weight") == nullptr;
  config.kv_groups = {{.window = 0, .num_layers = config.num_layers}};
  return config;
}

}  // namespace kvgate::model
