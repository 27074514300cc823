#include "engine/modelfile/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

namespace kvgate::modelfile {
namespace {

using nlohmann::json;

constexpr std::string_view kSource = "model";
constexpr int kContextMax = 1 << 28;

// One class of transformers and its GGUF name.
struct HfArchitecture {
  std::string_view name;
  std::string_view gguf_name;
  bool permuted = false;        // its GGUF files hold the rows of q and k permuted
  bool window_by_flag = false;  // sliding_window counts only if use_sliding_window is true
  // Required, because the config class has a default that fits no known model.
  bool needs_kv_heads = true;
  bool needs_head_dim = false;  // required for the same reason
  // The field with the number of experts; null if there are none.
  const char* num_experts = nullptr;
};

constexpr HfArchitecture kArchitectures[] = {
    {.name = "LlamaForCausalLM", .gguf_name = "llama", .permuted = true, .needs_kv_heads = false},
    {.name = "MistralForCausalLM", .gguf_name = "llama", .permuted = true},
    {.name = "Qwen2ForCausalLM", .gguf_name = "qwen2", .window_by_flag = true},
    {.name = "Qwen3ForCausalLM",
     .gguf_name = "qwen3",
     .window_by_flag = true,
     .needs_head_dim = true},
    {.name = "MixtralForCausalLM",
     .gguf_name = "llama",
     .permuted = true,
     .num_experts = "num_local_experts"},
    {.name = "Qwen2MoeForCausalLM",
     .gguf_name = "qwen2moe",
     .window_by_flag = true,
     .num_experts = "num_experts"},
    {.name = "Qwen3MoeForCausalLM",
     .gguf_name = "qwen3moe",
     .window_by_flag = true,
     .needs_head_dim = true,
     .num_experts = "num_experts"},
};

// The fields of a JSON object in a file, by name, with their ranges checked.
class Fields {
 public:
  Fields(const json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

  // Returns null if the field is absent or null, which mean the same.
  const json* Find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  Error Bad(std::string_view name, std::string_view what) const {
    return MakeError(ErrorCode::kDataLoss, kSource, fmt::format("{}{} {}", prefix_, name, what));
  }
  Error Unsupported(std::string_view name, std::string_view what) const {
    return MakeError(ErrorCode::kUnsupported, kSource, fmt::format("{}{} {}", prefix_, name, what));
  }

  Result<int> Count(const char* name, int maximum, std::optional<int> absent = {}) const {
    const json* value = Find(name);
    if (value == nullptr && absent) return *absent;
    if (value == nullptr) return Bad(name, "is missing");
    const bool is_count = value->is_number_unsigned() && value->get<uint64_t>() >= 1 &&
                          value->get<uint64_t>() <= static_cast<uint64_t>(maximum);
    if (!is_count) {
      return Bad(name, fmt::format("is {}, not a number from 1 to {}", Shown(*value), maximum));
    }
    return static_cast<int>(value->get<uint64_t>());
  }
  Result<float> Positive(const char* name, std::optional<float> absent = {}) const {
    const json* value = Find(name);
    if (value == nullptr && absent) return *absent;
    if (value == nullptr) return Bad(name, "is missing");
    const float number = value->is_number() ? value->get<float>() : 0.0f;
    if (!std::isfinite(number) || number <= 0) {
      return Bad(name, fmt::format("is {}, not a positive number", Shown(*value)));
    }
    return number;
  }
  Result<bool> Flag(const char* name, bool absent) const {
    const json* value = Find(name);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) return Bad(name, fmt::format("is {}, not a bool", Shown(*value)));
    return value->get<bool>();
  }
  // Fails with kUnsupported if the field has another value than the only one that is computed here.
  Result<void> Only(const char* name, const json& supported) const {
    const json* value = Find(name);
    if (value == nullptr || *value == supported) return {};
    return Unsupported(name,
                       fmt::format("is {}; only {} is supported", Shown(*value), supported.dump()));
  }
  // Returns the value as text for a message, cut to 100 bytes.
  static std::string Shown(const json& value) {
    constexpr size_t kBytesMax = 100;
    const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    return text.size() > kBytesMax ? text.substr(0, kBytesMax) + "..." : text;
  }

