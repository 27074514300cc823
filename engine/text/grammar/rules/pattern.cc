#include "engine/text/grammar/rules/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/hex.h"
#include "base/utf8.h"
#include "engine/text/grammar/rules/grammar.h"

namespace kvgate::grammar::rules {
namespace {

// The characters that every engine puts in a class, and those that some engine does.
struct Kind {
  CharSet surely;
  CharSet maybe;
};

CharSet BeyondAscii() { return {{0x80, kLastChar}}; }

Kind OfAscii(CharSet members) {
  Kind kind{.surely = members, .maybe = members};
  kind.maybe.Add(BeyondAscii());
  return kind;
}

Kind OppositeOf(const Kind& kind) {
  return {.surely = kind.maybe.Complement(), .maybe = kind.surely.Complement()};
}

Kind DigitKind() { return OfAscii({{'0', '9'}}); }
Kind WordKind() { return OfAscii({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}); }
// Some engines count the separators 1C to 1F as white space.
Kind SpaceKind() {
  Kind kind = OfAscii({{'\t', '\r'}, {' ', ' '}});
  kind.maybe.Add(CharRange{0x1C, 0x1F});
  return kind;
}
CharSet Dot() { return CharSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).Complement(); }

class PatternParser {
 public:
  PatternParser(std::string_view text, const PatternLimits& limits)
      : text_(text), limits_(limits) {}

