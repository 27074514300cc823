#include "engine/model/make_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/model/architecture.h"
#include "engine/model/make_encoder.h"
#include "engine/model/synthetic_vocabulary.h"
#include "engine/model/synthetic_weights.h"
#include "engine/model/weight_recipe.h"
#include "engine/modelfile/gguf.h"

namespace kvgate::model {

using modelfile::GgufWriter;

namespace {

constexpr int kHiddenMin = 64;  // 32 of them are reserved, see synthetic_weights.cc

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

Result<void> CheckExperts(const MakeModelOptions& options) {
  if (FindArchitecture(options.architecture)->experts == ExpertRule::kNever) {
    return CheckRange("num_experts", options.num_experts, 0, 0);
  }
  KVGATE_TRY_VOID(CheckRange("num_experts", options.num_experts, 0, 1024));
  return CheckRange("num_experts_used", options.num_experts_used, options.num_experts > 0 ? 1 : 0,
                    options.num_experts);
}

// Fills in the options that are left to the architecture, with the values of its usual models.
Result<MakeModelOptions> WithDefaults(MakeModelOptions options) {
  const Architecture* architecture = FindArchitecture(options.architecture);
  if (architecture == nullptr) {
    return Invalid("architecture",
                   fmt::format("architecture \"{}\" is not one of {}, {}", options.architecture,
                               ArchitectureNames(), ArchitectureNames(Encoders())));
  }
  if (architecture->is_encoder) {
    options.num_kv_heads = options.num_heads;
    if (!options.pooling) options.pooling = Pooling::kMean;
  }
  if (architecture->experts == ExpertRule::kAlways && options.num_experts == 0) {
    options.num_experts = 8;
  }
  if (options.num_experts > 0 && options.num_experts_used == 0) {
    options.num_experts_used = std::min(options.num_experts, 2);
  }
  if (options.window == 0) {
    options.window = options.architecture == "gemma3"    ? 512
                     : options.architecture == "gpt-oss" ? 128
                                                         : architecture->window;
  }
  return options;
}

Result<void> CheckOptions(const MakeModelOptions& options) {
  constexpr int kDimMax = 1 << 17;
  KVGATE_TRY_VOID(CheckRange("window", options.window, 0, 1 << 24));
  if (options.window > 0 &&
      FindArchitecture(options.architecture)->window_rule == WindowRule::kNever) {
    return Invalid("window", fmt::format("window: {} has no layers with a sliding window",
                                         options.architecture));
  }
  KVGATE_TRY_VOID(CheckRange("rope_original_context", options.rope_original_context, 0,
                             options.context_length));
  KVGATE_TRY_VOID(CheckExperts(options));
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
  // Rows that are no multiple of 256 get a format of 32 elements; there is none for fewer.
  const int elements = std::min(kernels::DTypeElements(options.dtype), 32);
  const auto check_multiple = [&](std::string_view field, int value) -> Result<void> {
    if (value % elements == 0) return {};
    return Invalid(field, fmt::format("{} {} is no multiple of {}, which {} needs", field, value,
                                      elements, RecipeName(RecipeOf(options))));
  };
  KVGATE_TRY_VOID(check_multiple("hidden_dim", options.hidden_dim));
  return check_multiple("ffn_dim", options.ffn_dim);
}

bool IsSentencePiece(const MakeModelOptions& options) {
  constexpr std::string_view kNames[] = {"llama", "gemma", "gemma2", "gemma3", "phi3"};
  return std::ranges::find(kNames, options.architecture) != std::end(kNames);
}

// Writes the keys "ARCHITECTURE.name".
class KeyWriter {
 public:
  KeyWriter(const MakeModelOptions& options, GgufWriter& writer)
      : options_(options),
        architecture_(*FindArchitecture(options.architecture)),
        writer_(writer) {}