 private:
  const json& object_;
  std::string prefix_;  // "config.json: rope_scaling."
};

Result<json> ParseObject(std::string_view text, std::string_view name) {
  json object = json::parse(text, nullptr, false);
  if (object.is_object()) return object;
  return MakeError(ErrorCode::kDataLoss, kSource, fmt::format("{}: it is no JSON object", name));
}

Result<HfArchitecture> FindArchitecture(const Fields& fields) {
  std::string known;
  for (const HfArchitecture& architecture : kArchitectures) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.name);
  }
  const json* names = fields.Find("architectures");
  if (names == nullptr) {
    return fields.Bad("architectures", "is missing; supported are " + known);
  }
  for (const HfArchitecture& architecture : kArchitectures) {
    if (names->is_array() && names->size() == 1 && (*names)[0] == architecture.name) {
      return architecture;
    }
  }
  return fields.Unsupported("architectures",
                            fmt::format("is {}; supported are {}", Fields::Shown(*names), known));
}

// Translates one config.json, part by part.
class ConfigReader {
 public:
  ConfigReader(const json& config, const HfArchitecture& architecture)
      : fields_(config, "config.json: "), architecture_(architecture) {}

  Result<HfConfig> Read() {
    result_.metadata.emplace_back("general.architecture", std::string(architecture_.gguf_name));
    if (architecture_.permuted) result_.metadata.emplace_back(std::string(kRopeHalvesKey), true);
    KVGATE_TRY_VOID(CheckFeatures());
    KVGATE_TRY_VOID(ReadShape());
    if (architecture_.num_experts != nullptr) KVGATE_TRY_VOID(ReadExperts());
    KVGATE_TRY_VOID(ReadWindow());
    KVGATE_TRY_VOID(ReadRope());
    KVGATE_TRY(result_.tied_embeddings, fields_.Flag("tie_word_embeddings", false));
    return std::move(result_);
  }

 private:
  template <typename T>
  void Add(std::string_view key, T value) {
    result_.metadata.emplace_back(fmt::format("{}.{}", architecture_.gguf_name, key), value);
  }
  void AddCount(std::string_view key, int value) { Add(key, static_cast<uint32_t>(value)); }

  Result<void> CheckFeatures() {
    if (const json* quantization = fields_.Find("quantization_config"); quantization != nullptr) {
      return fields_.Unsupported(
          "quantization_config",
          fmt::format("is {}; supported are tensors of F32, F16 and BF16",
                      Fields::Shown(quantization->value("quant_method", json(*quantization)))));
    }
    KVGATE_TRY_VOID(fields_.Only("hidden_act", "silu"));
    KVGATE_TRY_VOID(fields_.Only("mlp_bias", false));
    return fields_.Only("partial_rotary_factor", 1.0);
  }

  Result<void> ReadShape() {
    constexpr int kDimMax = 1 << 20;
    constexpr int kHeadsMax = 1 << 12;
    KVGATE_TRY(const int num_layers, fields_.Count("num_hidden_layers", 1 << 12));
    KVGATE_TRY(const int hidden_dim, fields_.Count("hidden_size", kDimMax));
    KVGATE_TRY(const int ffn_dim, fields_.Count("intermediate_size", kDimMax));
    KVGATE_TRY(context_, fields_.Count("max_position_embeddings", kContextMax));
    KVGATE_TRY(const int num_heads, fields_.Count("num_attention_heads", kHeadsMax));
    std::optional<int> absent_kv_heads;
    std::optional<int> absent_head_dim;
    if (!architecture_.needs_kv_heads) absent_kv_heads = num_heads;
    if (!architecture_.needs_head_dim) absent_head_dim = std::max(hidden_dim / num_heads, 1);
    KVGATE_TRY(const int num_kv_heads,
               fields_.Count("num_key_value_heads", kHeadsMax, absent_kv_heads));
    KVGATE_TRY(const int vocab_size, fields_.Count("vocab_size", 1 << 24));
    KVGATE_TRY(const float norm_eps, fields_.Positive("rms_norm_eps", 1e-6f));
    KVGATE_TRY(head_dim_, fields_.Count("head_dim", 1 << 12, absent_head_dim));
    AddCount("block_count", num_layers);
    AddCount("context_length", context_);
    AddCount("embedding_length", hidden_dim);
    AddCount("feed_forward_length", ffn_dim);
    AddCount("attention.head_count", num_heads);
    AddCount("attention.head_count_kv", num_kv_heads);
    AddCount("attention.key_length", head_dim_);
    AddCount("attention.value_length", head_dim_);
    AddCount("rope.dimension_count", head_dim_);
    AddCount("vocab_size", vocab_size);
    Add("attention.layer_norm_rms_epsilon", norm_eps);
    return {};
  }

