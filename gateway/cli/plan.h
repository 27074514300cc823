// What `kvgate plan` prints: the memory that a model, a context and a number of sequences need,
// with the arithmetic spelled out, and the same shape as MHA, GQA and MQA side by side.
#pragma once

#include <string>

#include <kvgate/result.h>

#include "engine/model/capacity.h"

namespace kvgate::cli {

struct Plan {
  model::CapacityShape shape;
  model::CapacityRequest request;
};

// A GGUF file, or a known shape by name; fills in what the file says. kNotFound: neither; detail
// lists the names.
Result<Plan> FindPlan(const std::string& model, const model::CapacityRequest& request);

// kInvalidArgument as ComputeCapacity.
Result<std::string> PlanText(const Plan& plan);
Result<std::string> PlanJson(const Plan& plan);

}  // namespace kvgate::cli
