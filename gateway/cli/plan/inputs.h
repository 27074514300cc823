// What `kvgate plan` is told or finds out before it counts: the machine's speeds, and the lengths
// of prompts and answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/model/roofline.h"
#include "kernels/dtype.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli::plan {

struct MachineFlags {
  std::string name;          // --machine; empty: this machine's CPU, unless the device is cuda
  double tflops = 0;         // --tflops; 0: the machine's
  double gb_per_second = 0;  // --bandwidth; likewise
};
struct FoundMachine {
  model::MachineSpeed speed;
  std::string note;  // where its speeds come from
};
// Returns nothing where nobody knows the machine: a device without a name. The CPU is measured with
// our own products of weights of that format, which takes up to two seconds. Fails with
// kInvalidArgument for an unknown name; the detail lists those that are known.
Result<std::optional<FoundMachine>> FindMachine(const MachineFlags& flags, bool is_device,
                                                kernels::DType weights);

struct Lengths {
  int prompt_tokens = 0;
  int output_tokens = 0;
  int64_t num_requests = 0;
};
// The 95th percentiles of the newest thousand requests of a server's ledger. Fails with kNotFound
// if none has known lengths.
Result<Lengths> LengthsOfLedger(const store::ServerAddress& server,
                                const std::string& authorization);

}  // namespace kvgate::cli::plan
