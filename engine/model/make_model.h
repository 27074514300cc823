// Random-weight models of any shape, for tests, benchmarks and the embedded default.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <kvgate/result.h>

#include "engine/model/model_file.h"
#include "kernels/dtype.h"

namespace kvgate::model {

struct MakeModelOptions {
  std::string architecture = "llama";  // any that we have
  int num_layers = 4;
  int hidden_dim = 256;
  int num_heads = 8;
  int num_kv_heads = 4;
  int ffn_dim = 768;
  int vocab_size = 1024;
  int context_length = 8192;
  // Of attention.sliding_window, where the architecture has one. 0: as its models have it.
  int window = 0;
  // The context that rope is scaled from, in the way of the architecture's models; 0: unscaled.
  int rope_original_context = 0;
  // Of a mixture of experts, each of ffn_dim; 0: none, or 8 and 2 where the architecture is one.
  int num_experts = 0;
  int num_experts_used = 0;
  kernels::DType dtype = kernels::DType::kF16;  // of the matrices; norms and biases stay f32
  bool is_mixed = false;                        // with q4_k: the recipe q4_k_m (weight_recipe.h)
  uint64_t seed = 1;
  std::string name;  // general.name; default "ARCH-random-SEED"
};

// Deterministic: equal options give equal bytes. The vocabulary is printable ASCII (llama, gemma
// and phi: a SentencePiece-style one; the others: byte-level BPE), so that any output is valid text
// (below 4 bits that holds for most contexts only: the format rounds what made_weights.cc relies
// on). kInvalidArgument names the option.
Result<void> MakeModel(const MakeModelOptions& options, const std::filesystem::path& path);
// The same model, to the byte, without a file: for measurements, as a large one is made in seconds
// by many threads (0: one per hardware thread) where there is no room on the disk.
// kOverloaded: the memory is not there.
Result<std::unique_ptr<ModelFile>> MakeModelInMemory(const MakeModelOptions& options,
                                                     int num_threads = 0);

}  // namespace kvgate::model
