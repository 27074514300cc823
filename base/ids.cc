#include "base/ids.h"

#include <fmt/format.h>

#include <charconv>

#include "base/hex.h"

namespace kvgate {

std::string ToHex(uint64_t high, uint64_t low) {
  std::string hex(32, '0');
  for (size_t i = 0; i < 16; ++i) {
    hex[15 - i] = kHexDigits[high >> (4 * i) & 15];
    hex[31 - i] = kHexDigits[low >> (4 * i) & 15];
  }
  return hex;
}

Result<BlockHash> ParseBlockHash(std::string_view hex) {
  BlockHash hash;
  const auto parse = [](std::string_view digits, uint64_t& out) {
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  if (hex.size() != 32 || !parse(hex.substr(0, 16), hash.high) ||
      !parse(hex.substr(16), hash.low)) {
    return MakeError(ErrorCode::kInvalidArgument, "ids",
                     fmt::format("'{}' is not a hash of 32 hex digits", hex));
  }
  return hash;
}

}  // namespace kvgate
