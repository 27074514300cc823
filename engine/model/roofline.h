// Roofline: how fast a model answers on a machine, by arithmetic alone. A step takes as long as the
// slower of two things: its operations, at the machine's speed of products; and the bytes that it
// reads (weights once, KV of each sequence), at the machine's speed of reading.
//
//   operations per token = 2 x parameters that it uses
//                          + 4 x layers x heads x head_dim x tokens that it looks at
//   bytes per step       = weights that its tokens use + KV of the tokens that it looks at
//
// Waiting, networks and sampling are not in it, so that figures are limits, not promises. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "engine/model/capacity.h"

namespace kvgate::model {

// The speed of a machine. For those known by name the data sheet's dense 16-bit products.
struct MachineSpeed {
  std::string_view name;
  double operations_per_second = 0;  // a multiplication and an addition are two
  double bytes_per_second = 0;
  uint64_t memory_bytes = 0;  // 0: not known
};
// Returns the machines that are known by name, sorted by name.
std::span<const MachineSpeed> KnownMachines();
// Returns null for an unknown name.
const MachineSpeed* FindKnownMachine(std::string_view name);

struct SpeedRequest {
  int prompt_tokens = 1024;
  int output_tokens = 256;
};

struct Speed {
  double cold_ttft_seconds = 0;  // of one request alone
  double warm_ttft_seconds = 0;  // with all of its prompt but one KV block in memory
  bool prefill_is_by_memory = false;
  // Of one sequence, while `num_sequences` of the capacity decode together, half of their output
  // written.
  double tpot_seconds = 0;
  double tokens_per_second = 0;  // of all of them
  bool decode_is_by_memory = false;
};
// Fails with kInvalidArgument if a length is below 1 or a speed is not above 0.
Result<Speed> PredictSpeed(const CapacityShape& shape, const CapacityRequest& capacity,
                           const SpeedRequest& request, const MachineSpeed& machine);

// Parameters by what a step does with them; embedding rows that are only looked up are left out.
struct ParameterUse {
  double always = 0;     // attention, the output matrix, shared experts, or dense layers
  double experts = 0;    // of all experts together
  double per_token = 0;  // what one token uses: always, and its own experts
};
ParameterUse CountParameterUse(const CapacityShape& shape);

}  // namespace kvgate::model
