// Nearest: what somebody may have meant who wrote a word that is none of those known. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvgate::config {

// The known word that `word` misspells or begins; hyphens, underlines and case apart. Empty: none
// is near.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> known);

// "; did you mean 'serve'?", or nothing.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> known);

}  // namespace kvgate::config