  // Mixtral's experts have the width intermediate_size, and their shares always sum to 1.
  Result<void> ReadExperts() {
    constexpr int kExpertsMax = 1 << 12;
    constexpr int kDimMax = 1 << 20;
    KVGATE_TRY(const int num_experts, fields_.Count(architecture_.num_experts, kExpertsMax));
    KVGATE_TRY(const int num_used, fields_.Count("num_experts_per_tok", num_experts));
    AddCount("expert_count", num_experts);
    AddCount("expert_used_count", num_used);
    if (architecture_.gguf_name == "llama") return {};
    KVGATE_TRY(const int ffn_dim, fields_.Count("moe_intermediate_size", kDimMax));
    KVGATE_TRY(const bool renormalises, fields_.Flag("norm_topk_prob", false));
    AddCount("expert_feed_forward_length", ffn_dim);
    Add("expert_weights_norm", renormalises);
    if (fields_.Find("shared_expert_intermediate_size") != nullptr) {
      KVGATE_TRY(const int shared, fields_.Count("shared_expert_intermediate_size", kDimMax));
      AddCount("expert_shared_feed_forward_length", shared);
    }
    // Otherwise some layers would have no experts.
    KVGATE_TRY_VOID(fields_.Only("decoder_sparse_step", 1));
    return fields_.Only("mlp_only_layers", json::array());
  }

  // A window at least as wide as the context has no effect, and most files have such a window.
  Result<void> ReadWindow() {
    if (architecture_.window_by_flag) return fields_.Only("use_sliding_window", false);
    if (fields_.Find("sliding_window") == nullptr) return {};
    KVGATE_TRY(const int window, fields_.Count("sliding_window", kContextMax));
    if (window < context_) AddCount("attention.sliding_window", window);
    return {};
  }

  // Newer files have all fields in rope_parameters, older ones have rope_theta beside rope_scaling.
  Result<void> ReadRope() {
    const char* const name =
        fields_.Find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
    const json none = json::object();
    const json* object = fields_.Find(name);
    if (object != nullptr && !object->is_object()) return fields_.Bad(name, "is no object");
    const Fields scaling(object != nullptr ? *object : none, fmt::format("config.json: {}.", name));
    KVGATE_TRY(const float outer_theta, fields_.Positive("rope_theta", 10000.0f));
    KVGATE_TRY(theta_, scaling.Positive("rope_theta", outer_theta));
    Add("rope.freq_base", theta_);
    if (object == nullptr) return {};
    const char* const type_name = scaling.Find("rope_type") != nullptr ? "rope_type" : "type";
    const json* type = scaling.Find(type_name);
    if (type == nullptr) return scaling.Bad("rope_type", "is missing");
    if (*type == "default") return CheckKnown(*object, scaling, {});
    KVGATE_TRY(const float factor, scaling.Positive("factor"));
    if (*type == "linear") {
      KVGATE_TRY_VOID(CheckKnown(*object, scaling, {}));
      Add("rope.scaling.type", std::string("linear"));
      Add("rope.scaling.factor", factor);
      return {};
    }
    if (*type == "llama3") return ReadLlama3(*object, scaling, factor);
    if (*type == "yarn") return ReadYarn(*object, scaling, factor);
    return scaling.Unsupported(
        type_name,
        fmt::format("is {}; supported are default, linear, llama3 and yarn", Fields::Shown(*type)));
  }

