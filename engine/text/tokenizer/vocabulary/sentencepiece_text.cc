#include "engine/text/tokenizer/vocabulary/sentencepiece_text.h"

#include <algorithm>
#include <charconv>

namespace kvgate::tokenizer::vocabulary {
namespace {

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const size_t found = std::min(text.find(from, position), text.size());
    out.append(text.substr(position, found - position));
    if (found == text.size()) break;
    out.append(to);
    position = found + from.size();
  }
  return out;
}

// Returns the position of the first space mark after another character, or npos.
size_t FindWordEnd(std::string_view text) {
  size_t begin = 0;
  while (text.substr(begin).starts_with(kSpaceMark)) begin += kSpaceMark.size();
  return text.find(kSpaceMark, begin);
}

}  // namespace

std::string EscapeSpaces(std::string_view text) { return ReplaceAll(text, " ", kSpaceMark); }
std::string UnescapeSpaces(std::string_view text) { return ReplaceAll(text, kSpaceMark, " "); }

std::optional<uint8_t> ParseByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* end = text.data() + 5;
  const auto [stop, error] = std::from_chars(text.data() + 3, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return byte;
}

bool CrossesWords(std::string_view piece) { return FindWordEnd(piece) != std::string_view::npos; }

std::string_view FirstWord(std::string_view text) { return text.substr(0, FindWordEnd(text)); }

}  // namespace kvgate::tokenizer::vocabulary
