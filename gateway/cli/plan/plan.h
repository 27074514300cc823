// `kvgate plan`: prints the memory that a model, a context and a number of sequences need, with the
// arithmetic spelled out, how fast it answers at best, and the same shape as MHA, GQA and MQA side
// by side.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/model/capacity.h"
#include "engine/model/roofline.h"

namespace kvgate::cli::plan {

struct Plan {
  model::CapacityShape shape;
  model::CapacityRequest request;
  model::SpeedRequest lengths = {};
  std::optional<model::MachineSpeed> machine = {};  // none: nobody knows it
  std::string machine_note = {};                    // where its speeds come from
};

// The names of known shapes, for messages: "falcon-7b, gemma-2-2b …".
std::string KnownNames();

// Accepts a GGUF file or a known shape's name, and fills in what the file says. Fails with
// kNotFound if it is neither; the detail lists the names.
Result<Plan> FindPlan(const std::string& model, const model::CapacityRequest& request);

// Both fail with kInvalidArgument as ComputeCapacity does.
Result<std::string> PlanText(const Plan& plan);
// "4.5 GiB (4.83 GB)"; "4.5 GiB"; "1,234,567"; "310 ms".
std::string BothUnits(uint64_t bytes);
std::string BinaryUnits(uint64_t bytes);
std::string Grouped(uint64_t number);
std::string SecondsText(double seconds);
std::string_view AttentionName(const model::CapacityShape& shape);
Result<std::string> PlanJson(const Plan& plan);

}  // namespace kvgate::cli::plan
