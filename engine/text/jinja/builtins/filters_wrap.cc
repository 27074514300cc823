// Layout filters: indent, center, truncate, wordwrap, wordcount.
#include <algorithm>

#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::Runtime;
using value::IsTrue;
using value::MakeFailed;
using value::String;
using value::TextBuilder;
using value::Value;

namespace {

// Accepts strings only, because Jinja2 evaluates s + "\n" first.
bool WantText(Runtime& runtime, const Value& value) {
  if (value.is_string()) return true;
  if (value.is(value::Tag::kUndefined)) {
    runtime.FailUndefined(value);
  } else {
    runtime.Fail(fmt::format("a string was expected, not '{}'", value::TypeName(value)));
  }
  return false;
}

Value Indent(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!WantText(runtime, value)) return MakeFailed();
  const Value& width = arguments.positional[0];
  Value indention = width;
  if (!width.is_string()) {
    const auto blanks = IntegerArgument(runtime, width, 4);
    if (!blanks || !runtime.Charge(std::max<int64_t>(*blanks, 0) / 8)) return MakeFailed();
    TextBuilder builder(runtime.heap());
    builder.Repeat(" ", *blanks);
    indention = runtime.Finish(builder);
    if (indention.failed()) return indention;
  }
  const bool first = !arguments.positional[1].missing() && IsTrue(arguments.positional[1]);
  const bool blank = !arguments.positional[2].missing() && IsTrue(arguments.positional[2]);
  TextBuilder with_end(runtime.heap(), *value.string);
  with_end.Append("\n");
  std::vector<Value> lines;
  if (!SplitLines(runtime, value::MakeString(with_end.Build()), false, lines)) return MakeFailed();
  TextBuilder out(runtime.heap());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.Append("\n");
    const bool indents = i == 0 ? first : blank || lines[i].string->size > 0;
    if (indents) out.Append(*indention.string);
    out.Append(*lines[i].string);
    if (!runtime.ChargeBytes(indention.string->size)) return MakeFailed();
  }
  return runtime.Finish(out, value.markup);
}

Value Center(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const String* text = runtime.ToText(value);
  const auto width =
      text == nullptr ? std::nullopt : IntegerArgument(runtime, arguments.positional[0], 80);
  if (!width) return MakeFailed();
  const Value parameters[] = {value::MakeInt(*width), Value()};
  return FindStringMethod("center")->call(runtime, value::MakeString(text, value.markup),
                                          {.positional = parameters});
}

Value Truncate(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto length = IntegerArgument(runtime, arguments.positional[0], 255);
  const Value& killwords = arguments.positional[1];
  const String* end = arguments.positional[2].missing()
                          ? runtime.MakeText("...").string
                          : StringArgument(runtime, arguments.positional[2], nullptr);
  const Value& slack = arguments.positional[3];
  const auto leeway = IntegerArgument(runtime, IsGiven(slack) ? slack : Value(), 5);
  if (!length || !leeway) return MakeFailed();
  if (end == nullptr) return runtime.Fail("truncate wants an end that is a string");
  const int64_t end_length = end->length();
  if (*length < end_length) {
    return runtime.Fail(fmt::format("expected length >= {}, got {}", end_length, *length));
  }
  if (*leeway < 0) return runtime.Fail(fmt::format("expected leeway >= 0, got {}", *leeway));
  const Value size = runtime.Length(value);
  if (size.failed() || size.integer <= *length + *leeway) return size.failed() ? size : value;
  if (!WantText(runtime, value)) return MakeFailed();
  const String& text = *value.string;
  const String* kept = value::Part(runtime.heap(), text, 0, text.OffsetOf(*length - end_length));
  if (killwords.missing() || !IsTrue(killwords)) {
    const size_t space = kept->view().rfind(' ');
    if (space != std::string_view::npos) kept = value::Part(runtime.heap(), *kept, 0, space);
  }
  TextBuilder out(runtime.heap());
  out.Append(*kept);
  out.Append(*end);
  return runtime.Finish(out, value.markup);
}