  void AddShape() {
    const bool is_llama = options_.architecture == "llama";
    Count("block_count", options_.num_layers);
    Count("context_length", options_.context_length);
    Count("embedding_length", options_.hidden_dim);
    Count("feed_forward_length", options_.ffn_dim);
    Count("attention.head_count", options_.num_heads);
    Count("attention.head_count_kv", options_.num_kv_heads);
    Count("vocab_size", options_.vocab_size);
    if (options_.pooling) {
      Count("pooling_type", *options_.pooling == Pooling::kMean    ? 1
                            : *options_.pooling == Pooling::kFirst ? 2
                                                                   : 3);
    }
    if (architecture_.is_encoder) {
      writer_.Add(Key("attention.causal"), false);
      Number("attention.layer_norm_epsilon", 1e-12f);
      if (!architecture_.learned_positions) Number("rope.freq_base", 1000.0f);
      return;
    }
    Count("rope.dimension_count", options_.hidden_dim / options_.num_heads);
    Number("rope.freq_base", is_llama ? 10000.0f : 1000000.0f);
    Number("attention.layer_norm_rms_epsilon", is_llama ? 1e-5f : 1e-6f);
  }

  void AddAttention() {
    if (options_.window > 0 || options_.architecture == "phi3") {
      Count("attention.sliding_window", options_.window);
    }
    if (architecture_.has_softcaps && architecture_.logit_softcap > 0) {
      Number("attn_logit_softcapping", architecture_.attention_softcap);
      Number("final_logit_softcapping", architecture_.logit_softcap);
    }
    if (architecture_.has_scales) {
      const SyntheticScales scales = ScalesOf(options_);
      Number("embedding_scale", scales.embedding);
      Number("residual_scale", scales.residual);
      Number("logit_scale", scales.logit);
      Number("attention.scale", scales.attention);
    }
    if (options_.rope_original_context == 0) return;
    Count("rope.scaling.original_context_length", options_.rope_original_context);
    // llama and phi3 have tensors for the scaling instead of keys.
    if (options_.architecture == "llama" || options_.architecture == "phi3") return;
    const bool is_linear = options_.architecture == "gemma3";
    writer_.Add(Key("rope.scaling.type"), std::string(is_linear ? "linear" : "yarn"));
    Number("rope.scaling.factor", static_cast<float>(options_.context_length) /
                                      static_cast<float>(options_.rope_original_context));
  }

  void AddExperts() {
    if (options_.num_experts == 0) return;
    Count("expert_count", options_.num_experts);
    Count("expert_used_count", options_.num_experts_used);
    Count("expert_feed_forward_length", options_.ffn_dim);
    if (architecture_.shared_gate) Count("expert_shared_feed_forward_length", options_.ffn_dim);
  }

 private:
  std::string Key(std::string_view name) const {
    return fmt::format("{}.{}", options_.architecture, name);
  }
  void Count(std::string_view name, int value) {
    writer_.Add(Key(name), static_cast<uint32_t>(value));
  }
  void Number(std::string_view name, float value) { writer_.Add(Key(name), value); }

