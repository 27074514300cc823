// The methods of Python's str that return strings and lists of strings.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"
#include "engine/text/jinja/builtins/formatting.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::Runtime;
using value::CaseMapping;
using value::CharacterBefore;
using value::DecodeAt;
using value::Decoded;
using value::EmptyString;
using value::FindText;
using value::MakeFailed;
using value::Origin;
using value::Part;
using value::String;
using value::TextBuilder;
using value::ToLower;
using value::Value;

namespace {

using Mapping = CaseMapping (*)(char32_t);
constexpr size_t kNowhere = std::string_view::npos;

void AppendMapped(const CaseMapping& mapping, Origin origin, TextBuilder& out) {
  for (const char32_t code : mapping) {
    if (code != 0 || &code == mapping.data()) out.AppendCharacter(code, origin);
  }
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<signed char>(c) >= 0; });
}

// Maps every character with the mapping that choose(code) returns.
template <typename Choose>
Value MapCharacters(Runtime& runtime, const Value& text, Choose choose) {
  TextBuilder out(runtime.heap());
  value::VisitRuns(*text.string, [&](std::string_view part, Origin origin) {
    std::string ascii;
    for (size_t at = 0; at < part.size();) {
      const Decoded decoded = DecodeAt(part, at);
      at += decoded.size;
      const CaseMapping mapping = choose(decoded.code)(decoded.code);
      if (mapping[0] < 0x80 && mapping[1] == 0) {
        ascii += static_cast<char>(mapping[0]);
        continue;
      }
      out.Append(ascii, origin);
      ascii.clear();
      AppendMapped(mapping, origin, out);
    }
    out.Append(ascii, origin);
  });
  if (!runtime.ChargeBytes(24 * text.string->size)) return MakeFailed();
  return runtime.Finish(out, text.markup);
}

CaseMapping Same(char32_t code) { return {code, 0, 0}; }

// 'Σ' at the end of a word becomes 'ς', the only mapping that depends on context.
bool EndsWord(std::string_view text, size_t sigma) {
  const auto is_cased = [](char32_t c) {
    return value::IsUpper(c) || value::IsLower(c) || value::IsTitlecase(c);
  };
  const auto is_ignored = [](char32_t c) {
    return c == '\'' || c == 0x2019 || c == '.' || c == 0xAD;
  };
  bool before = false;
  for (size_t at = sigma; at > 0;) {
    at = CharacterBefore(text, at);
    const char32_t code = DecodeAt(text, at).code;
    if (is_ignored(code)) continue;
    before = is_cased(code);
    break;
  }
  for (size_t at = sigma + 2; before && at < text.size();) {
    const Decoded decoded = DecodeAt(text, at);
    if (!is_ignored(decoded.code)) return !is_cased(decoded.code);
    at += decoded.size;
  }
  return before;
}

Value Title(Runtime& runtime, const Value& self, const Arguments&) {
  bool inside = false;
  return MapCharacters(runtime, self, [&](char32_t code) -> Mapping {
    const bool cased = value::IsUpper(code) || value::IsLower(code) || value::IsTitlecase(code);
    const bool starts = !std::exchange(inside, cased);
    return starts ? &value::ToTitle : &ToLower;
  });
}

Value Swapcase(Runtime& runtime, const Value& self, const Arguments&) {
  return MapCharacters(runtime, self, [](char32_t code) -> Mapping {
    return value::IsUpper(code) ? &ToLower : value::IsLower(code) ? &value::ToUpper : &Same;
  });
}

template <bool kLeft, bool kRight>
Value Strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const String* chars = nullptr;
  if (IsGiven(arguments.positional[0])) {
    chars = StringArgument(runtime, arguments.positional[0], nullptr);
    if (chars == nullptr) return MakeFailed();
  }
  return StripText(runtime, self, chars, kLeft, kRight);
}

// --- splitting and joining --------------------------------------------------------------------

