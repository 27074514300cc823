// Digits of base 16. digest.h and ids.h write hashes in them.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvgate {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

// Returns 0 to 15, or -1 if it is no hex digit of either case.
constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr bool IsHexDigit(char c) { return HexDigit(c) >= 0; }

}  // namespace kvgate
