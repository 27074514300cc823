// These functions write a plain model file as a Hugging Face folder without the code under test:
// with other names, reversed shapes, and rows of q and k in the order of training.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/weight_format.h"
#include "tests/engine/model/plain_shape.h"
#include "tests/engine/model/safetensors_bytes.h"

namespace kvgate::model {

inline void WriteFile(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
}

inline void WriteFile(const std::filesystem::path& path, const std::string& text) {
  WriteFile(path, std::as_bytes(std::span(text)));
}

inline const char* HfClass(const PlainShape& shape) {
  if (shape.is({"llama"})) return shape.num_experts > 0 ? "MixtralForCausalLM" : "LlamaForCausalLM";
  if (shape.is({"qwen2"})) return "Qwen2ForCausalLM";
  if (shape.is({"qwen3"})) return "Qwen3ForCausalLM";
  return shape.is({"qwen2moe"}) ? "Qwen2MoeForCausalLM" : "Qwen3MoeForCausalLM";
}

inline nlohmann::json HfRopeJson(const PlainShape& shape) {
  nlohmann::json rope = {{"rope_type", shape.rope_scaling}, {"factor", shape.rope_factor}};
  if (shape.rope_scaling == "none") return nullptr;
  if (shape.rope_scaling == "linear") return rope;
  rope["original_max_position_embeddings"] = shape.original_context;
  if (shape.rope_scaling == "yarn") return rope;
  rope.update(
      {{"factor", PlainLlama3::kFactor},
       {"low_freq_factor", PlainLlama3::kLow},
       {"high_freq_factor", PlainLlama3::kHigh},
       {"original_max_position_embeddings", static_cast<int>(PlainLlama3::kOriginalContext)}});
  return rope;
}

inline nlohmann::json HfConfigJson(const PlainShape& shape) {
  nlohmann::json config = {{"architectures", {HfClass(shape)}},
                           {"hidden_act", "silu"},
                           {"hidden_size", shape.hidden},
                           {"intermediate_size", shape.ffn},
                           {"max_position_embeddings", shape.context},
                           {"num_attention_heads", shape.num_heads},
                           {"num_hidden_layers", shape.num_layers},
                           {"num_key_value_heads", shape.num_kv_heads},
                           {"head_dim", shape.head_dim},
                           {"rms_norm_eps", shape.eps},
                           {"rope_theta", shape.theta},
                           {"rope_scaling", HfRopeJson(shape)},
                           {"tie_word_embeddings", shape.tied},
                           {"vocab_size", shape.vocab}};
  if (shape.is({"llama"}) && shape.window > 0) config["architectures"] = {"MistralForCausalLM"};
  if (shape.window > 0) config["sliding_window"] = shape.window;
  if (shape.num_experts == 0) return config;
  config["num_experts_per_tok"] = shape.num_used;
  config[shape.is({"llama"}) ? "num_local_experts" : "num_experts"] = shape.num_experts;
  config["moe_intermediate_size"] = shape.expert_ffn;
  if (shape.shared_ffn > 0) config["shared_expert_intermediate_size"] = shape.shared_ffn;
  config["norm_topk_prob"] = shape.is({"qwen3moe"});
  return config;
}

// Maps "blk.1.attn_q.weight" to "model.layers.1.self_attn.q_proj.weight", and so on.
inline std::string HfName(const PlainShape& shape, const std::string& name) {
  if (name == "token_embd.weight") return "model.embed_tokens.weight";
  if (name == "output_norm.weight") return "model.norm.weight";
  if (name == "output.weight") return "lm_head.weight";
  const bool is_mixtral = shape.is({"llama"});
  static const std::map<std::string, std::string> kParts = {
      {"attn_norm", "input_layernorm"},
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"},
      {"attn_output", "self_attn.o_proj"},
      {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"},
      {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
      {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
      {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
      {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"}};
  static const std::map<std::string, std::string> kExpertParts = {
      {"ffn_gate", "w1"}, {"ffn_down", "w2"}, {"ffn_up", "w3"}};
  const size_t part = name.find('.', 4) + 1;
  const size_t behind = name.find('.', part);
  const size_t kind = name.rfind('.');
  const std::string own = name.substr(part, behind - part);
  std::string hf =
      own == "ffn_gate_inp" ? (is_mixtral ? "block_sparse_moe.gate" : "mlp.gate") : kParts.at(own);
  if (behind != kind) {
    const std::string expert = "experts" + name.substr(behind, kind - behind) + ".";
    hf = is_mixtral ? "block_sparse_moe." + expert + kExpertParts.at(own)
                    : "mlp." + expert + hf.substr(4);
  }
  return "model.layers." + name.substr(4, part - 4) + hf + name.substr(kind);
}

// Returns the tensors of an F32 file as the folder has them, with matrices in `dtype`.
inline std::vector<RawTensor> HfTensors(const PlainShape& shape, const modelfile::ModelFile& file,
                                        kernels::DType dtype) {
  std::vector<RawTensor> tensors;
  for (const modelfile::GgufTensor& tensor : file.tensors()) {
    if (tensor.name == "rope_freqs.weight") continue;  // computed from the configuration
    const bool is_matrix = tensor.dimensions.size() == 2;
    const auto row_floats = static_cast<size_t>(tensor.dimensions[0]);
    const size_t num_rows = is_matrix ? static_cast<size_t>(tensor.dimensions[1]) : 1;
    const kernels::DType to = is_matrix ? dtype : kernels::DType::kF32;
    const bool is_turned =
        shape.is({"llama"}) && (tensor.name.find("attn_q.weight") != std::string::npos ||
                                tensor.name.find("attn_k.weight") != std::string::npos);
    const size_t row_bytes = kernels::DTypeBytes(to, row_floats);
    RawTensor raw = {.name = HfName(shape, tensor.name),
                     .dtype = to == kernels::DType::kF32   ? "F32"
                              : to == kernels::DType::kF16 ? "F16"
                                                           : "BF16",
                     .shape = {tensor.dimensions.rbegin(), tensor.dimensions.rend()},
                     .data = std::vector<std::byte>(num_rows * row_bytes)};
    for (size_t row = 0; row < num_rows; ++row) {
      // Row 2 i + j of a head in a GGUF file of llama is row j head_dim / 2 + i in the folder.
      const auto half = static_cast<size_t>(shape.head_dim / 2);
      const size_t place = row % (2 * half);
      const size_t to_row = is_turned ? row - place + place % 2 * half + place / 2 : row;
      std::vector<float> values(row_floats);
      std::memcpy(values.data(), tensor.data.data() + row * row_floats * sizeof(float),
                  row_floats * sizeof(float));
      kernels::QuantizeValues(to, values.data(), static_cast<int64_t>(row_floats),
                              raw.data.data() + to_row * row_bytes);
    }
    if (raw.name.ends_with("shared_expert_gate.weight")) raw.shape.insert(raw.shape.begin(), 1);
    tensors.push_back(std::move(raw));
  }
  return tensors;
}

// Writes config.json, a minimal tokenizer.json and model.safetensors.
inline void WriteHfFolder(const std::filesystem::path& folder, const PlainShape& shape,
                          const std::vector<RawTensor>& tensors) {
  std::filesystem::create_directories(folder);
  WriteFile(folder / "config.json", HfConfigJson(shape).dump());
  WriteFile(folder / "tokenizer.json", std::string("{\"model\":{}}"));
  WriteFile(folder / "model.safetensors", SafetensorsBytes(tensors));
}

// Writes the same tensors, every other one in a second shard.
inline void SplitHfFolder(const std::filesystem::path& folder,
                          const std::vector<RawTensor>& tensors) {
  std::vector<RawTensor> halves[2];
  nlohmann::json map;
  for (size_t i = 0; i < tensors.size(); ++i) {
    halves[i % 2].push_back(tensors[i]);
    map[tensors[i].name] = i % 2 == 0 ? "model-1-of-2.safetensors" : "model-2-of-2.safetensors";
  }
  std::filesystem::remove(folder / "model.safetensors");
  WriteFile(folder / "model-1-of-2.safetensors", SafetensorsBytes(halves[0]));
  WriteFile(folder / "model-2-of-2.safetensors", SafetensorsBytes(halves[1]));
  WriteFile(folder / "model.safetensors.index.json",
            nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
}

}  // namespace kvgate::model
