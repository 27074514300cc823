#include "engine/text/jinja/value/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>

#include "base/utf8.h"
#include "engine/text/jinja/value/unicode_tables.h"

namespace kvgate::jinja::value {
namespace {

// Runs are ascending.
bool Has(const CodePointRun* first, size_t count, char32_t code) {
  const CodePointRun* const end = first + count;
  const CodePointRun* const run = std::lower_bound(
      first, end, code, [](const CodePointRun& r, char32_t c) { return r.last < c; });
  return run != end && code >= run->first && (code - run->first) % run->stride == 0;
}

// `single` is utf8proc's mapping, which knows no mappings to several characters.
CaseMapping Map(std::span<const CaseExpansion> several,
                utf8proc_int32_t (*single)(utf8proc_int32_t), char32_t code) {
  for (const CaseExpansion& expansion : several) {
    if (expansion.from == code) return {expansion.to[0], expansion.to[1], expansion.to[2]};
  }
  return {static_cast<char32_t>(single(static_cast<utf8proc_int32_t>(code))), 0, 0};
}

}  // namespace

Decoded DecodeAt(std::string_view text, size_t offset) {
  const auto lead = static_cast<unsigned char>(text[offset]);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
  if (size == 1 || offset + size > text.size()) return {lead, 1};
  char32_t code = lead & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    if (!IsUtf8Continuation(text[offset + i])) return {lead, 1};
    code = (code << 6) | (static_cast<unsigned char>(text[offset + i]) & 0x3F);
  }
  return {code, size};
}

size_t CharacterBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && IsUtf8Continuation(text[begin])) --begin;
  return begin;
}

size_t OffsetOfCharacter(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += DecodeAt(text, offset).size;
  return std::min(offset, text.size());
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
  if (code < 0x80) return code >= 'A' && code <= 'Z';
  return utf8proc_isupper(static_cast<utf8proc_int32_t>(code)) != 0;
}
bool IsLower(char32_t code) {
  return code < 0x80 ? code >= 'a' && code <= 'z' : Has(kLower, kNumLower, code);
}
bool IsTitlecase(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code)) == UTF8PROC_CATEGORY_LT;
}

CaseMapping ToLower(char32_t code) {
  if (code < 0x80) return {IsUpper(code) ? code + 32 : code, 0, 0};
  return Map({kToLowerSeveral, kNumToLowerSeveral}, utf8proc_tolower, code);
}
CaseMapping ToUpper(char32_t code) {
  if (code < 0x80) return {IsLower(code) ? code - 32 : code, 0, 0};
  return Map({kToUpperSeveral, kNumToUpperSeveral}, utf8proc_toupper, code);
}
CaseMapping ToTitle(char32_t code) {
  if (code < 0x80) return {IsLower(code) ? code - 32 : code, 0, 0};
  return Map({kToTitleSeveral, kNumToTitleSeveral}, utf8proc_totitle, code);
}

}  // namespace kvgate::jinja::value
