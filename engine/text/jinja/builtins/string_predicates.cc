// The methods of Python's str that query it: find, count, startswith, isdigit, …
#include <algorithm>

#include <fmt/format.h>

#include "base/utf8.h"
#include "engine/text/jinja/builtins/builtins.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::Runtime;
using value::DecodeAt;
using value::Decoded;
using value::MakeBool;
using value::MakeFailed;
using value::MakeInt;
using value::Value;

namespace {

constexpr size_t kNowhere = std::string_view::npos;

// The bytes [begin, end) selected by the characters [start, stop). FindWindow returns false if it
// failed.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  int64_t first = 0;  // in characters
  bool valid = true;  // false: start is beyond the end
};

bool FindWindow(Runtime& runtime, const Value& self, const Value& start, const Value& stop,
                Window& window) {
  const value::String& text = *self.string;
  const auto first = IntegerArgument(runtime, IsGiven(start) ? start : Value(), 0);
  const auto last = IntegerArgument(runtime, IsGiven(stop) ? stop : Value(), INT64_MAX);
  if (!first || !last || !runtime.ChargeBytes(text.size)) return false;
  const int64_t length = text.length();
  const auto clamp = [&](int64_t index) {
    return index < 0 ? std::max<int64_t>(index + length, 0) : index;
  };
  window.first = clamp(*first);
  const int64_t end = std::min(clamp(*last), length);
  window.valid = window.first <= end && window.first <= length;
  if (!window.valid) return true;
  window.begin = text.OffsetOf(window.first);
  window.end = text.OffsetOf(end);
  return true;
}

// Returns the character index of the needle, or -1; nothing if it failed.
template <bool kFromRight>
std::optional<int64_t> FindIndex(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value& needle = arguments.positional[0];
  if (!needle.is_string()) {
    runtime.Fail(fmt::format("must be str, not {}", value::TypeName(needle)));
    return std::nullopt;
  }
  Window window;
  if (!FindWindow(runtime, self, arguments.positional[1], arguments.positional[2], window)) {
    return std::nullopt;
  }
  if (!window.valid) return -1;
  const std::string_view part = self.text().substr(window.begin, window.end - window.begin);
  if (!runtime.ChargeSearch(part.size(), needle.string->size)) return std::nullopt;
  const size_t found = kFromRight ? value::BackwardSearch(needle.text()).Next(part, part.size())
                                  : value::FindText(part, needle.text());
  if (found == kNowhere) return -1;
  return window.first + static_cast<int64_t>(CountUtf8Characters(part.substr(0, found)));
}

template <bool kFromRight>
Value Find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto index = FindIndex<kFromRight>(runtime, self, arguments);
  return index ? MakeInt(*index) : MakeFailed();
}

template <bool kFromRight>
Value Index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto index = FindIndex<kFromRight>(runtime, self, arguments);
  if (!index) return MakeFailed();
  return *index < 0 ? runtime.Fail("substring not found") : MakeInt(*index);
}

Value Count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value& needle = arguments.positional[0];
  if (!needle.is_string()) return runtime.Fail("count() wants a string");
  Window window;
  if (!FindWindow(runtime, self, arguments.positional[1], arguments.positional[2], window)) {
    return MakeFailed();
  }
  if (!window.valid) return MakeInt(0);
  const std::string_view part = self.text().substr(window.begin, window.end - window.begin);
  if (needle.string->size == 0) return MakeInt(static_cast<int64_t>(CountUtf8Characters(part)) + 1);
  if (!runtime.ChargeSearch(part.size(), needle.string->size)) return MakeFailed();
  int64_t count = 0;
  for (size_t at = value::FindText(part, needle.text()); at != kNowhere;
       at = value::FindText(part, needle.text(), at + needle.string->size)) {
    ++count;
  }
  return MakeInt(count);
}

template <bool kAtStart>
Value HasAffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value& affix = arguments.positional[0];
  Window window;
  if (!FindWindow(runtime, self, arguments.positional[1], arguments.positional[2], window)) {
    return MakeFailed();
  }
  const std::string_view part = window.valid
                                    ? self.text().substr(window.begin, window.end - window.begin)
                                    : std::string_view();
  const auto has = [&](const Value& one) {
    if (!window.valid) return false;
    return kAtStart ? part.starts_with(one.text()) : part.ends_with(one.text());
  };
  if (affix.is_string()) return MakeBool(has(affix));
  const bool tuple = affix.is(value::Tag::kList) && affix.list->kind == value::ListKind::kTuple;
  if (!tuple) {
    return runtime.Fail(fmt::format("{} first arg must be str or a tuple of str, not {}",
                                    kAtStart ? "startswith" : "endswith", value::TypeName(affix)));
  }
  for (const Value& one : affix.list->values()) {
    if (!one.is_string()) return runtime.Fail("tuple for startswith must only contain str");
    if (!runtime.Charge(1) || !runtime.ChargeBytes(one.string->size)) return MakeFailed();
    if (has(one)) return MakeBool(true);
  }
  return MakeBool(false);
}