// Splits at white space, at most `most` times, from the left or from the right.
std::vector<Value> SplitBlanks(Runtime& runtime, const Value& text, int64_t most, bool from_right) {
  const std::string_view all = text.text();
  std::vector<Value> parts;
  const auto is_space = [&](size_t at) { return value::IsSpace(DecodeAt(all, at).code); };
  if (!from_right) {
    size_t at = 0;
    for (;;) {
      while (at < all.size() && is_space(at)) at += DecodeAt(all, at).size;
      if (at == all.size()) break;
      if (most-- == 0) {
        const Value rest = PartOf(runtime, text, at, all.size());
        parts.push_back(StripText(runtime, rest, nullptr, false, true));
        break;
      }
      const size_t begin = at;
      while (at < all.size() && !is_space(at)) at += DecodeAt(all, at).size;
      parts.push_back(PartOf(runtime, text, begin, at));
    }
    return parts;
  }
  size_t end = all.size();
  for (;;) {
    while (end > 0 && is_space(CharacterBefore(all, end))) end = CharacterBefore(all, end);
    if (end == 0) break;
    if (most-- == 0) {
      parts.push_back(StripText(runtime, PartOf(runtime, text, 0, end), nullptr, true, false));
      break;
    }
    const size_t last = end;
    while (end > 0 && !is_space(CharacterBefore(all, end))) end = CharacterBefore(all, end);
    parts.push_back(PartOf(runtime, text, end, last));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> SplitAt(Runtime& runtime, const Value& text, std::string_view separator,
                           int64_t most, bool from_right) {
  const std::string_view all = text.text();
  std::vector<Value> parts;
  if (!from_right) {
    size_t begin = 0;
    for (; most != 0; --most) {
      const size_t found = FindText(all, separator, begin);
      if (found == kNowhere) break;
      parts.push_back(PartOf(runtime, text, begin, found));
      begin = found + separator.size();
    }
    parts.push_back(PartOf(runtime, text, begin, all.size()));
    return parts;
  }
  size_t end = all.size();
  const value::BackwardSearch search(separator);
  for (; most != 0; --most) {
    const size_t found = search.Next(all, end);
    if (found == kNowhere) break;
    parts.push_back(PartOf(runtime, text, found + separator.size(), end));
    end = found;
  }
  parts.push_back(PartOf(runtime, text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool kFromRight>
Value Split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto most = IntegerArgument(runtime, arguments.positional[1], -1);
  if (!most || !runtime.ChargeBytes(4 * self.string->size)) return MakeFailed();
  std::vector<Value> parts;
  if (!IsGiven(arguments.positional[0])) {
    parts = SplitBlanks(runtime, self, *most, kFromRight);
  } else {
    const String* separator = StringArgument(runtime, arguments.positional[0], nullptr);
    if (separator == nullptr) return MakeFailed();
    if (separator->size == 0) return runtime.Fail("empty separator");
    if (!runtime.ChargeSearch(self.string->size, separator->size)) return MakeFailed();
    parts = SplitAt(runtime, self, separator->view(), *most, kFromRight);
  }
  if (!runtime.Charge(static_cast<int64_t>(parts.size()))) return MakeFailed();
  return value::MakeList(runtime.heap(), parts);
}

Value Splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  std::vector<Value> lines;
  if (!SplitLines(runtime, self, value::IsTrue(arguments.positional[0]), lines))
    return MakeFailed();
  return value::MakeList(runtime.heap(), lines);
}

template <bool kFromRight>
Value Partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const String* separator = StringArgument(runtime, arguments.positional[0], EmptyString());
  if (separator == nullptr || !runtime.ChargeSearch(self.string->size, separator->size)) {
    return MakeFailed();
  }
  if (separator->size == 0) return runtime.Fail("empty separator");
  const std::string_view all = self.text();
  const size_t found = kFromRight ? value::BackwardSearch(separator->view()).Next(all, all.size())
                                  : FindText(all, separator->view());
  const Value empty = value::MakeString(EmptyString(), self.markup);
  std::array<Value, 3> parts = {self, empty, empty};
  if (found != kNowhere) {
    const size_t end = found + separator->size;
    parts = {PartOf(runtime, self, 0, found), PartOf(runtime, self, found, end),
             PartOf(runtime, self, end, all.size())};
  } else if (kFromRight) {
    parts = {empty, empty, self};
  }
  return value::MakeList(runtime.heap(), parts, value::ListKind::kTuple);
}

Value Join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto items = runtime.Iterate(arguments.positional[0]);
  if (!items) return MakeFailed();
  return JoinTexts(runtime, self, *items, false);
}

Value Replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const String* from = StringArgument(runtime, arguments.positional[0], nullptr);
  const String* to = StringArgument(runtime, arguments.positional[1], nullptr);
  const auto count = IntegerArgument(runtime, arguments.positional[2], -1);
  if (from == nullptr || to == nullptr) return runtime.Fail("replace() wants two strings");
  if (!count) return MakeFailed();
  return ReplaceText(runtime, self, *from, *to, *count);
}

// --- padding ----------------------------------------------------------------------------------

Value PadText(Runtime& runtime, const Value& self, const Arguments& arguments, char side) {
  const auto width = IntegerArgument(runtime, arguments.positional[0], 0);
  const String* fill = StringArgument(runtime, arguments.positional[1], EmptyString());
  if (!width || fill == nullptr) return MakeFailed();
  if (fill->size != 0 && fill->length() != 1) {
    return runtime.Fail("The fill character must be exactly one character long");
  }
  const std::string_view filler = fill->size == 0 ? " " : fill->view();
  const int64_t length = self.string->length();
  const int64_t missing = *width > length ? *width - length : 0;
  if (missing == 0) return self;
  if (!runtime.Charge(missing / 8)) return MakeFailed();
  // If the padding is odd, center() puts the extra character left only if the width is odd too.
  const int64_t left = side == '<'   ? 0
                       : side == '>' ? missing
                                     : missing / 2 + (missing & *width & 1);
  TextBuilder out(runtime.heap());
  out.Repeat(filler, left, fill->origin());
  out.Append(*self.string);
  out.Repeat(filler, missing - left, fill->origin());
  return runtime.Finish(out, self.markup);
}

