#include "engine/text/tokenizer/unicode/unicode_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace kvgate::tokenizer::unicode {
namespace {

const utf8proc_property_t& PropertyOf(utf8proc_int32_t code_point) {
  return *utf8proc_get_property(code_point);
}

utf8proc_category_t CategoryOf(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool IsMark(char32_t code_point) {
  const utf8proc_category_t category = CategoryOf(code_point);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

// Sorts runs of marks into canonical order. utf8proc's own sort is quadratic in the length of a
// run.
void OrderMarks(std::vector<utf8proc_int32_t>& characters) {
  for (size_t begin = 0; begin < characters.size();) {
    if (PropertyOf(characters[begin]).combining_class == 0) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < characters.size() && PropertyOf(characters[end]).combining_class != 0) ++end;
    std::stable_sort(characters.begin() + static_cast<std::ptrdiff_t>(begin),
                     characters.begin() + static_cast<std::ptrdiff_t>(end),
                     [](utf8proc_int32_t a, utf8proc_int32_t b) {
                       return PropertyOf(a).combining_class < PropertyOf(b).combining_class;
                     });
    begin = end;
  }
}

void AppendNormalized(std::string_view valid, NormalForm form, std::string& out) {
  const bool is_compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const auto decompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                        (is_compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(valid.size());
  for (size_t position = 0; position < valid.size();) {
    const Utf8Step step = NextUtf8(valid.substr(position));
    position += step.length;
    std::array<utf8proc_int32_t, 32> parts;  // the longest decomposition has 18
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), decompose, &boundary);
    KVGATE_CHECK(count >= 0 && count <= std::ssize(parts), "a decomposition of 32 characters");
    characters.insert(characters.end(), parts.begin(), parts.begin() + count);
  }
  OrderMarks(characters);
  if (composes) {
    const auto count = utf8proc_normalize_utf32(
        characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    KVGATE_CHECK(count >= 0, "composing fails for nothing");
    characters.resize(static_cast<size_t>(count));
  }
  for (const utf8proc_int32_t character : characters) {
    AppendUtf8(static_cast<char32_t>(character), out);
  }
}

// `change` appends the replacement of each character. Bytes that are not UTF-8 are copied.
template <typename Change>
std::string MapCharacters(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Step step = NextUtf8(text.substr(position));
    if (step.status == Utf8Status::kValid) {
      change(step.code_point, out);
    } else {
      out.append(text.substr(position, step.length));
    }
    position += step.length;
  }
  return out;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

}  // namespace

std::string Normalize(std::string_view text, NormalForm form) {
  if (IsAscii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t position = 0; position < text.size();) {
    const size_t valid = ValidUtf8Bytes(text.substr(position));
    if (valid > 0) AppendNormalized(text.substr(position, valid), form, out);
    position += valid;
    if (position == text.size()) break;
    const Utf8Step step = NextUtf8(text.substr(position));
    out.append(text.substr(position, step.length));
    position += step.length;
  }
  return out;
}

std::string LowerCase(std::string_view text) {
  return MapCharacters(text, [](char32_t c, std::string& out) {
    if (c == U'\u0130') {
      out.append("i\u0307");
    } else {
      AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
    }
  });
}

std::string StripMarks(std::string_view text) {
  return MapCharacters(text, [](char32_t c, std::string& out) {
    if (!IsMark(c)) AppendUtf8(c, out);
  });
}

std::string StripNonspacingMarks(std::string_view text) {
  return MapCharacters(text, [](char32_t c, std::string& out) {
    if (CategoryOf(c) != UTF8PROC_CATEGORY_MN) AppendUtf8(c, out);
  });
}

bool IsOther(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category == UTF8PROC_CATEGORY_CN || category >= UTF8PROC_CATEGORY_CC;
}

bool IsPunctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool IsWordCharacter(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  const bool is_circled_letter = c >= 0x24B6 && c <= 0x24E9;  // alphabetic, but not letters
  const bool is_joiner = c == 0x200C || c == 0x200D;
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) || IsMark(c) ||
         category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC || is_circled_letter || is_joiner;
}

}  // namespace kvgate::tokenizer::unicode
