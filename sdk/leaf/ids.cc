#include <kvgate/ids.h>

#include <fmt/format.h>

#include <charconv>

namespace kvgate {

std::string ToHex(uint64_t high, uint64_t low) { return fmt::format("{:016x}{:016x}", high, low); }

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
