// SecretMask: replaces a secret with stars in bytes that arrive in pieces. Otherwise an upstream
// that repeats a request's head in its error would show the operator's key to the caller.
//
// There are as many stars as the secret has bytes, so announced lengths stay right. Bytes that may
// be the beginning of the secret are held back until more arrive; they are fewer than the secret
// has.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvgate::upstream {

class SecretMask {
 public:
  // Shorter values are placeholders where no key is needed ("none", "ollama"), and occur in
  // ordinary text.
  static constexpr size_t kSecretBytesMin = 8;

  // A longer value would not fit into a request's head.
  static constexpr size_t kSecretBytesMax = size_t{64} << 10;

  // `secret` must outlive the mask. One that is too short or too long is not masked.
  explicit SecretMask(std::string_view secret)
      : secret_(secret.size() < kSecretBytesMin || secret.size() > kSecretBytesMax ? "" : secret) {}

  bool is_empty() const { return secret_.empty(); }
  bool IsIn(std::string_view text) const {
    return !secret_.empty() && text.find(secret_) != std::string_view::npos;
  }
  // Masks a text that is complete.
  std::string Whole(std::string_view text) const;

  std::string Feed(std::string_view piece);
  // Returns the bytes held back; called when no more follow.
  std::string Finish();

 private:
  std::string_view secret_;
  std::string held_;
};

}  // namespace kvgate::upstream
