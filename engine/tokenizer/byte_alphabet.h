// ByteAlphabet: how byte-level vocabularies spell bytes: one printable character each. Those that
// are printable in Latin-1 stand for themselves, the others are U+0100 and on, in order.
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kvgate::tokenizer {

class ByteAlphabet {
 public:
  static const ByteAlphabet& Get();

  const std::string& Spell(uint8_t byte) const { return spellings_[byte]; }
  std::string Spell(std::string_view bytes) const;
  // The bytes a token's text spells. Characters outside the alphabet stand for themselves.
  std::string Read(std::string_view text) const;

 private:
  ByteAlphabet();
  std::array<std::string, 256> spellings_;
  std::unordered_map<char32_t, uint8_t> bytes_;
};

}  // namespace kvgate::tokenizer
