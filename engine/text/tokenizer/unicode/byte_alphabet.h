// ByteAlphabet: the spelling of bytes in byte-level vocabularies, one printable character per byte.
// Bytes that are printable in Latin-1 stand for themselves; the others are mapped to U+0100 and up,
// in order. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kvgate::tokenizer::unicode {

class ByteAlphabet {
 public:
  static const ByteAlphabet& Get();

  const std::string& Spell(uint8_t byte) const { return spellings_[byte]; }
  std::string Spell(std::string_view bytes) const;
  // Returns the bytes that a token's text spells. Characters outside the alphabet stand for
  // themselves.
  std::string Read(std::string_view text) const;

 private:
  ByteAlphabet();
  std::array<std::string, 256> spellings_;
  std::unordered_map<char32_t, uint8_t> bytes_;
};

}  // namespace kvgate::tokenizer::unicode
