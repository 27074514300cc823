#include "engine/jinja/unicode.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "engine/jinja/unicode_tables.h"

namespace kvgate::jinja {
namespace {

// The run whose last is the first not below `code`, if it begins at or before it.
template <typename Run>
const Run* FindRun(std::span<const Run> runs, uint32_t code) {
  const auto run = std::lower_bound(runs.begin(), runs.end(), code,
                                    [](const Run& r, uint32_t c) { return r.last < c; });
  if (run == runs.end() || code < run->first || (code - run->first) % run->stride != 0) {
    return nullptr;
  }
  return &*run;
}

bool Has(const CodePointRun* runs, size_t count, char32_t code) {
  return FindRun(std::span(runs, count), code) != nullptr;
}

struct CaseTable {
  std::span<const CaseRun> runs;
  std::span<const CaseExpansion> several;
};

CaseMapping Map(const CaseTable& table, char32_t code) {
  for (const CaseExpansion& expansion : table.several) {
    if (expansion.from == code) return {expansion.to[0], expansion.to[1], expansion.to[2]};
  }
  if (const CaseRun* run = FindRun(table.runs, code); run != nullptr) {
    return {static_cast<char32_t>(static_cast<int32_t>(code) + run->delta), 0, 0};
  }
  return {code, 0, 0};
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

Decoded DecodeAt(std::string_view text, size_t offset) {
  const auto lead = static_cast<unsigned char>(text[offset]);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
  if (size == 1 || offset + size > text.size()) return {lead, 1};
  char32_t code = lead & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    if (!IsContinuation(text[offset + i])) return {lead, 1};
    code = (code << 6) | (static_cast<unsigned char>(text[offset + i]) & 0x3F);
  }
  return {code, size};
}

size_t CharacterBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && IsContinuation(text[begin])) --begin;
  return begin;
}

void AppendUtf8(char32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

size_t CountCharacters(std::string_view text) {
  // Continuation bytes are those below -64; the loop has no branches, so it is vectorised.
  size_t count = 0;
  for (const char byte : text) count += static_cast<signed char>(byte) >= -64 ? 1 : 0;
  return count;
}

size_t OffsetOfCharacter(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += DecodeAt(text, offset).size;
  return std::min(offset, text.size());
}

size_t FindInvalidUtf8(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    uint64_t word = 0;
    if (offset + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + offset, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        offset += sizeof(word);
        continue;
      }
    }
    const Decoded decoded = DecodeAt(text, offset);
    const bool ascii = static_cast<unsigned char>(text[offset]) < 0x80;
    const bool overlong = (decoded.size == 3 && decoded.code < 0x800) ||
                          (decoded.size == 4 && decoded.code < 0x10000);
    const bool surrogate = decoded.code >= 0xD800 && decoded.code <= 0xDFFF;
    if ((decoded.size == 1 && !ascii) || overlong || surrogate || decoded.code > 0x10FFFF) {
      return offset;
    }
    offset += decoded.size;
  }
  return std::string_view::npos;
}

bool IsAlpha(char32_t code) {
  if (code < 0x80) return (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
  return Has(kAlpha, kNumAlpha, code);
}
bool IsDecimal(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  return Has(kDecimal, kNumDecimal, code);
}
bool IsDigit(char32_t code) { return code < 0x80 ? IsDecimal(code) : Has(kDigit, kNumDigit, code); }
bool IsNumeric(char32_t code) {
  return code < 0x80 ? IsDecimal(code) : Has(kNumeric, kNumNumeric, code);
}
bool IsAlnum(char32_t code) { return IsAlpha(code) || IsNumeric(code); }
bool IsSpace(char32_t code) {
  if (code < 0x80)
    return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x1F);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}
bool IsPrintable(char32_t code) {
  if (code < 0x80) return code >= 0x20 && code < 0x7F;
  return Has(kPrintable, kNumPrintable, code);
}
bool IsUpper(char32_t code) {
  return code < 0x80 ? code >= 'A' && code <= 'Z' : Has(kUpper, kNumUpper, code);
}
bool IsLower(char32_t code) {
  return code < 0x80 ? code >= 'a' && code <= 'z' : Has(kLower, kNumLower, code);
}
bool IsTitlecase(char32_t code) { return code >= 0x80 && Has(kTitlecase, kNumTitlecase, code); }

CaseMapping ToLower(char32_t code) {
  if (code < 0x80) return {IsUpper(code) ? code + 32 : code, 0, 0};
  return Map({{kToLower, kNumToLower}, {kToLowerSeveral, kNumToLowerSeveral}}, code);
}
CaseMapping ToUpper(char32_t code) {
  if (code < 0x80) return {IsLower(code) ? code - 32 : code, 0, 0};
  return Map({{kToUpper, kNumToUpper}, {kToUpperSeveral, kNumToUpperSeveral}}, code);
}
CaseMapping ToTitle(char32_t code) {
  if (code < 0x80) return {IsLower(code) ? code - 32 : code, 0, 0};
  return Map({{kToTitle, kNumToTitle}, {kToTitleSeveral, kNumToTitleSeveral}}, code);
}

}  // namespace kvgate::jinja
