#include "gateway/prompt/parse/volatile_line.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "gateway/prompt/parse/volatile_values.h"

namespace kvgate::prompt::parse {
namespace {

// A longer line is prose.
constexpr size_t kLineBytesMax = 256;

constexpr std::array<std::string_view, 2> kCounterLabels = {"Token usage:", "USD budget:"};
constexpr std::array<std::string_view, 4> kCounterTags = {"total_tokens", "tokens_left",
                                                          "token_usage", "token_budget"};
constexpr std::array<std::string_view, 10> kCounterWords = {
    "token", "tokens", "usage", "usd", "budget", "left", "remaining", "used", "total", "spent"};

template <size_t N>
bool Has(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Value {
  size_t begin;
  size_t end;
  VolatileKind kind;
};

// The values of a piece of text that consists of values and labels alone.
struct Piece {
  std::vector<Value> values;
  bool labelled = false;
};

class PieceReader {
 public:
  PieceReader(std::string_view text, size_t begin, size_t end, std::string_view tag)
      : text_(text.substr(0, end)), begin_(begin), end_(end), tag_(tag) {}

  std::optional<Piece> Read() {
    Piece piece;
    piece.labelled = !tag_.empty();
    counter_ = Has(kCounterTags, tag_) ||
               std::any_of(kCounterLabels.begin(), kCounterLabels.end(),
                           [&](auto label) { return text_.substr(begin_).starts_with(label); });
    if (!ReadValues(piece) || piece.values.empty() || !ReadWords(piece)) return std::nullopt;
    return piece;
  }

 private:
  bool ReadValues(Piece& piece) const {
    size_t at = begin_;
    while (at < end_) {
      if (!IsDigit(text_[at])) {
        ++at;
        continue;
      }
      const size_t floor = piece.values.empty() ? begin_ : piece.values.back().end;
      if (const auto value = VolatileValue(text_, at, floor); value && value->end <= end_) {
        piece.values.push_back({value->begin, value->end, value->kind});
      } else if (counter_) {
        piece.values.push_back({at, NumberEnd(at), VolatileKind::kCounter});
      } else {
        return false;
      }
      at = piece.values.back().end;
    }
    return true;
  }
  size_t NumberEnd(size_t at) const {
    while (at < end_ && (IsDigit(text_[at]) || ((text_[at] == '.' || text_[at] == ',') &&
                                                at + 1 < end_ && IsDigit(text_[at + 1])))) {
      ++at;
    }
    return at;
  }

  bool ReadWords(Piece& piece) const {
    size_t words = 0;
    size_t at = begin_;
    for (size_t i = 0; i <= piece.values.size(); ++i) {
      const size_t until = i < piece.values.size() ? piece.values[i].begin : end_;
      while (at < until) {
        if (static_cast<unsigned char>(text_[at]) >= 0x80) return false;
        size_t run = at;
        while (run < until && (IsLetter(text_[run]) || text_[run] == '_')) ++run;
        if (run > at) {
          if (++words > kPlainWordsMax || !IsLabel(text_.substr(at, run - at))) return false;
          piece.labelled = true;
        }
        at = run > at ? run : at + 1;
      }
      if (i < piece.values.size()) at = piece.values[i].end;
    }
    return true;
  }
  bool IsLabel(std::string_view word) const {
    std::string lower(word);
    for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return IsPlainWord(word) || (counter_ && Has(kCounterWords, lower));
  }

  const std::string_view text_;
  const size_t begin_;
  const size_t end_;
  const std::string_view tag_;
  bool counter_ = false;
};

struct Line {
  std::string text;    // with the tag around it
  std::string values;  // unchanged, each with a NUL behind it
};

// Reads a text: the text with its values cut out, and the lines on which they stand.
class Reader {
 public:
  Reader(std::string_view text, bool labelled) : text_(text), labelled_(labelled) {}

  void Run() {
    size_t at = 0;
    // NUL stands for a cut value, so a text that contains NUL itself is compared as a whole.
    if (text_.find('\0') != std::string_view::npos) at = text_.size();
    while (at < text_.size()) {
      size_t end = text_.find('\n', at);
      if (end == std::string_view::npos) end = text_.size();
      ReadLine(at, end);
      at = end + 1;
    }
    left_.append(text_.substr(kept_));
  }
  const std::string& left() const { return left_; }
  const std::vector<Line>& lines() const { return lines_; }

 private:
  struct Tag {
    std::string_view name;  // empty: there is none here
    bool closes = false;
    size_t end = 0;
  };
  Tag TagAt(size_t at, size_t end) const {
    Tag tag{.name = {}, .closes = at + 1 < end && text_[at + 1] == '/', .end = at};
    const size_t name = at + (tag.closes ? 2 : 1);
    size_t run = name;
    while (run < end && (IsLetter(text_[run]) || text_[run] == '_' || text_[run] == '-')) ++run;
    if (run > name && run < end && text_[run] == '>') {
      tag.name = text_.substr(name, run - name);
      tag.end = run + 1;
    }
    return tag;
  }

  // Reads the pieces between the tags of a line.
  void ReadLine(size_t begin, size_t end) {
    size_t piece = begin;
    Tag opening;
    size_t opened = begin;
    for (size_t at = begin; at < end;) {
      const Tag tag = text_[at] == '<' ? TagAt(at, end) : Tag{};
      if (tag.name.empty()) {
        ++at;
        continue;
      }
      const bool around = tag.closes && tag.name == opening.name;
      ReadPiece({piece, at}, around ? opening.name : "",
                around ? Bounds{opened, tag.end} : Bounds{piece, at});
      opening = tag.closes ? Tag{} : tag;
      opened = at;
      piece = at = tag.end;
    }
    ReadPiece({piece, end}, "", {piece, end});
  }

  struct Bounds {
    size_t begin;
    size_t end;
  };
  Bounds Trimmed(Bounds piece) const {
    const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (piece.begin < piece.end && is_space(text_[piece.begin])) ++piece.begin;
    while (piece.end > piece.begin && is_space(text_[piece.end - 1])) --piece.end;
    return piece;
  }
  void ReadPiece(Bounds piece, std::string_view tag, Bounds said) {
    piece = Trimmed(piece);
    said = Trimmed(said);
    if (piece.begin == piece.end || piece.end - piece.begin > kLineBytesMax) return;
    const std::optional<Piece> found = PieceReader(text_, piece.begin, piece.end, tag).Read();
    if (!found || (labelled_ && !found->labelled)) return;
    Line& line = lines_.emplace_back();
    line.text = text_.substr(said.begin, said.end - said.begin);
    for (const Value& value : found->values) {
      left_.append(text_.substr(kept_, value.begin - kept_));
      left_ += '\0';
      left_ += static_cast<char>(value.kind);
      line.values.append(text_.substr(value.begin, value.end - value.begin)) += '\0';
      kept_ = value.end;
    }
  }

  const std::string_view text_;
  const bool labelled_;
  size_t kept_ = 0;  // left_ covers the text up to here
  std::string left_;
  std::vector<Line> lines_;
};

}  // namespace

std::optional<std::vector<std::string>> ChangedLines(std::string_view before, std::string_view now,
                                                     bool labelled) {
  std::vector<std::string> changed;
  if (before == now) return changed;
  Reader old(before, labelled);
  Reader own(now, labelled);
  old.Run();
  own.Run();
  if (old.left() != own.left() || old.lines().size() != own.lines().size()) return std::nullopt;
  for (size_t i = 0; i < own.lines().size(); ++i) {
    if (own.lines()[i].values != old.lines()[i].values) changed.push_back(own.lines()[i].text);
  }
  return changed;
}

bool HasLabelledValue(std::string_view text) {
  Reader reader(text, true);
  reader.Run();
  return !reader.lines().empty();
}

bool AreOfOneSlot(std::string_view a, std::string_view b) {
  if (ChangedLines(a, b, true)) return true;
  const auto one_span = [](std::string_view text) -> std::optional<VolatileKind> {
    const std::vector<VolatileSpan> spans = FindVolatile(text);
    if (spans.size() != 1 || spans[0].begin != 0 || spans[0].end != text.size()) return {};
    return spans[0].kind;
  };
  const std::optional<VolatileKind> kind = one_span(a);
  const bool is_block = kind == VolatileKind::kCwd || kind == VolatileKind::kGitStatus ||
                        kind == VolatileKind::kFileList || kind == VolatileKind::kEnvironment;
  if (!is_block || one_span(b) != kind) return false;
  const auto label = [](std::string_view text) { return text.substr(0, text.find_first_of(":>")); };
  return label(a) == label(b);
}

bool AreBillingHeaders(std::string_view before, std::string_view now) {
  const auto is_one = [](std::string_view text) {
    if (!text.starts_with(kBillingHeaderName) || text.size() > kLineBytesMax) return false;
    // Each word must be a name with a value, so that no word can be prose.
    for (size_t at = kBillingHeaderName.size(); at < text.size();) {
      size_t end = std::min(text.find(' ', at), text.size());
      const std::string_view word = text.substr(at, end - at);
      if (!word.empty() && word.find('=') == std::string_view::npos) return false;
      at = end + 1;
    }
    return true;
  };
  return is_one(before) && is_one(now);
}

}  // namespace kvgate::prompt::parse
