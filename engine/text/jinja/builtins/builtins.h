// The tables of functions that templates call, by the file that has them. Looked up by function.h.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/text/jinja/runtime/runtime.h"

namespace kvgate::jinja {

std::span<const FunctionSpec> TextFilters();
std::span<const FunctionSpec> WrapFilters();
std::span<const FunctionSpec> SequenceFilters();
std::span<const FunctionSpec> SelectFilters();
std::span<const FunctionSpec> NumberFilters();
std::span<const FunctionSpec> JsonFilters();
std::span<const FunctionSpec> AllTests();
std::span<const FunctionSpec> StringMethods();
std::span<const FunctionSpec> StringPredicates();
std::span<const FunctionSpec> ListMethods();
std::span<const FunctionSpec> DictMethods();
std::span<const FunctionSpec> Globals();

// --- what several of them need ---

// Arguments by type; nothing: failed. A missing one is the fallback.
std::optional<int64_t> IntegerArgument(Runtime& runtime, const Value& value, int64_t fallback);
// str only; null: failed. A missing one or None is the fallback.
const String* StringArgument(Runtime& runtime, const Value& value, const String* fallback);
inline bool IsGiven(const Value& value) { return !value.missing() && !value.is(Tag::kNone); }
// A part of a string, as markup when it is.
Value PartOf(Runtime& runtime, const Value& text, size_t begin, size_t end);

// item.a.0.b, as filters take it: "a.0.b", 3 or None.
class AttributePath {
 public:
  AttributePath(Runtime& runtime, const Value& path);
  // `fallback` where something on the way is undefined; missing: none.
  Value Get(Runtime& runtime, Value item, const Value& fallback = {}) const;

 private:
  std::span<const Value> parts_;
};

// `value` in lower case when it is a string, for case-insensitive comparison.
Value IgnoreCase(Runtime& runtime, const Value& value);
Value LowerText(Runtime& runtime, const Value& text);
Value UpperText(Runtime& runtime, const Value& text);
Value CapitalizeText(Runtime& runtime, const Value& text);
// What map(), items(), … give: read once, without a length.
Value MakeIterator(Runtime& runtime, std::span<const Value> items, std::string_view type);
// str.strip() and its kin; `chars` null: blanks.
Value StripText(Runtime& runtime, const Value& text, const String* chars, bool left, bool right);
// str.splitlines(); false: failed.
bool SplitLines(Runtime& runtime, const Value& text, bool keep_ends, std::vector<Value>& lines);
// str.replace(); count < 0: all.
Value ReplaceText(Runtime& runtime, const Value& text, const String& from, const String& to,
                  int64_t count);
// separator.join(items); every item by str() when `converts`, else only strings.
Value JoinTexts(Runtime& runtime, const Value& separator, std::span<const Value> items,
                bool converts);
// int(text) and float(text), or nothing.
std::optional<int64_t> ParseInteger(std::string_view text, int64_t base);
std::optional<double> ParseFloat(std::string_view text);

}  // namespace kvgate::jinja
