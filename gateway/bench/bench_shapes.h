// Shapes of well-known models for measurements with random weights, because speed and memory depend
// on the shape and not on the values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/make_model.h"

namespace kvgate::bench {

// Known names: "0.5b" (Qwen2.5-0.5B), "1b" (Llama-3.2-1B, with an untied output matrix) and "8b"
// (Llama-3.1-8B).
std::optional<model::MakeModelOptions> FindBenchShape(std::string_view name);
std::vector<std::string> BenchShapeNames();

}  // namespace kvgate::bench
