// Nearest: suggests a known word for one that is unknown. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvgate::config {

// Returns the known word that `word` misspells or begins, ignoring hyphens, underscores and case;
// empty if none is near.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> known);

// Returns "; did you mean 'serve'?"; empty if no word is near.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> known);

}  // namespace kvgate::config
