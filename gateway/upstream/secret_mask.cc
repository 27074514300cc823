#include "gateway/upstream/secret_mask.h"

#include <algorithm>
#include <utility>

namespace kvgate::upstream {
namespace {

// The length of the longest end of `text` that is a proper prefix of `secret`.
size_t BeginningAtEnd(std::string_view text, std::string_view secret) {
  for (size_t size = std::min(text.size(), secret.size() - 1); size > 0; --size) {
    if (text.ends_with(secret.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

std::string SecretMask::Whole(std::string_view text) const {
  if (secret_.empty()) return std::string(text);
  const std::string stars(secret_.size(), '*');
  std::string masked;
  masked.reserve(text.size());
  for (size_t at = text.find(secret_); at != std::string_view::npos; at = text.find(secret_)) {
    masked += text.substr(0, at);
    masked += stars;
    text.remove_prefix(at + secret_.size());
  }
  masked += text;
  return masked;
}

std::string SecretMask::Feed(std::string_view piece) {
  if (secret_.empty()) return std::string(piece);
  held_ += piece;
  std::string out = Whole(std::exchange(held_, {}));
  const size_t kept = BeginningAtEnd(out, secret_);
  held_ = out.substr(out.size() - kept);
  out.erase(out.size() - kept);
  return out;
}

std::string SecretMask::Finish() { return std::exchange(held_, {}); }

}  // namespace kvgate::upstream