  // A part of the automaton with one entry and one exit.
  struct Part {
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  Result<Pattern> Parse() {
    do {
      KVGATE_TRY_VOID(ParseBranch());
    } while (Take('|'));
    if (!AtEnd()) return Unsupported("this )");
    if (!plain_.states.empty()) pattern_.branches.push_back({{.nfa = std::move(plain_)}});
    return std::move(pattern_);
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  bool At(char c) const { return !AtEnd() && text_[at_] == c; }
  bool AtText(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  bool Take(char c) {
    if (!At(c)) return false;
    ++at_;
    return true;
  }

  Error Unsupported(std::string_view what) const {
    return MakeError(ErrorCode::kUnsupported, "grammar.schema",
                     fmt::format("{} at character {} of the pattern is not supported", what,
                                 std::min(at_, text_.size()) + 1));
  }
  Error Invalid(std::string_view what) const {
    return MakeError(ErrorCode::kInvalidArgument, "grammar.schema",
                     fmt::format("the pattern is none: {} at character {}", what, at_ + 1));
  }
  Error TooLarge() const {
    return MakeError(ErrorCode::kTooLarge, "grammar.schema",
                     fmt::format("the pattern needs more than {} states", limits_.states_max));
  }

  uint32_t AddState() {
    nfa_.states.emplace_back();
    return static_cast<uint32_t>(nfa_.states.size() - 1);
  }
  void Link(uint32_t from, uint32_t to) { nfa_.states[from].empty_edges.push_back(to); }

  Part AddChars(const CharSet& set) {
    const Part part = {.begin = AddState(), .end = AddState()};
    if (!set.empty()) nfa_.states[part.begin].edges.push_back({set, part.end});
    return part;
  }

  Part AddAnything() {
    Part part = AddChars(CharSet::All());
    Link(part.end, part.begin);
    return {.begin = part.begin, .end = part.begin};
  }

  Part Join(Part a, Part b) {
    Link(a.end, b.begin);
    return {.begin = a.begin, .end = b.end};
  }

  // Branches without lookaheads share one automaton.
  Result<void> ParseBranch() {
    const bool from_begin = Take('^');
    PatternBranch lookaheads;
    while (from_begin && (AtText("(?=") || AtText("(?!"))) {
      KVGATE_TRY(PatternPart part, ParseLookahead());
      lookaheads.push_back(std::move(part));
    }
    nfa_ = lookaheads.empty() ? std::move(plain_) : CharNfa();
    KVGATE_TRY_VOID(ParseAnchored(from_begin, 0));
    if (nfa_.states.size() > limits_.states_max) return TooLarge();
    if (lookaheads.empty()) {
      plain_ = std::move(nfa_);
    } else {
      lookaheads.push_back({.nfa = std::move(nfa_)});
      pattern_.branches.push_back(std::move(lookaheads));
    }
    return {};
  }

  Result<PatternPart> ParseLookahead() {
    PatternPart part{.nfa = {}, .negated = text_[at_ + 2] == '!'};
    at_ += 3;
    nfa_ = {};
    do {
      Take('^');
      KVGATE_TRY_VOID(ParseAnchored(true, 1));
    } while (Take('|'));
    if (!Take(')')) return Invalid("a ) is missing");
    if (nfa_.states.size() > limits_.states_max) return TooLarge();
    part.nfa = std::move(nfa_);
    return part;
  }

  // Parses a branch into nfa_; the first branch creates its start and accept states.
  Result<void> ParseAnchored(bool from_begin, int depth) {
    if (nfa_.states.empty()) {
      AddState();
      nfa_.accept = AddState();
    }
    KVGATE_TRY(Part part, ParseSequence(depth, true));
    const bool to_end = Take('$');
    const bool ends = AtEnd() || At('|') || (depth > 0 && At(')'));
    if (to_end && !ends) return Unsupported("$ elsewhere than at an end");
    if (!from_begin) part = Join(AddAnything(), part);
    if (!to_end) part = Join(part, AddAnything());
    Link(0, part.begin);
    Link(part.end, nfa_.accept);
    return {};
  }

  Result<Part> ParseSequence(int depth, bool anchored) {
    const uint32_t state = AddState();
    Part sequence = {.begin = state, .end = state};
    while (!AtEnd() && !At('|') && !At(')')) {
      if (At('$') && anchored) break;
      KVGATE_TRY(const Part part, ParseRepeated(depth));
      if (nfa_.states.size() > limits_.states_max) return TooLarge();
      sequence = Join(sequence, part);
    }
    return sequence;
  }

  // A repeated part is parsed again for each copy, so that every copy gets its own states.
  Result<Part> ParseRepeated(int depth) {
    const size_t begin = at_;
    KVGATE_TRY(Part part, ParsePart(depth));
    KVGATE_TRY(const std::optional<RepeatCount> count, TakeCount());
    if (!count) return part;
    const size_t behind = at_;
    if (count->max == 0) {
      const uint32_t state = AddState();
      return Part{.begin = state, .end = state};
    }
    const uint32_t out = AddState();
    const uint32_t in = AddState();
    Link(in, part.begin);
    uint32_t num_copies = 1;
    if (count->min == 0) Link(in, out);
    const uint32_t wanted = count->max == kUnbounded ? std::max(count->min, 1u) : count->max;
    while (num_copies < wanted) {
      if (num_copies >= count->min) Link(part.end, out);
      at_ = begin;
      KVGATE_TRY(const Part copy, ParsePart(depth));
      if (nfa_.states.size() > limits_.states_max) return TooLarge();
      Link(part.end, copy.begin);
      part = copy;
      ++num_copies;
    }
    if (count->max == kUnbounded) Link(part.end, part.begin);
    Link(part.end, out);
    at_ = behind;
    return Part{.begin = in, .end = out};
  }

  Result<std::optional<RepeatCount>> TakeCount() {
    std::optional<RepeatCount> count;
    if (Take('*')) {
      count = RepeatCount{};
    } else if (Take('+')) {
      count = RepeatCount{.min = 1};
    } else if (Take('?')) {
      count = RepeatCount{.min = 0, .max = 1};
    } else if (Take('{')) {
      KVGATE_TRY(count, TakeBraces());
    } else {
      return count;
    }
    Take('?');  // lazy repetition matches the same texts
    if (At('*') || At('+') || At('?') || At('{')) return Unsupported("a second repetition");
    return count;
  }

  Result<uint32_t> TakeNumber() {
    const size_t begin = at_;
    uint32_t number = 0;
    while (!AtEnd() && text_[at_] >= '0' && text_[at_] <= '9') {
      number = number * 10 + static_cast<uint32_t>(text_[at_++] - '0');
      if (number > limits_.states_max) return TooLarge();
    }
    if (at_ == begin) return Invalid("a number is missing");
    return number;
  }

  Result<RepeatCount> TakeBraces() {
    RepeatCount count;
    KVGATE_TRY(count.min, TakeNumber());
    count.max = count.min;
    if (Take(',')) {
      count.max = kUnbounded;
      if (!At('}')) {
        KVGATE_TRY(count.max, TakeNumber());
      }
    }
    if (!Take('}')) return Invalid("a } is missing");
    if (count.max < count.min) return Invalid("a repetition that ends before it begins");
    return count;
  }

  Result<Part> ParsePart(int depth) {
    switch (text_[at_]) {
      case '(':
        return ParseGroup(depth);
      case '[': {
        KVGATE_TRY(const CharSet set, ParseClass());
        return AddChars(set);
      }
      case '.':
        ++at_;
        return AddChars(Dot());
      case '^':
        return Unsupported("^ elsewhere than at a beginning");
      case '$':
        return Unsupported("$ elsewhere than at an end");
      case '*':
      case '+':
      case '?':
      case '{':
        return Invalid("nothing to repeat");
      case '\\': {
        KVGATE_TRY(const Kind kind, TakeEscape());
        return AddChars(kind.surely);
      }
      default:
        return AddChars(CharSet::Of(TakeCharacter()));
    }
  }

  Result<Part> ParseGroup(int depth) {
    ++at_;
    if (depth == limits_.depth_max) return Unsupported("a group so deep in others");
    if (Take('?')) {
      if (Take('<') && !At('=') && !At('!')) {
        at_ = std::min(text_.find('>', at_), text_.size() - 1) + 1;
      } else if (!Take(':')) {
        return Unsupported("a group of this kind");
      }
    }
    const Part group = {.begin = AddState(), .end = AddState()};
    do {
      KVGATE_TRY(const Part part, ParseSequence(depth + 1, false));
      Link(group.begin, part.begin);
      Link(part.end, group.end);
    } while (Take('|'));
    if (!Take(')')) return Invalid("a ) is missing");
    return group;
  }

  char32_t TakeCharacter() {
    const Utf8Step step = NextUtf8(text_.substr(at_));
    at_ += step.length;
    return step.code_point;
  }

  Result<Kind> TakeHex(size_t digits) {
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const int digit = AtEnd() ? -1 : HexDigit(text_[at_]);
      if (digit < 0) return Invalid("a hex digit is missing");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value > kLastChar || (value >= 0xD800 && value < 0xE000)) {
      return Unsupported("this character");
    }
    return One(value);
  }

  static Kind One(char32_t character) {
    return {.surely = CharSet::Of(character), .maybe = CharSet::Of(character)};
  }

  Result<Kind> TakeEscape() {
    ++at_;
    if (AtEnd()) return Invalid("an escape without a character");
    const char c = text_[at_];
    static constexpr std::string_view kPunctuation = "^$\\.*+?()[]{}|/-\"'#&,:;<=>@!%~` _";
    if (kPunctuation.find(c) != std::string_view::npos) {
      ++at_;
      return One(static_cast<char32_t>(c));
    }
    static constexpr std::string_view kNames = "nrtfv0";
    static constexpr std::string_view kValues("\n\r\t\f\v\0", 6);
    if (const size_t index = kNames.find(c); index != std::string_view::npos) {
      ++at_;
      return One(static_cast<char32_t>(kValues[index]));
    }
    ++at_;
    switch (c) {
      case 'd':
        return DigitKind();
      case 'D':
        return OppositeOf(DigitKind());
      case 'w':
        return WordKind();
      case 'W':
        return OppositeOf(WordKind());
      case 's':
        return SpaceKind();
      case 'S':
        return OppositeOf(SpaceKind());
      case 'x':
        return TakeHex(2);
      case 'u': {
        if (!Take('{')) return TakeHex(4);
        const size_t end = text_.find('}', at_);
        if (end == std::string_view::npos || end - at_ > 6 || end == at_) {
          return Invalid("a \\u{} without a number");
        }
        KVGATE_TRY(const Kind kind, TakeHex(end - at_));
        ++at_;
        return kind;
      }
      default:
        --at_;
        return Unsupported(fmt::format("the escape \\{}", c));
    }
  }

  Result<CharSet> ParseClass() {
    ++at_;
    const bool negated = Take('^');
    std::vector<CharRange> surely;
    std::vector<CharRange> maybe;
    const auto append = [](const CharSet& set, std::vector<CharRange>& ranges) {
      ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    };
    while (!At(']')) {
      if (AtEnd()) return Invalid("a ] is missing");
      KVGATE_TRY(const Kind first, TakeClassMember());
      const bool is_range = At('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!is_range) {
        append(first.surely, surely);
        append(first.maybe, maybe);
        continue;
      }
      ++at_;
      KVGATE_TRY(const Kind last, TakeClassMember());
      const std::optional<char32_t> from = OneOf(first);
      const std::optional<char32_t> to = OneOf(last);
      if (!from || !to) return Unsupported("a range of classes");
      if (*to < *from) return Invalid("a range that ends before it begins");
      surely.push_back({*from, *to});
      maybe.push_back({*from, *to});
    }
    ++at_;
    return negated ? CharSet::OfRanges(std::move(maybe)).Complement()
                   : CharSet::OfRanges(std::move(surely));
  }

  static std::optional<char32_t> OneOf(const Kind& kind) {
    const auto ranges = kind.maybe.ranges();
    if (ranges.size() != 1 || ranges[0].first != ranges[0].last) return std::nullopt;
    return ranges[0].first;
  }

  Result<Kind> TakeClassMember() {
    if (AtEnd()) return Invalid("a ] is missing");
    if (!At('\\')) return One(TakeCharacter());
    if (at_ + 1 < text_.size() && text_[at_ + 1] == 'b') {
      at_ += 2;
      return One(U'\b');
    }
    return TakeEscape();
  }

  const std::string_view text_;
  const PatternLimits& limits_;
  size_t at_ = 0;
  CharNfa nfa_;    // the automaton being built
  CharNfa plain_;  // of the branches without lookaheads
  Pattern pattern_;
};

}  // namespace

Result<Pattern> ParsePattern(std::string_view text, const PatternLimits& limits) {
  return PatternParser(text, limits).Parse();
}

Pattern PatternOfTexts(std::span<const std::string> texts) {
  constexpr uint32_t kAccept = 1;
  CharNfa nfa;
  nfa.states.resize(2);
  nfa.accept = kAccept;
  std::map<std::pair<uint32_t, char32_t>, uint32_t> tree;
  for (std::string_view text : texts) {
    uint32_t at = 0;
    while (!text.empty()) {
      const Utf8Step step = NextUtf8(text);
      text.remove_prefix(step.length);
      const auto next = static_cast<uint32_t>(nfa.states.size());
      const auto [place, is_new] = tree.try_emplace({at, step.code_point}, next);
      if (is_new) {
        nfa.states[at].edges.push_back(
            {.characters = CharSet::Of(step.code_point), .target = next});
        nfa.states.emplace_back();
      }
      at = place->second;
    }
    std::vector<uint32_t>& empty = nfa.states[at].empty_edges;
    if (empty.empty()) empty.push_back(kAccept);  // already there if a text occurs twice
  }
  return {.branches = {{{.nfa = std::move(nfa)}}}};
}

}  // namespace kvgate::grammar::rules