  // Refuses unknown fields, because they might change the result.
  static Result<void> CheckKnown(const json& object, const Fields& scaling,
                                 std::initializer_list<std::string_view> more) {
    constexpr std::string_view kCommon[] = {"rope_type", "type", "rope_theta", "factor"};
    for (const auto& [name, value] : object.items()) {
      const bool known =
          std::find(std::begin(kCommon), std::end(kCommon), name) != std::end(kCommon) ||
          std::find(more.begin(), more.end(), name) != more.end();
      if (!known && !value.is_null()) return scaling.Unsupported(name, "is not supported");
    }
    return {};
  }

  // Long wavelengths are stretched by the factor and short ones not at all, with a ramp in between.
  Result<void> ReadLlama3(const json& object, const Fields& scaling, double factor) {
    KVGATE_TRY_VOID(
        CheckKnown(object, scaling,
                   {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}));
    KVGATE_TRY(const float low, scaling.Positive("low_freq_factor"));
    KVGATE_TRY(const float high, scaling.Positive("high_freq_factor"));
    KVGATE_TRY(const int original, scaling.Count("original_max_position_embeddings", kContextMax));
    if (low >= high) return scaling.Bad("low_freq_factor", "is not below high_freq_factor");
    for (int i = 0; i < head_dim_ / 2; ++i) {
      const double wavelength =
          2 * std::numbers::pi * std::pow(static_cast<double>(theta_), 2.0 * i / head_dim_);
      const double ramp = (original / wavelength - low) / (static_cast<double>(high) - low);
      const double kept = std::clamp(ramp, 0.0, 1.0);
      result_.rope_divisors.push_back(static_cast<float>(1 / ((1 - kept) / factor + kept)));
    }
    return {};
  }

  Result<void> ReadYarn(const json& object, const Fields& scaling, float factor) {
    KVGATE_TRY_VOID(CheckKnown(object, scaling,
                               {"original_max_position_embeddings", "attention_factor", "beta_fast",
                                "beta_slow", "truncate", "finetuned"}));
    KVGATE_TRY_VOID(scaling.Only("truncate", true));
    KVGATE_TRY(const int original,
               scaling.Count("original_max_position_embeddings", kContextMax, context_));
    KVGATE_TRY(const float fast, scaling.Positive("beta_fast", 32.0f));
    KVGATE_TRY(const float slow, scaling.Positive("beta_slow", 1.0f));
    Add("rope.scaling.type", std::string("yarn"));
    Add("rope.scaling.factor", factor);
    AddCount("rope.scaling.original_context_length", original);
    Add("rope.scaling.yarn_beta_fast", fast);
    Add("rope.scaling.yarn_beta_slow", slow);
    if (scaling.Find("attention_factor") == nullptr) return {};
    KVGATE_TRY(const float magnitude, scaling.Positive("attention_factor"));
    Add("rope.scaling.attn_factor", magnitude);
    return {};
  }

  Fields fields_;
  const HfArchitecture& architecture_;
  HfConfig result_;
  int context_ = 0;
  int head_dim_ = 0;
  float theta_ = 0;
};

// Appends the ids in eos_token_id (a number, a list of numbers, or null) that `ids` lacks.
Result<void> ReadEndTokens(const Fields& fields, std::vector<int32_t>& ids) {
  constexpr const char* kName = "eos_token_id";
  const json* value = fields.Find(kName);
  if (value == nullptr) return {};
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& id : list) {
    // Negative ids such as -1 mean no token.
    if (id.is_number_integer() && !id.is_number_unsigned()) continue;
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= (uint64_t{1} << 24)) {
      return fields.Bad(
          kName, fmt::format("is {}, not a token or a list of tokens", Fields::Shown(*value)));
    }
    const auto token = static_cast<int32_t>(id.get<uint64_t>());
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  }
  return {};
}

struct NamePair {
  std::string_view hf;
  std::string_view gguf;
};
constexpr NamePair kNames[] = {{"model.embed_tokens.weight", "token_embd.weight"},
                               {"model.norm.weight", "output_norm.weight"},
                               {"lm_head.weight", "output.weight"}};
