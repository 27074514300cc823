// Capacity: the memory that a model needs, by arithmetic alone: weights, the KV of its tokens, the
// engine's own buffers, and how many sequences fit. It takes files of any architecture and known
// shapes by name; no weights are loaded.
//
//   KV per token = 2 (K and V) x layers x KV heads x head_dim x bytes per value
//   one sequence = KV per token x context, the context rounded up to whole KV blocks; a layer with
//                  a sliding window holds no more than its window
//   peak KV      = one sequence x sequences
//   fit          = KV memory / one sequence, where
//   KV memory    = memory - weights - overhead; of a device DevicePoolBytes of that
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/model/model.h"
#include "engine/modelfile/model_file.h"
#include "kernels/dtype.h"

namespace kvgate::model {

struct CapacityShape {
  std::string name;
  uint64_t num_parameters = 0;  // elements of all tensors
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int hidden_dim = 0;
  int ffn_dim = 0;  // of one expert in a mixture of experts
  int vocab_size = 0;
  int context_length = 0;
  // Number of layers whose KV is kept for a window only; the other layers keep all tokens.
  int num_window_layers = 0;
  int window_tokens = 0;
  int num_experts = 0;  // 0: not a mixture of experts
  int num_experts_used = 0;
  int shared_expert_dim = 0;  // of the expert that all tokens use; 0 means none
};

// Returns the shapes that are known by name, sorted by name.
std::span<const CapacityShape> KnownShapes();
// Returns null for an unknown name.
const CapacityShape* FindKnownShape(std::string_view name);

// Reads the shape of a GGUF file of any architecture, including those that the engine cannot run.
// Fails with kDataLoss if a key is missing or invalid, and with kUnsupported if layers differ in
// width. The detail names the key.
Result<CapacityShape> ReadCapacityShape(const modelfile::ModelFile& file);

struct CapacityRequest {
  int context_tokens = 4096;
  int num_sequences = 1;
  kernels::DType kv_dtype = kernels::DType::kF16;
  kernels::DType weight_dtype = kernels::DType::kF16;  // of a known shape
  uint64_t weight_bytes = 0;  // of a file; 0 means computed from parameters and dtype
  uint64_t memory_bytes = 0;
  bool is_device = false;  // the memory is a device's, so part of it is reserved
  int step_tokens = 512;   // tokens of one engine step
};

struct Capacity {
  uint64_t kv_token_bytes = 0;
  uint64_t sequence_bytes = 0;  // the KV of one sequence at full context
  uint64_t peak_kv_bytes = 0;
  uint64_t weight_bytes = 0;
  uint64_t overhead_bytes = 0;  // activations and logits of a step, and the program
  uint64_t program_bytes = 0;   // the part of it that the program takes; 0 on a device
  uint64_t total_bytes = 0;
  uint64_t kv_room_bytes = 0;  // the part of the memory that KV may use
  uint64_t sequences_fit = 0;
};

// Returns how much of a device's memory must stay free, once weights and activations are in place,
// for what steps allocate as they run (staged arguments, graphs, partial sums, the kernels' own
// code).
uint64_t DeviceReserveBytes(uint64_t bytes_free);
// Returns the default size of the KV pools: nine tenths of the rest.
uint64_t DevicePoolBytes(uint64_t bytes_free);

// Returns what the program itself takes of the host's memory: its code, its libraries and buffers,
// and the tokenizer by the size of its vocabulary. Measured; within a tenth of it.
uint64_t ProgramBytes(int vocab_size);

// Fails with kInvalidArgument, naming what is out of range: a count below 1, a head_dim that the KV
// dtype cannot hold, or a total that exceeds 64 bits.
Result<Capacity> ComputeCapacity(const CapacityShape& shape, const CapacityRequest& request);

}  // namespace kvgate::model
