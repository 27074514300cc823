// Base64 as in RFC 4648. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate {

enum class Base64Alphabet : uint8_t {
  kStandard,  // with '+' and '/'
  kEither,    // '-' and '_' mean the same as these
};

// Returns digits of the standard alphabet, with padding.
std::string EncodeBase64(std::string_view bytes);

// Appends the bytes that the digits at the start of `text` spell, and returns the number of these
// digits. The caller decides what may follow them, be it padding or nothing. Bits that do not fill
// a byte are ignored.
size_t DecodeBase64(std::string_view text, std::string& out,
                    Base64Alphabet alphabet = Base64Alphabet::kStandard);

}  // namespace kvgate
