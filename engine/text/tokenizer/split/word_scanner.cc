#include "engine/text/tokenizer/split/word_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace kvgate::tokenizer::split {

using unicode::CharClass;

namespace {

constexpr uint8_t kWordOrSpace = CharClass::kLetter | CharClass::kNumber | CharClass::kSpace;

struct Character {
  char32_t code_point = 0;
  uint32_t length = 0;  // 0: after the end of the text
  uint8_t cls = 0;      // CharClass bits
};

// A run of white space, scanned once however many words it is cut into.
struct SpaceRun {
  size_t end = 0;
  size_t line_end = 0;    // after its last \r or \n; 0: it has none
  size_t last_begin = 0;  // start of its last character
};

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// Returns the length of the contraction at the start of `text` ("'s", "'ll" ...), or 0.
size_t ContractionBytes(std::string_view text, bool any_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  // U+017F, the long s, equals s if case is ignored.
  if (any_case && text.substr(1).starts_with("\xC5\xBF")) return 3;
  const char first = any_case ? Lower(text[1]) : text[1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (text.size() < 3) return 0;
  const char second = any_case ? Lower(text[2]) : text[2];
  const bool is_pair =
      ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return is_pair ? 3 : 0;
}

}  // namespace

// Decodes the characters of a text. The text is valid UTF-8, so no checks are needed.
class WordScanner::Cursor {
 public:
  Cursor(std::string_view text, const unicode::CharClassTable& classes)
      : text_(text), classes_(classes) {}

  Character At(size_t position) const {
    if (position >= text_.size()) return {};
    const uint8_t lead = byte(position);
    if (lead < 0x80) return {lead, 1, classes_[lead]};
    char32_t c = 0;
    uint32_t length = 2;
    if (lead < 0xE0) {
      c = char32_t{lead & 0x1Fu} << 6 | tail(position + 1);
    } else if (lead < 0xF0) {
      c = char32_t{lead & 0x0Fu} << 12 | tail(position + 1) << 6 | tail(position + 2);
      length = 3;
    } else {
      c = char32_t{lead & 0x07u} << 18 | tail(position + 1) << 12 | tail(position + 2) << 6 |
          tail(position + 3);
      length = 4;
    }
    return {c, length, classes_[c]};
  }

  // Returns the end of the run of characters from `position` on whose class has one of `bits`.
  size_t SkipClass(size_t position, uint8_t bits) const {
    for (Character c = At(position); (c.cls & bits) != 0; c = At(position)) position += c.length;
    return position;
  }
  // Returns the end of the run of characters whose class has none of `bits`.
  size_t SkipOther(size_t position, uint8_t bits) const {
    for (Character c = At(position); c.length > 0 && (c.cls & bits) == 0; c = At(position)) {
      position += c.length;
    }
    return position;
  }
  // Returns the end of the longest fixed-length run of blanks that may begin here. At the end of
  // the text all blanks may be used; before a word the last one belongs to the word.
  size_t SkipChunk(size_t position, const SpaceRun& run) const {
    constexpr size_t kChunkMax = 512;
    std::array<size_t, kChunkMax + 2> ends;  // ends[n]: end of n blanks
    size_t count = 0;
    for (ends[0] = position; ends[count] < run.end && count <= kChunkMax; ++count) {
      ends[count + 1] = ends[count] + At(ends[count]).length;
    }
    const bool uses_all = run.end == text_.size();
    for (size_t size = kChunkMax; size > 1; size /= 2) {
      if (size < count || (size == count && uses_all)) return ends[size];
    }
    return ends[1];
  }