template <char kSide>
Value Padded(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return PadText(runtime, self, arguments, kSide);
}

Value Zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto width = IntegerArgument(runtime, arguments.positional[0], 0);
  if (!width) return MakeFailed();
  const int64_t length = self.string->length();
  const int64_t missing = *width > length ? *width - length : 0;
  if (!runtime.Charge(missing / 8)) return MakeFailed();
  const std::string_view text = self.text();
  const size_t sign = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  TextBuilder out(runtime.heap());
  out.Append(*Part(runtime.heap(), *self.string, 0, sign));
  out.Repeat("0", missing);
  out.Append(*Part(runtime.heap(), *self.string, sign, text.size()));
  return runtime.Finish(out, self.markup);
}

Value RemovePrefix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const String* prefix = StringArgument(runtime, arguments.positional[0], EmptyString());
  if (prefix == nullptr) return MakeFailed();
  const size_t cut = self.text().starts_with(prefix->view()) ? prefix->size : 0;
  return PartOf(runtime, self, cut, self.string->size);
}

Value RemoveSuffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const String* suffix = StringArgument(runtime, arguments.positional[0], EmptyString());
  if (suffix == nullptr) return MakeFailed();
  const size_t cut = self.text().ends_with(suffix->view()) ? suffix->size : 0;
  return PartOf(runtime, self, 0, self.string->size - cut);
}

Value ExpandTabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto size = IntegerArgument(runtime, arguments.positional[0], 8);
  if (!size || !runtime.ChargeBytes(4 * self.string->size)) return MakeFailed();
  TextBuilder out(runtime.heap());
  int64_t column = 0;
  value::VisitRuns(*self.string, [&](std::string_view part, Origin origin) {
    for (size_t at = 0; at < part.size();) {
      const Decoded decoded = DecodeAt(part, at);
      if (decoded.code == '\t') {
        const int64_t blanks = *size > 0 ? *size - column % *size : 0;
        out.Repeat(" ", blanks, origin);
        column += blanks;
      } else {
        out.AppendCharacter(decoded.code, origin);
        column = decoded.code == '\n' || decoded.code == '\r' ? 0 : column + 1;
      }
      at += decoded.size;
    }
  });
  return runtime.Finish(out, self.markup);
}

Value Format(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return BraceFormat(runtime, self, arguments);
}

constexpr runtime::FunctionSpec kMethods[] = {
    {"upper", "", [](Runtime& r, const Value& s, const Arguments&) { return UpperText(r, s); }},
    {"lower", "", [](Runtime& r, const Value& s, const Arguments&) { return LowerText(r, s); }},
    {"casefold", "", [](Runtime& r, const Value& s, const Arguments&) { return LowerText(r, s); }},
    {"title", "", Title},
    {"capitalize", "",
     [](Runtime& r, const Value& s, const Arguments&) { return CapitalizeText(r, s); }},
    {"swapcase", "", Swapcase},
    {"strip", "chars?", Strip<true, true>},
    {"lstrip", "chars?", Strip<true, false>},
    {"rstrip", "chars?", Strip<false, true>},
    {"split", "sep? maxsplit?", Split<false>},
    {"rsplit", "sep? maxsplit?", Split<true>},
    {"splitlines", "keepends?", Splitlines},
    {"partition", "sep", Partition<false>},
    {"rpartition", "sep", Partition<true>},
    {"join", "iterable", Join},
    {"replace", "old new count?", Replace},
    {"center", "width fillchar?", Padded<'^'>},
    {"ljust", "width fillchar?", Padded<'<'>},
    {"rjust", "width fillchar?", Padded<'>'>},
    {"zfill", "width", Zfill},
    {"removeprefix", "prefix", RemovePrefix},
    {"removesuffix", "suffix", RemoveSuffix},
    {"expandtabs", "tabsize?", ExpandTabs},
    {"format", "*", Format},
};

}  // namespace

std::span<const runtime::FunctionSpec> StringMethods() { return kMethods; }

