// SecretMask: puts stars over a secret in bytes that come in pieces. An upstream that repeats a
// request's head in its error would otherwise tell the operator's key to whoever asked.
//
// As many stars as the secret has bytes: lengths that were announced stay right. What may be the
// secret's beginning is held back until more comes: fewer bytes than the secret has.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvgate::upstream {

class SecretMask {
 public:
  // What stands for a key where none is needed ("none", "ollama") is a word that texts may hold.
  static constexpr size_t kSecretBytesMin = 8;

  // Longer ones go into no head.
  static constexpr size_t kSecretBytesMax = size_t{64} << 10;

  // `secret` outlives it. One that is too short or too long is not looked for.
  explicit SecretMask(std::string_view secret)
      : secret_(secret.size() < kSecretBytesMin || secret.size() > kSecretBytesMax ? "" : secret) {}

  bool is_empty() const { return secret_.empty(); }
  bool IsIn(std::string_view text) const {
    return !secret_.empty() && text.find(secret_) != std::string_view::npos;
  }
  // A text that is there as a whole.
  std::string Whole(std::string_view text) const;

  std::string Feed(std::string_view piece);
  // What was held back, when nothing follows.
  std::string Finish();

 private:
  std::string_view secret_;
  std::string held_;
};

}  // namespace kvgate::upstream
