// TextLines is the table of a text's lines: where each stands, its hash and that of its mask. It
// holds no text, so that a conversation can keep it. AlignLines pairs the lines of two versions of
// a text, also where lines were inserted, removed or moved. Pure; any thread; n log n in the lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::prompt::templates {

// The neighbours of a text's first and last line.
inline constexpr uint64_t kTextBegin = 1;
inline constexpr uint64_t kTextEnd = 2;

struct TextLine {
  uint32_t begin = 0;  // the line without white space at its ends
  uint32_t end = 0;
  uint64_t hash = 0;
  uint64_t mask = 0;
  uint64_t head = 0;  // as HeadOf
  uint32_t num_words = 0;
  // It may become a slot: it stands alone or has a context, stands in no code fence, is no billing
  // header, and is told from all other lines of its mask by the lines beside it.
  bool may_change = true;
  bool stands_alone = true;  // it has words, or a long value
  bool is_repeated = false;  // another line of the text has its mask
  std::string_view In(std::string_view text) const { return text.substr(begin, end - begin); }
};

class TextLines {
 public:
  TextLines() = default;
  // Lines that `before` has too (may be null) are not masked again.
  TextLines(std::string_view text, const TextLines* before);

  size_t size() const { return lines_.size(); }  // without blank lines
  const TextLine& operator[](size_t i) const { return lines_[i]; }
  // The masks of the lines beside line i.
  uint64_t MaskBefore(size_t i) const { return i == 0 ? kTextBegin : lines_[i - 1].mask; }
  uint64_t MaskAfter(size_t i) const {
    return i + 1 == lines_.size() ? kTextEnd : lines_[i + 1].mask;
  }
  // Returns what line i is known by: its mask, and that of the lines beside it if it is repeated.
  uint64_t KeyOf(size_t i) const;
  // Returns the line with words that says what the value in line i is of: the nearest one of a few
  // in front; nullopt if there is none.
  std::optional<size_t> ContextOf(size_t i) const;
  size_t num_bytes() const { return lines_.size() * sizeof(TextLine); }

 private:
  void MarkRepeated();
  std::vector<TextLine> lines_;
};

// A line with fewer words is known only by a neighbour as well.
inline constexpr uint32_t kTellingWords = 3;

enum class LineChange : uint8_t {
  kNone,
  kValues,  // the keys are equal
  kWords,   // the line stands between the same lines
};
struct LinePair {
  uint32_t before = 0;
  uint32_t now = 0;
  LineChange change = LineChange::kNone;
};
// Returns the pairs in the order of `now`. Lines without a partner are new, or are gone.
std::vector<LinePair> AlignLines(const TextLines& before, const TextLines& now);

// Returns the lines of `now` whose values differ from those in `before`; nullopt if anything else
// differs, or if a line has too few words to be known again.
std::optional<std::vector<std::string>> ChangedValues(std::string_view before,
                                                      std::string_view now);

}  // namespace kvgate::prompt::templates
