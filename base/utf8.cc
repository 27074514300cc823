#include "base/utf8.h"

#include <cstring>

namespace kvgate {

size_t ValidUtf8Bytes(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    // Skips ASCII, the most common case, eight bytes at a time.
    uint64_t word = 0;
    while (text.size() - position >= sizeof(word)) {
      std::memcpy(&word, text.data() + position, sizeof(word));
      if ((word & 0x8080808080808080u) != 0) break;
      position += sizeof(word);
    }
    if (position == text.size()) break;
    const Utf8Step step = NextUtf8(text.substr(position));
    if (step.status != Utf8Status::kValid) return position;
    position += step.length;
  }
  return position;
}

size_t AppendValidUtf8(std::string_view text, std::string& out) {
  size_t position = 0;
  while (position < text.size()) {
    const size_t valid = ValidUtf8Bytes(text.substr(position));
    out.append(text.substr(position, valid));
    position += valid;
    if (position == text.size()) break;
    const Utf8Step step = NextUtf8(text.substr(position));
    if (step.status == Utf8Status::kIncomplete) break;
    out.append(kReplacementCharacter);
    position += step.length;
  }
  return position;
}

}  // namespace kvgate
