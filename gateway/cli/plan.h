// `kvgate plan`: prints the memory that a model, a context and a number of sequences need, with the
// arithmetic spelled out, and the same shape as MHA, GQA and MQA side by side.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/model/capacity.h"

namespace kvgate::cli {

struct Plan {
  model::CapacityShape shape;
  model::CapacityRequest request;
};

// Accepts a GGUF file or a known shape's name, and fills in what the file says. Fails with
// kNotFound if it is neither; the detail lists the names.
Result<Plan> FindPlan(const std::string& model, const model::CapacityRequest& request);

// Both fail with kInvalidArgument as ComputeCapacity does.
Result<std::string> PlanText(const Plan& plan);
Result<std::string> PlanJson(const Plan& plan);

}  // namespace kvgate::cli
