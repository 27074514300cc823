// Shapes of well-known models, for measurements with random weights: speed and memory depend on
// the shape, not on the values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/make_model.h"

namespace kvgate::cli {

// "0.5b" (Qwen2.5-0.5B), "1b" (Llama-3.2-1B, with an output matrix of its own) or "8b"
// (Llama-3.1-8B).
std::optional<model::MakeModelOptions> FindBenchShape(std::string_view name);
std::vector<std::string> BenchShapeNames();

}  // namespace kvgate::cli
