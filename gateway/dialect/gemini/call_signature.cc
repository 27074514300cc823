#include "gateway/dialect/gemini/call_signature.h"

#include "base/base64.h"

namespace kvgate::dialect::gemini {
namespace {

constexpr std::string_view kMark = "-kvgate-signature-";

bool Decode(std::string_view text, std::string& bytes) {
  const size_t num_digits = DecodeBase64(text, bytes, Base64Alphabet::kEither);
  return !bytes.empty() && text.find_first_not_of('=', num_digits) == std::string_view::npos;
}

}  // namespace

std::string JoinCallId(const SignedId& id) {
  std::string bytes;
  if (!Decode(id.signature, bytes)) return id.id;
  std::string joined = id.id;
  joined += kMark;
  // base64url without padding, whose characters may stand in an id.
  for (const char c : EncodeBase64(bytes)) {
    if (c != '=') joined += c == '+' ? '-' : c == '/' ? '_' : c;
  }
  return joined;
}

SignedId SplitCallId(std::string_view id) {
  const size_t mark = id.find(kMark);
  std::string bytes;
  if (mark == std::string_view::npos || !Decode(id.substr(mark + kMark.size()), bytes)) {
    return {.id = std::string(id.substr(0, mark)), .signature = {}};
  }
  return {.id = std::string(id.substr(0, mark)), .signature = EncodeBase64(bytes)};
}

}  // namespace kvgate::dialect::gemini