// Returns true if all characters have the property and there is at least one.
template <bool (*kHas)(char32_t)>
Value AllAre(Runtime& runtime, const Value& self, const Arguments&) {
  const std::string_view text = self.text();
  if (!runtime.ChargeBytes(8 * text.size())) return MakeFailed();
  for (size_t at = 0; at < text.size();) {
    const Decoded decoded = DecodeAt(text, at);
    if (!kHas(decoded.code)) return MakeBool(false);
    at += decoded.size;
  }
  return MakeBool(!text.empty());
}

// Returns true if there are cased characters and all are of this case.
template <bool kUpper>
Value IsCase(Runtime& runtime, const Value& self, const Arguments&) {
  const std::string_view text = self.text();
  if (!runtime.ChargeBytes(8 * text.size())) return MakeFailed();
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const Decoded decoded = DecodeAt(text, at);
    at += decoded.size;
    const bool wrong = kUpper ? value::IsLower(decoded.code) : value::IsUpper(decoded.code);
    if (wrong || value::IsTitlecase(decoded.code)) return MakeBool(false);
    any = any || (kUpper ? value::IsUpper(decoded.code) : value::IsLower(decoded.code));
  }
  return MakeBool(any);
}

Value IsTitle(Runtime& runtime, const Value& self, const Arguments&) {
  const std::string_view text = self.text();
  if (!runtime.ChargeBytes(8 * text.size())) return MakeFailed();
  bool any = false;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Decoded decoded = DecodeAt(text, at);
    at += decoded.size;
    const bool starts = value::IsUpper(decoded.code) || value::IsTitlecase(decoded.code);
    const bool follows = value::IsLower(decoded.code);
    if ((starts && inside) || (follows && !inside)) return MakeBool(false);
    inside = starts || follows;
    any = any || inside;
  }
  return MakeBool(any);
}

bool IsAsciiCharacter(char32_t code) { return code < 0x80; }
Value IsAscii(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (self.string->size == 0) return MakeBool(true);
  return AllAre<IsAsciiCharacter>(runtime, self, arguments);
}

Value IsPrintableText(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (self.string->size == 0) return MakeBool(true);
  return AllAre<value::IsPrintable>(runtime, self, arguments);
}

Value IsIdentifier(Runtime& runtime, const Value& self, const Arguments&) {
  const std::string_view text = self.text();
  if (!runtime.ChargeBytes(8 * text.size())) return MakeFailed();
  for (size_t at = 0; at < text.size();) {
    const Decoded decoded = DecodeAt(text, at);
    const bool fits = decoded.code == '_' ||
                      (at == 0 ? value::IsAlpha(decoded.code) : value::IsAlnum(decoded.code));
    if (!fits) return MakeBool(false);
    at += decoded.size;
  }
  return MakeBool(!text.empty());
}

constexpr runtime::FunctionSpec kMethods[] = {
    {"find", "sub start? end?", Find<false>},
    {"rfind", "sub start? end?", Find<true>},
    {"index", "sub start? end?", Index<false>},
    {"rindex", "sub start? end?", Index<true>},
    {"count", "sub start? end?", Count},
    {"startswith", "prefix start? end?", HasAffix<true>},
    {"endswith", "suffix start? end?", HasAffix<false>},
    {"isalpha", "", AllAre<value::IsAlpha>},
    {"isalnum", "", AllAre<value::IsAlnum>},
    {"isdecimal", "", AllAre<value::IsDecimal>},
    {"isdigit", "", AllAre<value::IsDigit>},
    {"isnumeric", "", AllAre<value::IsNumeric>},
    {"isspace", "", AllAre<value::IsSpace>},
    {"isupper", "", IsCase<true>},
    {"islower", "", IsCase<false>},
    {"istitle", "", IsTitle},
    {"isascii", "", IsAscii},
    {"isprintable", "", IsPrintableText},
    {"isidentifier", "", IsIdentifier},
};

}  // namespace

std::span<const runtime::FunctionSpec> StringPredicates() { return kMethods; }

}  // namespace kvgate::jinja::builtins
