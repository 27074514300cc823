// Tables of `kvgate plan`: many batches and contexts of one model, and models side by side.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/cli/plan/plan.h"

namespace kvgate::cli::plan {

// Sequences 1, 2, 4 … by contexts 1K, 4K, 16K … up to the plan's own: what their KV needs, whether
// it fits, and how fast each answers with prompts that fill the context.
Result<std::string> GridText(const Plan& plan);
Result<std::string> GridJson(const Plan& plan);

// The plans side by side, by KV heads. REQUIRES: one or more.
Result<std::string> CompareText(const std::vector<Plan>& plans);
Result<std::string> CompareJson(const std::vector<Plan>& plans);

}  // namespace kvgate::cli::plan
