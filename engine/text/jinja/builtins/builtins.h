// The functions that templates can call: their tables, one for each source file, and what
// several of them need.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/text/jinja/runtime/runtime.h"

namespace kvgate::jinja::builtins {

std::span<const runtime::FunctionSpec> TextFilters();
std::span<const runtime::FunctionSpec> WrapFilters();
std::span<const runtime::FunctionSpec> SequenceFilters();
std::span<const runtime::FunctionSpec> SelectFilters();
std::span<const runtime::FunctionSpec> NumberFilters();
std::span<const runtime::FunctionSpec> JsonFilters();
std::span<const runtime::FunctionSpec> AllTests();
std::span<const runtime::FunctionSpec> StringMethods();
std::span<const runtime::FunctionSpec> StringPredicates();
std::span<const runtime::FunctionSpec> ListMethods();
std::span<const runtime::FunctionSpec> DictMethods();
std::span<const runtime::FunctionSpec> Globals();

// --- helpers shared by several of these files ---

// Converts an argument to an integer; a missing one gives the fallback. Returns nothing if it
// failed.
std::optional<int64_t> IntegerArgument(runtime::Runtime& runtime, const value::Value& value,
                                       int64_t fallback);
// Accepts only a str; a missing argument or None gives the fallback. Returns null if it failed.
const value::String* StringArgument(runtime::Runtime& runtime, const value::Value& value,
                                    const value::String* fallback);
inline bool IsGiven(const value::Value& value) {
  return !value.missing() && !value.is(value::Tag::kNone);
}
// Bytes [begin, end) of a string; the result is markup if the string is.
value::Value PartOf(runtime::Runtime& runtime, const value::Value& text, size_t begin, size_t end);

// A path such as item.a.0.b, in the form in which filters take it: "a.0.b", 3 or None.
class AttributePath {
 public:
  AttributePath(runtime::Runtime& runtime, const value::Value& path);
  // Follows the path from `item`. As in Jinja2, a step that gives undefined is replaced by
  // `fallback`, unless that is missing or None.
  value::Value Get(runtime::Runtime& runtime, value::Value item,
                   const value::Value& fallback = {}) const;

 private:
  std::span<const value::Value> parts_;
};

// Returns a string in lower case for case-insensitive comparison; other values are returned
// unchanged.
value::Value IgnoreCase(runtime::Runtime& runtime, const value::Value& value);
value::Value LowerText(runtime::Runtime& runtime, const value::Value& text);
value::Value UpperText(runtime::Runtime& runtime, const value::Value& text);
value::Value CapitalizeText(runtime::Runtime& runtime, const value::Value& text);
// An iterator as map() and items() return it: it can be read once and has no length.
value::Value MakeIterator(runtime::Runtime& runtime, std::span<const value::Value> items,
                          std::string_view type);
// str.strip(), lstrip() and rstrip(). `chars` null: strips white space.
value::Value StripText(runtime::Runtime& runtime, const value::Value& text,
                       const value::String* chars, bool left, bool right);
// str.splitlines(). Returns false if it failed.
bool SplitLines(runtime::Runtime& runtime, const value::Value& text, bool keep_ends,
                std::vector<value::Value>& lines);
// str.replace(). count < 0: replaces all occurrences.
value::Value ReplaceText(runtime::Runtime& runtime, const value::Value& text,
                         const value::String& from, const value::String& to, int64_t count);
// separator.join(items). If `converts`, items are converted with str(); otherwise they must be
// strings.
value::Value JoinTexts(runtime::Runtime& runtime, const value::Value& separator,
                       std::span<const value::Value> items, bool converts);
// int(text) and float(text). Return nothing if the text is not a number.
std::optional<int64_t> ParseInteger(std::string_view text, int64_t base);
std::optional<double> ParseFloat(std::string_view text);

}  // namespace kvgate::jinja::builtins
