#include "engine/model/make_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "engine/model/gguf.h"
#include "engine/model/made_vocabulary.h"
#include "engine/model/made_weights.h"
#include "engine/model/weight_recipe.h"

namespace kvgate::model {
namespace {

constexpr int kHiddenMin = 64;  // 32 of them are set apart, see made_weights.cc

Error Invalid(std::string_view field, std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, "make_model", std::move(detail),
                   std::string(field));
}

Result<void> CheckRange(std::string_view field, int value, int minimum, int maximum) {
  if (value >= minimum && value <= maximum) return {};
  return Invalid(field, fmt::format("{} is {}, not in {} to {}", field, value, minimum, maximum));
}

WeightRecipe RecipeOf(const MakeModelOptions& options) {
  return {.dtype = options.dtype, .is_mixed = options.is_mixed};
}

Result<void> CheckOptions(const MakeModelOptions& options) {
  constexpr int kDimMax = 1 << 17;
  if (options.architecture != "llama" && options.architecture != "qwen2") {
    return Invalid("architecture", fmt::format("architecture \"{}\" is not one of llama, qwen2",
                                               options.architecture));
  }
  KVGATE_TRY_VOID(CheckRange("num_layers", options.num_layers, 1, 1024));
  KVGATE_TRY_VOID(CheckRange("hidden_dim", options.hidden_dim, kHiddenMin, kDimMax));
  KVGATE_TRY_VOID(CheckRange("num_heads", options.num_heads, 1, 1024));
  KVGATE_TRY_VOID(CheckRange("num_kv_heads", options.num_kv_heads, 1, options.num_heads));
  KVGATE_TRY_VOID(CheckRange("ffn_dim", options.ffn_dim, 1, kDimMax));
  KVGATE_TRY_VOID(CheckRange("vocab_size", options.vocab_size, 1, 1 << 20));
  KVGATE_TRY_VOID(CheckRange("context_length", options.context_length, 1, 1 << 24));
  if (options.hidden_dim % (2 * options.num_heads) != 0) {
    return Invalid("num_heads",
                   fmt::format("hidden_dim {} over num_heads {} gives no even head_dim",
                               options.hidden_dim, options.num_heads));
  }
  if (options.num_heads % options.num_kv_heads != 0) {
    return Invalid("num_kv_heads", fmt::format("num_kv_heads {} does not divide num_heads {}",
                                               options.num_kv_heads, options.num_heads));
  }
  if (options.is_mixed && options.dtype != kernels::DType::kQ4_K) {
    return Invalid("is_mixed", fmt::format("is_mixed needs dtype q4_k; it is {}",
                                           kernels::DTypeName(options.dtype)));
  }
  // Narrow rows take a format of 32; below that there is none.
  const int elements = std::min(kernels::DTypeElements(options.dtype), 32);
  const auto check_multiple = [&](std::string_view field, int value) -> Result<void> {
    if (value % elements == 0) return {};
    return Invalid(field, fmt::format("{} {} is no multiple of {}, which {} needs", field, value,
                                      elements, RecipeName(RecipeOf(options))));
  };
  KVGATE_TRY_VOID(check_multiple("hidden_dim", options.hidden_dim));
  return check_multiple("ffn_dim", options.ffn_dim);
}

void AddShape(const MakeModelOptions& options, GgufWriter& writer) {
  const bool is_llama = options.architecture == "llama";
  const std::string& arch = options.architecture;
  const auto add_count = [&](std::string_view key, int value) {
    writer.Add(fmt::format("{}.{}", arch, key), static_cast<uint32_t>(value));
  };
  writer.Add("general.architecture", arch);
  writer.Add("general.name",
             options.name.empty() ? fmt::format("{}-random-{}", arch, options.seed) : options.name);
  writer.Add("general.file_type", RecipeFileType(RecipeOf(options)));
  if (kernels::DTypeElements(options.dtype) != 1) {
    writer.Add("general.quantization_version", uint32_t{2});
  }
  add_count("block_count", options.num_layers);
  add_count("context_length", options.context_length);
  add_count("embedding_length", options.hidden_dim);
  add_count("feed_forward_length", options.ffn_dim);
  add_count("attention.head_count", options.num_heads);
  add_count("attention.head_count_kv", options.num_kv_heads);
  add_count("vocab_size", options.vocab_size);
  add_count("rope.dimension_count", options.hidden_dim / options.num_heads);
  writer.Add(arch + ".rope.freq_base", is_llama ? 10000.0f : 1000000.0f);
  writer.Add(arch + ".attention.layer_norm_rms_epsilon", is_llama ? 1e-5f : 1e-6f);
}

void AddVocabulary(const MakeModelOptions& options, const MadeVocabulary& vocabulary,
                   GgufWriter& writer) {
  const bool is_llama = options.architecture == "llama";
  const uint32_t size = static_cast<uint32_t>(vocabulary.tokens.size());
  writer.Add("tokenizer.ggml.model", std::string(is_llama ? "llama" : "gpt2"));
  writer.Add("tokenizer.ggml.pre", std::string(is_llama ? "default" : "qwen2"));
  writer.AddStrings("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.AddIntegers("tokenizer.ggml.token_type", vocabulary.types);
  if (is_llama) {
    writer.AddFloats("tokenizer.ggml.scores", vocabulary.scores);
    writer.Add("tokenizer.ggml.unknown_token_id", uint32_t{0});
    writer.Add("tokenizer.ggml.bos_token_id", uint32_t{1});
    writer.Add("tokenizer.ggml.eos_token_id", uint32_t{2});
  } else {
    writer.AddStrings("tokenizer.ggml.merges", vocabulary.merges);
    writer.Add("tokenizer.ggml.bos_token_id", size - 3);
    writer.Add("tokenizer.ggml.eos_token_id", size - 3);
  }
  writer.Add("tokenizer.ggml.add_bos_token", is_llama);
  writer.Add("tokenizer.ggml.add_eos_token", false);
}

}  // namespace

Result<void> MakeModel(const MakeModelOptions& options, const std::filesystem::path& path) {
  KVGATE_TRY_VOID(CheckOptions(options));
  KVGATE_TRY(const MadeVocabulary vocabulary, options.architecture == "llama"
                                                  ? MakeLlamaVocabulary(options.vocab_size)
                                                  : MakeQwen2Vocabulary(options.vocab_size));
  GgufWriter writer;
  AddShape(options, writer);
  AddVocabulary(options, vocabulary, writer);
  const std::vector<MadeTensor> tensors = ListMadeTensors(options, vocabulary.sampled);
  const std::string_view output_name =
      options.architecture == "qwen2" ? "token_embd.weight" : "output.weight";
  std::unordered_map<std::string_view, const MadeTensor*> by_name;
  for (const MadeTensor& tensor : tensors) {
    by_name.emplace(tensor.name, &tensor);
    if (tensor.is_matrix) {
      const kernels::DType dtype =
          RecipeDType(RecipeOf(options), {.name = tensor.name,
                                          .columns = tensor.columns,
                                          .num_layers = options.num_layers,
                                          .is_output = tensor.name == output_name});
      writer.AddTensor({.name = tensor.name,
                        .dimensions = {tensor.columns, tensor.rows},
                        .type = GgufTypeOf(dtype)});
    } else {
      writer.AddTensor(
          {.name = tensor.name, .dimensions = {tensor.columns}, .type = GgufType::kF32});
    }
  }
  return writer.Write(
      path, [&](const GgufWriter::TensorSpec& spec, int64_t first_row, std::span<std::byte> data) {
        FillMadeRows(*by_name.at(spec.name), spec.type, options.seed, first_row, data);
      });
}

}  // namespace kvgate::model
