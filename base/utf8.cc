#include "base/utf8.h"

#include <cstring>

namespace kvgate::tokenizer {
namespace {

struct LeadByte {
  uint32_t length = 0;  // 0: no character begins with it
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
  uint8_t payload_mask = 0;
};

LeadByte Classify(uint8_t lead) {
  if (lead < 0x80) return {.length = 1, .payload_mask = 0x7F};
  if (lead < 0xC2 || lead > 0xF4) return {};
  if (lead < 0xE0) return {.length = 2, .payload_mask = 0x1F};
  if (lead < 0xF0) {
    // E0 80.. would be overlong, ED A0.. a surrogate.
    return {.length = 3,
            .second_min = static_cast<uint8_t>(lead == 0xE0 ? 0xA0 : 0x80),
            .second_max = static_cast<uint8_t>(lead == 0xED ? 0x9F : 0xBF),
            .payload_mask = 0x0F};
  }
  // F0 80.. would be overlong, F4 90.. past U+10FFFF.
  return {.length = 4,
          .second_min = static_cast<uint8_t>(lead == 0xF0 ? 0x90 : 0x80),
          .second_max = static_cast<uint8_t>(lead == 0xF4 ? 0x8F : 0xBF),
          .payload_mask = 0x07};
}

}  // namespace

Utf8Step NextUtf8(std::string_view text) {
  const uint8_t first = static_cast<uint8_t>(text[0]);
  const LeadByte lead = Classify(first);
  if (lead.length == 0) return {.status = Utf8Status::kInvalid, .length = 1};
  char32_t code_point = first & lead.payload_mask;
  for (uint32_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {.status = Utf8Status::kIncomplete, .length = i};
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.second_min : 0x80;
    const uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return {.status = Utf8Status::kInvalid, .length = i};
    code_point = (code_point << 6) | (byte & 0x3F);
  }
  return {.status = Utf8Status::kValid, .length = lead.length, .code_point = code_point};
}

size_t ValidUtf8Bytes(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    // Most text is ASCII: eight bytes at a time.
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

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    tail(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
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

}  // namespace kvgate::tokenizer
