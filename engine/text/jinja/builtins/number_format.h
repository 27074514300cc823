// Number formatting by Python's format specifications: "{:>8.3f}", "%05d".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::jinja::builtins {

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = '\0';       // < > ^ =
  char sign = '-';         // - + space
  bool alternate = false;  // #
  bool zero = false;
  int64_t width = 0;
  char grouping = '\0';  // , _
  int64_t precision = -1;
  char type = '\0';
};

// The largest width or precision; callers report larger ones as errors.
inline constexpr int64_t kFormatWidthMax = 1 << 20;

// Parses "[[fill]align][sign][#][0][width][grouping][.precision][type]". Returns false if it is
// malformed.
bool ParseFormatSpec(std::string_view text, FormatSpec& spec);
// Digits without a sign. Integer types: d b o x X n c; float types: e E f F g G %.
std::string IntegerDigits(uint64_t magnitude, const FormatSpec& spec);
std::string FloatDigits(double magnitude, const FormatSpec& spec);
// Joins sign, digits and padding. `default_align` is used if the spec has no alignment.
std::string Pad(std::string_view sign, std::string_view body, const FormatSpec& spec,
                char default_align);

}  // namespace kvgate::jinja::builtins
