// Random-weight models of any shape, for tests, benchmarks and the embedded default.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/model/model_config.h"
#include "engine/modelfile/model_file.h"
#include "kernels/dtype.h"

namespace kvgate::model {

struct MakeModelOptions {
  std::string architecture = "llama";  // any supported one
  int num_layers = 4;
  int hidden_dim = 256;
  int num_heads = 8;
  int num_kv_heads = 4;
  int ffn_dim = 768;
  int vocab_size = 1024;
  int context_length = 8192;
  // The value of attention.sliding_window, if the architecture has one; 0 means its models' usual.
  int window = 0;
  // The context from which rope is scaled, in the way of the architecture's models; 0 means
  // unscaled.
  int rope_original_context = 0;
  // Number of experts, each of width ffn_dim; 0 means none, or 8 with 2 used if the architecture
  // requires experts.
  int num_experts = 0;
  int num_experts_used = 0;
  // Makes a model for embeddings; absent: one that generates text, or an encoder with the mean.
  std::optional<Pooling> pooling = {};
  kernels::DType dtype = kernels::DType::kF16;  // of the matrices; norms and biases stay f32
  bool is_mixed = false;  // with q4_k: use the recipe q4_k_m (weight_recipe.h)
  uint64_t seed = 1;
  std::string name;  // general.name; empty means "ARCH-random-SEED"
};

// Writes a model file. Equal options give equal bytes. The model samples only printable ASCII
// (llama, gemma and phi have a SentencePiece-style vocabulary, the others byte-level BPE), so any
// output is valid text. Below 4 bits that holds for most contexts only, because the format rounds
// the values that synthetic_weights.cc relies on. Fails with kInvalidArgument, naming the option.
Result<void> MakeModel(const MakeModelOptions& options, const std::filesystem::path& path);
// Makes the same model, to the byte, in memory: for measurements of large models, which many
// threads (0 means one per hardware thread) make in seconds and which may not fit the disk. Fails
// with kOverloaded if there is not enough memory.
Result<std::unique_ptr<modelfile::ModelFile>> MakeModelInMemory(const MakeModelOptions& options,
                                                                int num_threads = 0);

}  // namespace kvgate::model