  const MakeModelOptions& options_;
  const Architecture& architecture_;
  GgufWriter& writer_;
};

void AddKeys(const MakeModelOptions& options, GgufWriter& writer) {
  const std::string& arch = options.architecture;
  writer.Add("general.architecture", arch);
  writer.Add("general.name",
             options.name.empty() ? fmt::format("{}-random-{}", arch, options.seed) : options.name);
  writer.Add("general.file_type", RecipeFileType(RecipeOf(options)));
  if (kernels::DTypeElements(options.dtype) != 1) {
    writer.Add("general.quantization_version", uint32_t{2});
  }
  KeyWriter keys(options, writer);
  keys.AddShape();
  keys.AddAttention();
  keys.AddExperts();
}

// Returns the pretokenizer of the architecture's own models.
std::string PretokenizerOf(std::string_view architecture) {
  if (architecture == "gpt-oss") return "gpt-4o";
  if (architecture.starts_with("olmo")) return "dbrx";
  if (architecture == "smollm3") return "smaug-bpe";
  if (architecture.starts_with("granite")) return "refact";
  return "qwen2";
}

// The ids of MakeBertVocabulary.
void AddBertVocabulary(const SyntheticVocabulary& vocabulary, GgufWriter& writer) {
  writer.Add("tokenizer.ggml.model", std::string("bert"));
  writer.Add("tokenizer.ggml.pre", std::string("default"));
  writer.Add("tokenizer.ggml.token_type_count", uint32_t{2});
  writer.AddStrings("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.AddIntegers("tokenizer.ggml.token_type", vocabulary.types);
  writer.Add("tokenizer.ggml.padding_token_id", uint32_t{0});
  writer.Add("tokenizer.ggml.unknown_token_id", uint32_t{1});
  writer.Add("tokenizer.ggml.cls_token_id", uint32_t{2});
  writer.Add("tokenizer.ggml.seperator_token_id", uint32_t{3});  // as the format spells it
  writer.Add("tokenizer.ggml.mask_token_id", uint32_t{4});
}

void AddVocabulary(const MakeModelOptions& options, const SyntheticVocabulary& vocabulary,
                   GgufWriter& writer) {
  if (FindArchitecture(options.architecture)->is_encoder) {
    return AddBertVocabulary(vocabulary, writer);
  }
  const bool is_spm = IsSentencePiece(options);
  const uint32_t size = static_cast<uint32_t>(vocabulary.tokens.size());
  writer.Add("tokenizer.ggml.model", std::string(is_spm ? "llama" : "gpt2"));
  writer.Add("tokenizer.ggml.pre", is_spm ? "default" : PretokenizerOf(options.architecture));
  writer.AddStrings("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.AddIntegers("tokenizer.ggml.token_type", vocabulary.types);
  if (is_spm) {
    writer.AddFloats("tokenizer.ggml.scores", vocabulary.scores);
    writer.Add("tokenizer.ggml.unknown_token_id", uint32_t{0});
    writer.Add("tokenizer.ggml.bos_token_id", uint32_t{1});
    writer.Add("tokenizer.ggml.eos_token_id", uint32_t{2});
    if (options.architecture.starts_with("gemma")) {
      writer.Add("tokenizer.ggml.add_space_prefix", false);
    }
  } else {
    writer.AddStrings("tokenizer.ggml.merges", vocabulary.merges);
    writer.Add("tokenizer.ggml.bos_token_id", size - 3);
    writer.Add("tokenizer.ggml.eos_token_id", size - 3);
  }
  writer.Add("tokenizer.ggml.add_bos_token", is_spm);
  writer.Add("tokenizer.ggml.add_eos_token", false);
}

// A model whose options, vocabulary and tensors are decided, but not yet made.
struct Plan {
  MakeModelOptions options;
  SyntheticVocabulary vocabulary;
  GgufWriter writer;
  std::vector<SyntheticTensor> tensors;  // refer to the vocabulary; in the writer's order
};

Result<std::unique_ptr<Plan>> PlanModel(const MakeModelOptions& asked) {
  auto plan = std::make_unique<Plan>();
  KVGATE_TRY(plan->options, WithDefaults(asked));
  const MakeModelOptions& options = plan->options;
  KVGATE_TRY_VOID(CheckOptions(options));
  const bool is_encoder = FindArchitecture(options.architecture)->is_encoder;
  KVGATE_TRY(plan->vocabulary, is_encoder ? MakeBertVocabulary(options.vocab_size)
                               : IsSentencePiece(options)
                                   ? MakeLlamaVocabulary(options.vocab_size)
                                   : MakeQwen2Vocabulary(options.vocab_size));
  AddKeys(options, plan->writer);
  AddVocabulary(options, plan->vocabulary, plan->writer);
  plan->tensors = is_encoder ? ListEncoderTensors(options)
                             : ListSyntheticTensors(options, plan->vocabulary.sampled);
  const std::string_view output_name =
      options.architecture == "qwen2" ? "token_embd.weight" : "output.weight";
  for (const SyntheticTensor& tensor : plan->tensors) {
    const kernels::DType dtype =
        tensor.is_matrix ? RecipeDType(RecipeOf(options), {.name = tensor.name,
                                                           .columns = tensor.columns,
                                                           .num_layers = options.num_layers,
                                                           .num_experts = options.num_experts,
                                                           .is_output = tensor.name == output_name})
                         : kernels::DType::kF32;
    plan->writer.AddTensor({.name = tensor.name,
                            .dimensions = SyntheticDimensions(tensor),
                            .type = modelfile::GgufTypeOf(dtype)});
  }
  return plan;
}

// The tensors follow each other, each starting on a new cache line.
class MemoryModelFile final : public modelfile::ModelFile {
 public:
  static Result<std::unique_ptr<ModelFile>> Make(const Plan& plan, int num_threads) {
    std::unique_ptr<MemoryModelFile> file(new MemoryModelFile);
    file->metadata_.assign(plan.writer.metadata().begin(), plan.writer.metadata().end());
    KVGATE_TRY_VOID(file->Allocate(plan));
    file->Fill(plan, num_threads);
    KVGATE_TRY_VOID(file->IndexNames());
    return std::unique_ptr<ModelFile>(std::move(file));
  }

 private:
  MemoryModelFile() = default;

  Result<void> Allocate(const Plan& plan) {
    constexpr size_t kLine = 64;
    std::vector<size_t> offsets;
    for (const GgufWriter::TensorSpec& spec : plan.writer.tensors()) {
      size_t count = 1;
      for (const int64_t dimension : spec.dimensions) count *= static_cast<size_t>(dimension);
      KVGATE_TRY(const size_t bytes,
                 modelfile::GgufTensorBytes(static_cast<uint32_t>(spec.type), count));
      offsets.push_back(total_bytes_);
      total_bytes_ += (bytes + kLine - 1) / kLine * kLine;
      tensors_.push_back({.name = spec.name,
                          .dimensions = spec.dimensions,
                          .type = static_cast<uint32_t>(spec.type),
                          .data = {static_cast<const std::byte*>(nullptr), bytes}});
    }
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kLine, total_bytes_)));
    if (bytes_ == nullptr) {
      return MakeError(ErrorCode::kOverloaded, "make_model",
                       fmt::format("no memory for the model's {} bytes", total_bytes_));
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].data = {bytes_.get() + offsets[i], tensors_[i].data.size()};
    }
    return {};
  }