Value WordCount(Runtime& runtime, const Value& value, const Arguments&) {
  const String* text = runtime.ToText(value);
  if (text == nullptr || !runtime.ChargeBytes(8 * text->size)) return MakeFailed();
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text->size;) {
    const value::Decoded decoded = value::DecodeAt(text->view(), at);
    const bool word = decoded.code == '_' || value::IsAlnum(decoded.code);
    if (word && !inside) ++count;
    inside = word;
    at += decoded.size;
  }
  return value::MakeInt(count);
}

// --- wordwrap, breaking lines as Python's textwrap does ---------------------------------------

// One line of text, addressed by character.
class Wrapper {
 public:
  struct Options {
    int64_t width;
    bool break_long_words;
    bool break_on_hyphens;
  };
  // Characters [begin, end).
  struct Chunk {
    size_t begin;
    size_t end;
    size_t size() const { return end - begin; }
  };

  Wrapper(std::string_view text, const Options& options) : options_(options) {
    for (size_t at = 0; at < text.size();) {
      const value::Decoded decoded = value::DecodeAt(text, at);
      codes_.push_back(decoded.code);
      offsets_.push_back(at);
      at += decoded.size;
    }
    offsets_.push_back(text.size());
  }

  // Returns the byte ranges of the lines.
  std::vector<Chunk> Lines() {
    std::vector<Chunk> chunks;
    for (size_t at = 0; at < codes_.size(); at = chunks.back().end) {
      chunks.push_back({at, ChunkEnd(at)});
    }
    std::reverse(chunks.begin(), chunks.end());
    std::vector<Chunk> lines;
    while (!chunks.empty()) TakeLine(chunks, lines);
    for (Chunk& line : lines) line = {offsets_[line.begin], offsets_[line.end]};
    return lines;
  }

 private:
  char32_t At(size_t i) const { return i < codes_.size() ? codes_[i] : 0; }
  bool IsBlank(size_t i) const { return At(i) == ' ' || (At(i) >= 9 && At(i) <= 13); }
  bool IsWord(size_t i) const {
    return i < codes_.size() && (codes_[i] == '_' || value::IsAlnum(codes_[i]));
  }
  bool IsLetter(size_t i) const { return IsWord(i) && !value::IsDecimal(codes_[i]); }
  bool IsBlankChunk(const Chunk& chunk) const {
    return std::all_of(codes_.begin() + static_cast<ptrdiff_t>(chunk.begin),
                       codes_.begin() + static_cast<ptrdiff_t>(chunk.end), value::IsSpace);
  }

  // Returns the length of a dash between words that begins at `at`, or 0 if none does.
  size_t DashAt(size_t at) const {
    if (at == 0) return 0;
    const char32_t before = codes_[at - 1];
    const bool joins = IsWord(at - 1) || before == '!' || before == '"' || before == '\'' ||
                       before == '&' || before == '.' || before == ',' || before == '?';
    if (!joins) return 0;  // also inside a run of dashes, which counts once
    size_t end = at;
    while (At(end) == '-') ++end;
    return end - at >= 2 && IsWord(end) ? end - at : 0;
  }
  // Returns true if a word may be broken after the hyphen at `at`.
  bool CutsBehind(size_t at) const {
    if (At(at) != '-' || at < 2 || !IsLetter(at - 1)) return false;
    const bool before = IsLetter(at - 2) || (at >= 3 && codes_[at - 2] == '-' && IsLetter(at - 3));
    return before && IsLetter(at + 1) &&
           (IsLetter(at + 2) || (At(at + 2) == '-' && IsLetter(at + 3)));
  }
  size_t ChunkEnd(size_t at) const {
    size_t end = at;
    if (IsBlank(at)) {
      while (end < codes_.size() && IsBlank(end)) ++end;
      return end;
    }
    if (options_.break_on_hyphens) {
      if (const size_t dashes = DashAt(at); dashes > 0) return at + dashes;
    }
    for (end = at + 1; end < codes_.size() && !IsBlank(end); ++end) {
      if (!options_.break_on_hyphens) continue;
      if (CutsBehind(end)) return end + 1;
      if (DashAt(end) > 0) return end;
    }
    return end;
  }

