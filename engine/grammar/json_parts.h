// JsonParts: the parts of JSON texts as expressions of a grammar. What is made from them is JSON
// that every reader takes alike.
//
// White space: one space may stand behind a colon and behind a comma; none elsewhere. Strings:
// characters as they are; the escapes \" \\ \/ \b \f \n \r \t; \uXXXX without surrogates, so that
// one escape is one character. Numbers: as number_range.h says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.h"

namespace kvgate::grammar {

// A text as a JSON string, quotes included, in its shortest spelling.
std::string QuoteJson(std::string_view text);

enum class JsonStyle : uint8_t {
  kUsual,
  kInMarkup,  // no "<" is written, but as an escape: no closing mark stands in a string
};

class JsonParts {
 public:
  // The grammar outlives this; its rules are added as they are needed.
  explicit JsonParts(Grammar& grammar, JsonStyle style = JsonStyle::kUsual);

  ExprId Comma() { return WithSpace(","); }
  ExprId Colon() { return WithSpace(":"); }
  // A string of so many characters.
  ExprId String(RepeatCount length);
  // One character of the set inside a string, spelled in one way; of control characters only those
  // with short escapes, where the set has anything else. REQUIRES: set not empty.
  ExprId StringChar(const CharSet& set);
  // A string with none of the names as its value; without escapes, so that no spelling hides one.
  ExprId NameOtherThan(std::span<const std::string> names);
  ExprId AnyNumber();
  ExprId AnyInteger();
  // JSON text as it is, but for the style.
  ExprId Value(const std::string& json);
  // A name of a property, quoted.
  ExprId Name(std::string_view name) { return Value(QuoteJson(name)); }
  ExprId Boolean();
  ExprId Null() { return grammar_.Literal("null"); }
  ExprId AnyValue();
  ExprId AnyObject();
  ExprId AnyArray();
  // "[" items "]" or "{" pairs "}".
  ExprId List(ExprId item, RepeatCount count);

 private:
  ExprId WithSpace(std::string_view sign);
  RuleId AnyChar();

  Grammar& grammar_;
  const JsonStyle style_;
  const CharSet plain_;  // characters that stand for themselves
  std::optional<RuleId> any_char_;
  std::optional<RuleId> any_value_;
  std::optional<RuleId> any_object_;
  std::optional<RuleId> any_array_;
};

}  // namespace kvgate::grammar
