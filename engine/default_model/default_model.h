// The model that kvgate brings along: kvgate-default.gguf of this folder, which lies in the program
// itself (README.md says how it was made, MODEL_CARD.md what it can do).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kvgate::default_model {

inline constexpr std::string_view kName = "kvgate-default";

// Returns the whole GGUF file.
std::span<const std::byte> FileBytes();

}  // namespace kvgate::default_model
