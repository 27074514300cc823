#include "base/base64.h"

#include <openssl/evp.h>

#include <algorithm>

namespace kvgate {
namespace {

// OpenSSL takes sizes as int. A multiple of three, so that padding occurs at the end only.
constexpr size_t kPartBytesMax = size_t{3} << 20;

// Returns 0 to 63, or -1 if it is no digit.
int DigitOf(char c, Base64Alphabet alphabet) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  const bool is_either = alphabet == Base64Alphabet::kEither;
  if (c == '+' || (is_either && c == '-')) return 62;
  if (c == '/' || (is_either && c == '_')) return 63;
  return -1;
}

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '\0');
  auto* to = reinterpret_cast<unsigned char*>(out.data());
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, std::min(bytes.size(), kPartBytesMax));
    // It also writes a zero behind the digits, for which every string has room.
    to += EVP_EncodeBlock(to, reinterpret_cast<const unsigned char*>(part.data()),
                          static_cast<int>(part.size()));
    bytes.remove_prefix(part.size());
  }
  return out;
}

// EVP_DecodeBlock is of no use here: it insists on padding and skips spaces.
size_t DecodeBase64(std::string_view text, std::string& out, Base64Alphabet alphabet) {
  // One allocation, so that no copy of a secret stays behind in a smaller one.
  out.reserve(out.size() + text.size() * 3 / 4);
  uint32_t bits = 0;
  int num_bits = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const int digit = DigitOf(text[at], alphabet);
    if (digit < 0) return at;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    out += static_cast<char>(bits >> num_bits);
  }
  return text.size();
}

}  // namespace kvgate
