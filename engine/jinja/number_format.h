// Numbers by Python's format specifications: "{:>8.3f}", "%05d".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::jinja {

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

// The most digits, width or precision that is formatted: more is an error to its users.
inline constexpr int64_t kFormatWidthMax = 1 << 20;

// "[[fill]align][sign][#][0][width][grouping][.precision][type]"; false when it is not that.
bool ParseFormatSpec(std::string_view text, FormatSpec& spec);
// Digits without sign, of an integer type: d b o x X n c; of a float's: e E f F g G %.
std::string IntegerDigits(uint64_t magnitude, const FormatSpec& spec);
std::string FloatDigits(double magnitude, const FormatSpec& spec);
// sign, digits and padding put together; `default_align` where the spec has none.
std::string Pad(std::string_view sign, std::string_view body, const FormatSpec& spec,
                char default_align);

}  // namespace kvgate::jinja
