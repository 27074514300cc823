// A masked line is a line of text in which each maximal run of values is replaced by one mark:
// numbers, times, ids, hashes, paths, and the quoted values of JSON members and tags' attributes.
// Its words and everything between them stay. Two lines of one mask say the same with other
// values. Pure; any thread; linear in the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::prompt::templates {

inline constexpr char kMark = '\x01';

struct MaskedLine {
  std::string text;        // without white space at its ends; values are kMark
  uint32_t num_words = 0;  // that are no values
  bool has_value = false;
};
// `line` holds no newline.
MaskedLine MaskLine(std::string_view line);

// Returns the identity of a masked line, or of one of its words; never 0.
uint64_t HashOf(std::string_view text);

// Returns the hashes of the words of a masked line, that is, of what stands between spaces; a word
// keeps the marks in it. Bounded: of a longer line the first kTokensMax.
inline constexpr size_t kTokensMax = 64;
std::vector<uint64_t> TokensOf(std::string_view masked, size_t most = kTokensMax);

// A word of a template in whose place several have been seen.
inline constexpr uint64_t kAnyToken = 0;

// Returns the identity of a line's first two words; 0 if either is kAnyToken or missing.
uint64_t HeadOf(const std::vector<uint64_t>& tokens);

// Returns the longest list of tokens that both have in this order, with kAnyToken where either has
// others. Quadratic in kTokensMax.
std::vector<uint64_t> CommonTokens(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b);
// Returns the number of tokens that are not kAnyToken.
size_t NumConstant(const std::vector<uint64_t>& tokens);

}  // namespace kvgate::prompt::templates