  // Fills the tensors with several threads, which take runs of 64 rows.
  void Fill(const Plan& plan, int num_threads) {
    constexpr int64_t kRowsAtOnce = 64;
    struct Run {
      size_t tensor;
      int64_t first_row;
    };
    std::vector<Run> runs;
    for (size_t i = 0; i < plan.tensors.size(); ++i) {
      for (int64_t row = 0; row < plan.tensors[i].rows; row += kRowsAtOnce)
        runs.push_back({i, row});
    }
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i = next++; i < runs.size(); i = next++) {
        const SyntheticTensor& tensor = plan.tensors[runs[i].tensor];
        const size_t row_bytes =
            tensors_[runs[i].tensor].data.size() / static_cast<size_t>(tensor.rows);
        const int64_t num_rows = std::min(kRowsAtOnce, tensor.rows - runs[i].first_row);
        const size_t offset =
            static_cast<size_t>(tensors_[runs[i].tensor].data.data() - bytes_.get());
        FillSyntheticRows(
            tensor, plan.writer.tensors()[runs[i].tensor].type, plan.options.seed,
            runs[i].first_row,
            {bytes_.get() + offset + static_cast<size_t>(runs[i].first_row) * row_bytes,
             static_cast<size_t>(num_rows) * row_bytes});
      }
    };
    const int count = num_threads > 0
                          ? num_threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    std::vector<std::jthread> threads;
    for (int i = 1; i < count; ++i) threads.emplace_back(work);
    work();
  }

  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

}  // namespace

Result<void> MakeModel(const MakeModelOptions& options, const std::filesystem::path& path) {
  KVGATE_TRY(const std::unique_ptr<Plan> plan, PlanModel(options));
  std::unordered_map<std::string_view, const SyntheticTensor*> by_name;
  for (const SyntheticTensor& tensor : plan->tensors) by_name.emplace(tensor.name, &tensor);
  return plan->writer.Write(
      path, [&](const GgufWriter::TensorSpec& spec, int64_t first_row, std::span<std::byte> data) {
        FillSyntheticRows(*by_name.at(spec.name), spec.type, plan->options.seed, first_row, data);
      });
}

Result<std::unique_ptr<modelfile::ModelFile>> MakeModelInMemory(const MakeModelOptions& options,
                                                                int num_threads) {
  KVGATE_TRY(const std::unique_ptr<Plan> plan, PlanModel(options));
  return MemoryModelFile::Make(*plan, num_threads);
}

}  // namespace kvgate::model