  // `chunks` is in reverse order. A line is one range, because its chunks are adjacent.
  void TakeLine(std::vector<Chunk>& chunks, std::vector<Chunk>& lines) {
    const auto width = static_cast<size_t>(options_.width);
    if (!lines.empty() && IsBlankChunk(chunks.back())) chunks.pop_back();
    if (chunks.empty()) return;
    Chunk line{chunks.back().begin, chunks.back().begin};
    Chunk last = line;
    while (!chunks.empty() && line.size() + chunks.back().size() <= width) {
      last = chunks.back();
      line.end = last.end;
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > width) {
      Chunk& word = chunks.back();
      if (options_.break_long_words) {
        const size_t cut = word.begin + LongWordCut(word, width - line.size());
        last = {word.begin, cut};
        line.end = cut;
        word.begin = cut;
      } else if (line.size() == 0) {
        last = word;
        line.end = word.end;
        chunks.pop_back();
      }
    }
    if (last.size() > 0 && IsBlankChunk(last)) line.end = last.begin;
    if (line.size() > 0) lines.push_back(line);
  }

  size_t LongWordCut(const Chunk& word, size_t space_left) const {
    if (!options_.break_on_hyphens) return space_left;
    for (size_t cut = space_left; cut-- > 1;) {
      if (codes_[word.begin + cut] != '-') continue;
      for (size_t i = 0; i < cut; ++i) {
        if (codes_[word.begin + i] != '-') return cut + 1;
      }
      break;
    }
    return space_left;
  }

  Options options_;
  std::vector<char32_t> codes_;
  std::vector<size_t> offsets_;
};

Value WordWrap(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!value.is_string()) return runtime.Fail("wordwrap wants a string");
  const auto width = IntegerArgument(runtime, arguments.positional[0], 79);
  if (!width) return MakeFailed();
  const Value& long_words = arguments.positional[1];
  const Value& separator = arguments.positional[2];
  const Value& hyphens = arguments.positional[3];
  const Wrapper::Options options{.width = *width,
                                 .break_long_words = long_words.missing() || IsTrue(long_words),
                                 .break_on_hyphens = hyphens.missing() || IsTrue(hyphens)};
  const String* newline = IsGiven(separator) ? StringArgument(runtime, separator, nullptr)
                                             : runtime.MakeText("\n").string;
  if (newline == nullptr) return MakeFailed();
  std::vector<Value> lines;
  if (!SplitLines(runtime, value, false, lines)) return MakeFailed();
  if (*width <= 0 && !lines.empty()) return runtime.Fail("invalid width (must be > 0)");
  TextBuilder out(runtime.heap());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!runtime.ChargeBytes(32 * lines[i].string->size)) return MakeFailed();
    if (i > 0) out.Append(*newline);
    bool first = true;
    for (const Wrapper::Chunk& line : Wrapper(lines[i].text(), options).Lines()) {
      if (!std::exchange(first, false)) out.Append(*newline);
      out.Append(*value::Part(runtime.heap(), *lines[i].string, line.begin, line.end));
    }
  }
  return runtime.Finish(out);
}

constexpr runtime::FunctionSpec kFilters[] = {
    {"indent", "width? first? blank?", Indent},
    {"center", "width?", Center},
    {"truncate", "length? killwords? end? leeway?", Truncate},
    {"wordcount", "", WordCount},
    {"wordwrap", "width? break_long_words? wrapstring? break_on_hyphens?", WordWrap},
};

}  // namespace

std::span<const runtime::FunctionSpec> WrapFilters() { return kFilters; }

}  // namespace kvgate::jinja::builtins