Value LowerText(Runtime& runtime, const Value& text) {
  const std::string_view all = text.text();
  if (IsAscii(all) || all.find("\u03A3") == kNowhere) {
    return MapCharacters(runtime, text, [](char32_t) -> Mapping { return &ToLower; });
  }
  TextBuilder out(runtime.heap());
  size_t offset = 0;
  value::VisitRuns(*text.string, [&](std::string_view part, Origin origin) {
    for (size_t at = 0; at < part.size();) {
      const Decoded decoded = DecodeAt(part, at);
      if (decoded.code == 0x3A3) {
        out.AppendCharacter(EndsWord(all, offset + at) ? 0x3C2 : 0x3C3, origin);
      } else {
        AppendMapped(ToLower(decoded.code), origin, out);
      }
      at += decoded.size;
    }
    offset += part.size();
  });
  if (!runtime.ChargeBytes(16 * all.size())) return MakeFailed();
  return runtime.Finish(out, text.markup);
}

Value UpperText(Runtime& runtime, const Value& text) {
  return MapCharacters(runtime, text, [](char32_t) -> Mapping { return &value::ToUpper; });
}

Value CapitalizeText(Runtime& runtime, const Value& text) {
  bool first = true;
  return MapCharacters(runtime, text, [&](char32_t) -> Mapping {
    return std::exchange(first, false) ? &value::ToTitle : &ToLower;
  });
}

Value StripText(Runtime& runtime, const Value& text, const String* chars, bool left, bool right) {
  const std::string_view all = text.text();
  if (chars != nullptr && !runtime.ChargeBytes(32 * chars->size)) return MakeFailed();
  std::vector<char32_t> wanted;
  for (size_t at = 0; chars != nullptr && at < chars->size;) {
    const Decoded decoded = DecodeAt(chars->view(), at);
    wanted.push_back(decoded.code);
    at += decoded.size;
  }
  std::sort(wanted.begin(), wanted.end());
  const auto strips = [&](size_t at) {
    const char32_t code = DecodeAt(all, at).code;
    return chars == nullptr ? value::IsSpace(code)
                            : std::binary_search(wanted.begin(), wanted.end(), code);
  };
  size_t begin = 0;
  size_t end = all.size();
  while (left && begin < end && strips(begin)) begin += DecodeAt(all, begin).size;
  while (right && end > begin && strips(CharacterBefore(all, end))) end = CharacterBefore(all, end);
  if (!runtime.ChargeBytes(16 * (all.size() - (end - begin)))) return MakeFailed();
  return PartOf(runtime, text, begin, end);
}

bool SplitLines(Runtime& runtime, const Value& text, bool keep_ends, std::vector<Value>& lines) {
  const std::string_view all = text.text();
  if (!runtime.ChargeBytes(8 * all.size())) return false;
  const auto ends_line = [](char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
  };
  size_t begin = 0;
  for (size_t at = 0; at < all.size();) {
    const Decoded decoded = DecodeAt(all, at);
    size_t next = at + decoded.size;
    if (ends_line(decoded.code)) {
      if (decoded.code == '\r' && next < all.size() && all[next] == '\n') ++next;
      lines.push_back(PartOf(runtime, text, begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < all.size()) lines.push_back(PartOf(runtime, text, begin, all.size()));
  return runtime.Charge(static_cast<int64_t>(lines.size()));
}

Value ReplaceText(Runtime& runtime, const Value& text, const String& from, const String& to,
                  int64_t count) {
  const std::string_view all = text.text();
  if (!runtime.ChargeSearch(all.size(), from.size)) return MakeFailed();
  if (from.size != 0 && FindText(all, from.view()) == kNowhere) return text;
  TextBuilder out(runtime.heap());
  size_t begin = 0;
  for (size_t at = 0; count != 0; --count) {
    // An empty `from` matches before every character and at the end.
    const size_t found = from.size == 0 ? at : FindText(all, from.view(), at);
    if (found == kNowhere || found > all.size()) break;
    out.Append(*Part(runtime.heap(), *text.string, begin, found));
    out.Append(to);
    if (!runtime.Charge(1) || !runtime.ChargeBytes(to.size)) return MakeFailed();
    begin = found + from.size;
    at = from.size != 0       ? begin
         : found < all.size() ? found + DecodeAt(all, found).size
                              : found + 1;
  }
  if (begin < all.size()) out.Append(*Part(runtime.heap(), *text.string, begin, all.size()));
  return runtime.Finish(out, text.markup);
}

Value JoinTexts(Runtime& runtime, const Value& separator, std::span<const Value> items,
                bool converts) {
  TextBuilder out(runtime.heap());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!runtime.Charge(1)) return MakeFailed();
    if (i > 0) out.Append(*separator.string);
    if (!converts && !items[i].is_string()) {
      return runtime.Fail(fmt::format("sequence item {}: expected str instance, {} found", i,
                                      value::TypeName(items[i])));
    }
    if (!runtime.AppendText(items[i], out)) return MakeFailed();
  }
  return runtime.Finish(out, !converts && separator.markup);
}

}  // namespace kvgate::jinja::builtins
