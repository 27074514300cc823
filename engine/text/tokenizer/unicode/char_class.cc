#include "engine/text/tokenizer/unicode/char_class.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "engine/text/tokenizer/unicode/regex.h"

namespace kvgate::tokenizer::unicode {
namespace {

constexpr char32_t kCodePoints = 0x110000;

// Planes 4 to 13 are unassigned, 15 and 16 private, so their characters have no class.
bool MayHaveClass(char32_t code_point) {
  return code_point < 0x40000 || (code_point >= 0xE0000 && code_point < 0xE1000);
}

}  // namespace

CharClassTable::CharClassTable() {
  std::string text;  // all characters that may have a class
  std::vector<uint8_t> flat(kCodePoints);
  for (char32_t c = 0; c < kCodePoints; ++c) {
    const bool is_surrogate = c >= 0xD800 && c < 0xE000;
    if (MayHaveClass(c) && !is_surrogate) AppendUtf8(c, text);
  }
  const std::pair<std::string_view, uint8_t> properties[] = {
      {"\\p{L}+", CharClass::kLetter},
      {"\\p{N}+", CharClass::kNumber},
      {"[\\t-\\r\\x{85}\\p{Z}]+", CharClass::kSpace},
      {"\\p{M}+", CharClass::kMark}};
  const Regex::Matcher matcher;
  for (const auto& [pattern, bit] : properties) {
    const Regex regex = Regex::MustCompile(pattern);
    for (size_t position = 0; position < text.size();) {
      const Regex::Match match = matcher.Next(regex, text, position);
      for (position = match.begin; position < match.end;) {
        const Utf8Step step = NextUtf8(std::string_view(text).substr(position));
        flat[step.code_point] |= bit;
        position += step.length;
      }
    }
  }
  std::map<std::string_view, uint16_t> known;
  for (char32_t begin = 0; begin < kCodePoints; begin += kBlockMask + 1) {
    const std::string_view block(reinterpret_cast<const char*>(&flat[begin]), kBlockMask + 1);
    const auto [at, is_new] = known.emplace(block, static_cast<uint16_t>(known.size()));
    if (is_new) classes_.insert(classes_.end(), block.begin(), block.end());
    blocks_[begin >> kBlockBits] = at->second;
  }
}

const CharClassTable& CharClassTable::Get() {
  static const CharClassTable table;
  return table;
}

size_t SkipSpaces(std::string_view text, size_t position) {
  const CharClassTable& classes = CharClassTable::Get();
  while (position < text.size()) {
    const Utf8Step step = NextUtf8(text.substr(position));
    const bool is_space =
        step.status == Utf8Status::kValid && (classes[step.code_point] & CharClass::kSpace) != 0;
    if (!is_space) break;
    position += step.length;
  }
  return position;
}

size_t SkipSpacesBack(std::string_view text, size_t position) {
  const size_t character_bytes_max = 3;  // longest white space character
  while (position > 0) {
    size_t begin = position - 1;
    const auto is_tail = [&] { return (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80; };
    while (begin > 0 && position - begin < character_bytes_max && is_tail()) --begin;
    if (SkipSpaces(text.substr(0, position), begin) != position) break;
    position = begin;
  }
  return position;
}

}  // namespace kvgate::tokenizer::unicode