 private:
  uint8_t byte(size_t position) const { return static_cast<uint8_t>(text_[position]); }
  char32_t tail(size_t position) const { return byte(position) & 0x3Fu; }
  std::string_view text_;
  const unicode::CharClassTable& classes_;
};

std::string WordShape::Expression() const {
  constexpr std::string_view kSpace = "\\t-\\r\\x{85}\\p{Z}";
  if (style == Style::kGpt2) {
    return fmt::format(
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{{L}}+| ?\\p{{N}}+| ?[^{0}\\p{{L}}\\p{{N}}]+|"
        "[{0}]+(?![^{0}])|[{0}]+",
        kSpace);
  }
  const std::string_view marks = marks_are_letters ? "\\p{M}" : "";
  const std::string digits =
      digits_max == 0 ? "\\p{N}+" : fmt::format("\\p{{N}}{{1,{}}}", digits_max);
  std::string blanks = fmt::format("[{0}]+(?![^{0}])|[{0}]+", kSpace);
  if (chunks_spaces) {
    blanks.clear();
    for (const int size : {512, 256, 128, 64, 32, 16, 8, 4}) {
      blanks += fmt::format("[{0}]{{{1}}}(?![^{0}])|", kSpace, size);
    }
    blanks += fmt::format("[{0}]{{1,2}}(?![^{0}])|[{0}]", kSpace);
  }
  return fmt::format(
      "{0}[^\\r\\n\\p{{L}}\\p{{N}}]?[\\p{{L}}{1}]+|{2}| ?[^{3}\\p{{L}}\\p{{N}}{1}]+"
      "[\\r\\n{4}]*|[{3}]*[\\r\\n]+|{5}",
      has_contractions ? "(?i:'s|'t|'re|'ve|'m|'ll|'d)|" : "", marks, digits, kSpace,
      slash_ends_symbols ? "/" : "", blanks);
}

void WordScanner::Cut(std::string_view text, size_t offset, std::vector<size_t>& ends) const {
  if (shape_.style == WordShape::Style::kGpt2) {
    CutGpt2(text, offset, ends);
  } else {
    CutLlama3(text, offset, ends);
  }
}

void WordScanner::CutGpt2(std::string_view text, size_t offset, std::vector<size_t>& ends) const {
  const Cursor cursor(text, classes_);
  for (size_t position = 0; position < text.size();) {
    const Character first = cursor.At(position);
    if (first.code_point == '\'') {
      if (const size_t length = ContractionBytes(text.substr(position), false)) {
        ends.push_back(offset + (position += length));
        continue;
      }
    }
    // A blank belongs to the word that follows it.
    const bool has_blank = first.code_point == ' ';
    const Character head = has_blank ? cursor.At(position + 1) : first;
    if (head.length > 0 && (head.cls & CharClass::kSpace) == 0) {
      const size_t begin = position + (has_blank ? 1 : 0) + head.length;
      const uint8_t bits = head.cls & (CharClass::kLetter | CharClass::kNumber);
      position = bits != 0 ? cursor.SkipClass(begin, bits) : cursor.SkipOther(begin, kWordOrSpace);
      ends.push_back(offset + position);
      continue;
    }
    size_t last = position;  // start of the last blank of the run
    size_t end = position;
    for (Character c = first; (c.cls & CharClass::kSpace) != 0; c = cursor.At(end)) {
      last = end;
      end += c.length;
    }
    // The last blank belongs to the word that follows, unless it is the only one.
    position = end < text.size() && last > position ? last : end;
    ends.push_back(offset + position);
  }
}

void WordScanner::CutLlama3(std::string_view text, size_t offset, std::vector<size_t>& ends) const {
  const Cursor cursor(text, classes_);
  const uint8_t letters = CharClass::kLetter | (shape_.marks_are_letters ? CharClass::kMark : 0);
  const uint8_t not_symbols = letters | CharClass::kNumber | CharClass::kSpace;
  SpaceRun run;
  for (size_t position = 0; position < text.size(); ends.push_back(offset + position)) {
    const Character first = cursor.At(position);
    if (first.code_point == '\'' && shape_.has_contractions) {
      if (const size_t length = ContractionBytes(text.substr(position), true)) {
        position += length;
        continue;
      }
    }
    if ((first.cls & letters) != 0) {
      position = cursor.SkipClass(position, letters);
      continue;
    }
    if ((first.cls & CharClass::kNumber) != 0) {
      for (size_t count = 0; shape_.digits_max == 0 || count < shape_.digits_max; ++count) {
        const Character digit = cursor.At(position);
        if ((digit.cls & CharClass::kNumber) == 0) break;
        position += digit.length;
      }
      continue;
    }
    const Character second = cursor.At(position + first.length);
    const bool is_line_end = first.code_point == '\r' || first.code_point == '\n';
    if (!is_line_end && (second.cls & letters) != 0) {
      position = cursor.SkipClass(position + first.length, letters);
      continue;
    }
    const Character head = first.code_point == ' ' ? second : first;
    if (head.length > 0 && (head.cls & not_symbols) == 0) {
      position = cursor.SkipOther(position + first.length, not_symbols);
      const std::string_view tail = shape_.slash_ends_symbols ? "\r\n/" : "\r\n";
      position = std::min(text.find_first_not_of(tail, position), text.size());
      continue;
    }
    if (run.end <= position) {
      run = {.end = position};
      for (Character c = first; (c.cls & CharClass::kSpace) != 0; c = cursor.At(run.end)) {
        run.last_begin = run.end;
        run.end += c.length;
        if (c.code_point == '\r' || c.code_point == '\n') run.line_end = run.end;
      }
    }
    if (run.line_end > position) {
      position = run.line_end;
    } else if (shape_.chunks_spaces) {
      position = cursor.SkipChunk(position, run);
    } else {
      position = run.end < text.size() && run.last_begin > position ? run.last_begin : run.end;
    }
  }
}

}  // namespace kvgate::tokenizer::split
