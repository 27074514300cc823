// JsonParts: pieces of JSON text as expressions of a grammar. They produce only JSON that all
// parsers read alike.
//
// White space: at most one space after a colon and after a comma, none elsewhere. Strings:
// unescaped characters; the escapes \" \\ \/ \b \f \n \r \t; \uXXXX without surrogates, so that one
// escape is one character. Numbers: see number_range.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/grammar/rules/grammar.h"

namespace kvgate::grammar::rules {

// A text as a JSON string, quotes included, in its shortest spelling.
std::string QuoteJson(std::string_view text);

enum class JsonStyle : uint8_t {
  kUsual,
  kInMarkup,  // "<" is always escaped, so a string cannot contain a closing tag
};

class JsonParts {
 public:
  // The grammar must outlive this object; rules are added to it when they are first needed.
  explicit JsonParts(Grammar& grammar, JsonStyle style = JsonStyle::kUsual);

  ExprId Comma() { return WithSpace(","); }
  ExprId Colon() { return WithSpace(":"); }
  // A string whose number of characters is in `length`.
  ExprId String(RepeatCount length);
  // One character of the set inside a string, with one spelling each. Control characters without a
  // short escape are left out unless the set has nothing else. REQUIRES: set is not empty.
  ExprId StringChar(const CharSet& set);
  // A string that equals none of the names. It contains no escapes, so no spelling can hide a name.
  ExprId NameOtherThan(std::span<const std::string> names);
  ExprId AnyNumber();
  ExprId AnyInteger();
  // The given JSON text literally, adapted to the style.
  ExprId Value(const std::string& json);
  // A property name with its quotes.
  ExprId Name(std::string_view name) { return Value(QuoteJson(name)); }
  ExprId Boolean();
  ExprId Null() { return grammar_.Literal("null"); }
  ExprId AnyValue();
  ExprId AnyObject();
  ExprId AnyArray();
  // Items separated by commas; the caller adds the brackets around them.
  ExprId List(ExprId item, RepeatCount count);

 private:
  ExprId WithSpace(std::string_view sign);
  RuleId AnyChar();

  Grammar& grammar_;
  const JsonStyle style_;
  const CharSet plain_;  // characters that need no escape
  std::optional<RuleId> any_char_;
  std::optional<RuleId> any_value_;
  std::optional<RuleId> any_object_;
  std::optional<RuleId> any_array_;
};

}  // namespace kvgate::grammar::rules
