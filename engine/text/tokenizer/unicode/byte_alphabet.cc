#include "engine/text/tokenizer/unicode/byte_alphabet.h"

#include "base/utf8.h"

namespace kvgate::tokenizer::unicode {

ByteAlphabet::ByteAlphabet() {
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                              (byte >= 0xAE && byte <= 0xFF);
    const char32_t character = is_printable ? static_cast<char32_t>(byte) : next++;
    AppendUtf8(character, spellings_[static_cast<size_t>(byte)]);
    bytes_[character] = static_cast<uint8_t>(byte);
  }
}

const ByteAlphabet& ByteAlphabet::Get() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

std::string ByteAlphabet::Spell(std::string_view bytes) const {
  std::string text;
  for (const char c : bytes) text += spellings_[static_cast<uint8_t>(c)];
  return text;
}

std::string ByteAlphabet::Read(std::string_view text) const {
  std::string bytes;
  for (size_t position = 0; position < text.size();) {
    const Utf8Step step = NextUtf8(text.substr(position));
    const auto found = bytes_.find(step.code_point);
    if (step.status == Utf8Status::kValid && found != bytes_.end()) {
      bytes.push_back(static_cast<char>(found->second));
    } else {
      bytes.append(text.substr(position, step.length));
    }
    position += step.length;
  }
  return bytes;
}

}  // namespace kvgate::tokenizer::unicode