constexpr NamePair kLayerNames[] = {{"input_layernorm", "attn_norm"},
                                    {"self_attn.q_proj", "attn_q"},
                                    {"self_attn.k_proj", "attn_k"},
                                    {"self_attn.v_proj", "attn_v"},
                                    {"self_attn.o_proj", "attn_output"},
                                    {"self_attn.q_norm", "attn_q_norm"},
                                    {"self_attn.k_norm", "attn_k_norm"},
                                    {"post_attention_layernorm", "ffn_norm"},
                                    {"mlp.gate_proj", "ffn_gate"},
                                    {"mlp.up_proj", "ffn_up"},
                                    {"mlp.down_proj", "ffn_down"},
                                    {"mlp.gate", "ffn_gate_inp"},
                                    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                                    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                                    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
                                    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                                    {"block_sparse_moe.gate", "ffn_gate_inp"}};
// Names that follow the number of an expert.
constexpr NamePair kExpertNames[] = {{"gate_proj", "ffn_gate"}, {"w1", "ffn_gate"},
                                     {"up_proj", "ffn_up"},     {"w3", "ffn_up"},
                                     {"down_proj", "ffn_down"}, {"w2", "ffn_down"}};

// Removes "12." from the front and returns its digits; empty if there are none or more than four.
std::string_view TakeNumber(std::string_view& name) {
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == std::string_view::npos || digits > 4 || name[digits] != '.') return {};
  const std::string_view number = name.substr(0, digits);
  name.remove_prefix(digits + 1);
  return number;
}

// Returns the GGUF name of a layer's part: "ffn_up" for "mlp.up_proj", "ffn_up.2" for expert 2.
std::optional<std::string> PartName(std::string_view part) {
  for (const NamePair& pair : kLayerNames) {
    if (part == pair.hf) return std::string(pair.gguf);
  }
  for (const std::string_view prefix : {"mlp.experts.", "block_sparse_moe.experts."}) {
    if (!part.starts_with(prefix)) continue;
    part.remove_prefix(prefix.size());
    const std::string_view expert = TakeNumber(part);
    for (const NamePair& pair : kExpertNames) {
      if (!expert.empty() && part == pair.hf) return fmt::format("{}.{}", pair.gguf, expert);
    }
  }
  return std::nullopt;
}

}  // namespace

Result<HfConfig> ReadHfConfig(std::string_view config_text, std::string_view generation_text) {
  KVGATE_TRY(const json config, ParseObject(config_text, "config.json"));
  const Fields fields(config, "config.json: ");
  KVGATE_TRY(const HfArchitecture architecture, FindArchitecture(fields));
  KVGATE_TRY(HfConfig result, ConfigReader(config, architecture).Read());
  std::vector<int32_t> ends;
  if (!generation_text.empty()) {
    KVGATE_TRY(const json generation, ParseObject(generation_text, "generation_config.json"));
    KVGATE_TRY_VOID(ReadEndTokens(Fields(generation, "generation_config.json: "), ends));
  }
  KVGATE_TRY_VOID(ReadEndTokens(fields, ends));
  if (!ends.empty()) {
    auto array = std::make_shared<GgufArray>();
    array->values = std::move(ends);
    result.metadata.emplace_back(std::string(kEndTokensKey), std::move(array));
  }
  return result;
}

std::optional<std::string> GgufTensorName(std::string_view name) {
  for (const NamePair& pair : kNames) {
    if (name == pair.hf) return std::string(pair.gguf);
  }
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const std::string_view layer = TakeNumber(name);
  const size_t dot = name.rfind('.');
  if (layer.empty() || dot == std::string_view::npos) return std::nullopt;
  const std::string_view kind = name.substr(dot + 1);
  if (kind != "weight" && kind != "bias") return std::nullopt;
  const std::optional<std::string> part = PartName(name.substr(0, dot));
  if (!part) return std::nullopt;
  return fmt::format("blk.{}.{}.{}", layer, *part, kind);
}

}  // namespace kvgate::modelfile
