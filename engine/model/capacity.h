// Capacity: what a model needs of memory, by arithmetic alone: weights, the KV of its tokens, the
// engine's own buffers, and how many sequences fit. For files of any architecture and for known
// shapes by name; nothing is loaded.
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

#include <kvgate/result.h>

#include "engine/model/model.h"
#include "engine/model/model_file.h"
#include "kernels/dtype.h"

namespace kvgate::model {

struct CapacityShape {
  std::string name;
  uint64_t num_parameters = 0;  // 0: of a file, which says how large it is
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int hidden_dim = 0;
  int ffn_dim = 0;  // of a mixture of experts: of one expert
  int vocab_size = 0;
  int context_length = 0;
  // Of the layers, those whose KV is kept for a window only; of the others it is for all tokens.
  int num_window_layers = 0;
  int window_tokens = 0;
  int num_experts = 0;  // 0: not a mixture of experts
  int num_experts_used = 0;
  int shared_expert_dim = 0;  // of the expert that all tokens take; 0: none
};

// The shapes we know by name, in the order of their names.
std::span<const CapacityShape> KnownShapes();
// Null for a name we do not know.
const CapacityShape* FindKnownShape(std::string_view name);

// The shape of a GGUF file of any architecture, also of one that the engine cannot run. kDataLoss:
// a key is missing or senseless; kUnsupported: layers of different widths. Detail names the key.
Result<CapacityShape> ReadCapacityShape(const ModelFile& file);

struct CapacityRequest {
  int context_tokens = 4096;
  int num_sequences = 1;
  kernels::DType kv_dtype = kernels::DType::kF16;
  kernels::DType weight_dtype = kernels::DType::kF16;  // of a known shape
  uint64_t weight_bytes = 0;                           // of a file; 0: by parameters and dtype
  uint64_t memory_bytes = 0;
  bool is_device = false;  // the memory is a device's: part of it is left alone
  int step_tokens = 512;   // tokens of one engine step
};

struct Capacity {
  uint64_t kv_token_bytes = 0;
  uint64_t sequence_bytes = 0;  // the KV of one sequence at full context
  uint64_t peak_kv_bytes = 0;
  uint64_t weight_bytes = 0;
  uint64_t overhead_bytes = 0;  // activations and logits of a step
  uint64_t total_bytes = 0;
  uint64_t kv_room_bytes = 0;  // of the memory, what is there for KV
  uint64_t sequences_fit = 0;
};

// Of a device's memory, with weights and activations in it: what must stay free for what steps
// allocate as they come (staged arguments, graphs, partial sums, the kernels' own code).
uint64_t DeviceReserveBytes(uint64_t bytes_free);
// What the KV pools take of it where nobody says how much: nine tenths of the rest.
uint64_t DevicePoolBytes(uint64_t bytes_free);

// kInvalidArgument names what is out of range: a count below 1, a head_dim that the KV dtype cannot
// hold, more bytes than 64 bits count.
Result<Capacity> ComputeCapacity(const CapacityShape& shape, const CapacityRequest& request);

}  // namespace kvgate::model
