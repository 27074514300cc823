#include "engine/text/grammar/rules/json_parts.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/json_escape.h"
#include "base/utf8.h"

namespace kvgate::grammar::rules {
namespace {

const CharSet& Unescaped() {
  static const CharSet set = CharSet({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).Complement();
  return set;
}

const CharSet& ShortlyEscaped() {
  static const CharSet set = {{'"', '"'}, {'\\', '\\'}, {'\b', '\n'}, {'\f', '\r'}};
  return set;
}

// REQUIRES: an ASCII character.
std::string EscapeOf(char32_t character) {
  std::string escape;
  AppendJsonEscape(static_cast<char>(character), JsonShort::kAll, escape);
  return escape;
}

std::vector<char32_t> CharsOf(std::string_view text) {
  std::vector<char32_t> characters;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    characters.push_back(step.code_point);
    text.remove_prefix(step.length);
  }
  return characters;
}

// A trie of names; node 0 is the root. Names can be long, so its functions do not recurse.
struct NameTree {
  struct Node {
    std::vector<std::pair<char32_t, uint32_t>> children;
    bool is_name = false;
  };
  std::vector<Node> nodes = std::vector<Node>(1);
  std::map<std::pair<uint32_t, char32_t>, uint32_t> known;

  void Add(std::span<const char32_t> name) {
    uint32_t at = 0;
    for (const char32_t character : name) {
      const auto next = static_cast<uint32_t>(nodes.size());
      const auto [place, is_new] = known.try_emplace({at, character}, next);
      if (is_new) {
        nodes[at].children.emplace_back(character, next);
        nodes.emplace_back();
      }
      at = place->second;
    }
    nodes[at].is_name = true;
  }
};

// Returns the continuations after a node that do not complete a name. `rules` holds one rule per
// node.
ExprId OtherThan(Grammar& grammar, const NameTree::Node& node, std::span<const RuleId> rules,
                 const CharSet& plain, ExprId any_rest) {
  std::vector<CharRange> taken;
  std::vector<ExprId> alternatives;
  std::vector<std::pair<char32_t, uint32_t>> children = node.children;
  std::sort(children.begin(), children.end());
  for (const auto& [character, child] : children) {
    taken.push_back({character, character});
    alternatives.push_back(
        grammar.Sequence({grammar.Chars(CharSet::Of(character)), grammar.Rule(rules[child])}));
  }
  const CharSet others = plain.Without(CharSet::OfRanges(std::move(taken)));
  alternatives.push_back(grammar.Sequence({grammar.Chars(others), any_rest}));
  if (!node.is_name) alternatives.push_back(grammar.Empty());
  return grammar.Choice(alternatives);
}

}  // namespace

std::string QuoteJson(std::string_view text) {
  std::string quoted = "\"";
  for (const char32_t character : CharsOf(text)) {
    if (Unescaped().Contains(character)) {
      AppendUtf8(character, quoted);
    } else {
      quoted += EscapeOf(character);
    }
  }
  return quoted += '"';
}

JsonParts::JsonParts(Grammar& grammar, JsonStyle style)
    : grammar_(grammar),
      style_(style),
      plain_(style == JsonStyle::kUsual ? Unescaped() : Unescaped().Without(CharSet::Of('<'))) {}

ExprId JsonParts::Value(const std::string& json) {
  if (style_ == JsonStyle::kUsual) return grammar_.Literal(json);
  std::string escaped;
  for (const char c : json) c == '<' ? escaped += EscapeOf('<') : escaped += c;
  return grammar_.Literal(escaped);
}

ExprId JsonParts::WithSpace(std::string_view sign) {
  return grammar_.Sequence({grammar_.Literal(sign), grammar_.Optional(grammar_.Literal(" "))});
}

RuleId JsonParts::AnyChar() {
  if (any_char_) return *any_char_;
  any_char_ = grammar_.AddRule("character");
  const CharSet hex = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};
  const CharSet not_d = hex.Without({{'d', 'd'}, {'D', 'D'}});
  const ExprId three = grammar_.Repeat(grammar_.Chars(hex), {.min = 3, .max = 3});
  const ExprId two = grammar_.Repeat(grammar_.Chars(hex), {.min = 2, .max = 2});
  const ExprId code = grammar_.Choice({grammar_.Sequence({grammar_.Chars(not_d), three}),
                                       grammar_.Sequence({grammar_.Chars({{'d', 'd'}, {'D', 'D'}}),
                                                          grammar_.Chars({{'0', '7'}}), two})});
  const ExprId escape = grammar_.Choice({grammar_.Chars({{'"', '"'},
                                                         {'\\', '\\'},
                                                         {'/', '/'},
                                                         {'b', 'b'},
                                                         {'f', 'f'},
                                                         {'n', 'n'},
                                                         {'r', 'r'},
                                                         {'t', 't'}}),
                                         grammar_.Sequence({grammar_.Literal("u"), code})});
  grammar_.SetBody(*any_char_,
                   grammar_.Choice({grammar_.Chars(plain_),
                                    grammar_.Sequence({grammar_.Literal("\\"), escape})}));
  return *any_char_;
}

ExprId JsonParts::String(RepeatCount length) {
  return grammar_.Sequence({grammar_.Literal("\""),
                            grammar_.Repeat(grammar_.Rule(AnyChar()), length),
                            grammar_.Literal("\"")});
}

ExprId JsonParts::StringChar(const CharSet& set) {
  std::vector<ExprId> alternatives;
  if (const CharSet plain = set.Intersect(plain_); !plain.empty()) {
    alternatives.push_back(grammar_.Chars(plain));
  }
  const CharSet escaped = set.Without(plain_);
  CharSet wanted = ShortlyEscaped();
  wanted.Add(CharSet::Of('<'));
  // Uses only control characters with short escapes, unless there is no other choice.
  const CharSet written = alternatives.empty() && escaped.Intersect(wanted).empty()
                              ? escaped
                              : escaped.Intersect(wanted);
  for (const CharRange& range : written.ranges()) {
    for (char32_t character = range.first; character <= range.last; ++character) {
      alternatives.push_back(grammar_.Literal(EscapeOf(character)));
    }
  }
  return grammar_.Choice(alternatives);
}

ExprId JsonParts::NameOtherThan(std::span<const std::string> names) {
  NameTree tree;
  for (const std::string& name : names) {
    const std::vector<char32_t> characters = CharsOf(name);
    // Names with escaped characters need no exclusion, because the result contains no escapes.
    const bool is_plain = std::all_of(characters.begin(), characters.end(),
                                      [this](char32_t c) { return plain_.Contains(c); });
    if (is_plain) tree.Add(characters);
  }
  const ExprId rest = grammar_.Repeat(grammar_.Chars(plain_), {});
  std::vector<RuleId> rules;
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    rules.push_back(i == 0 ? RuleId{} : grammar_.AddRule("name"));
  }
  for (size_t i = 1; i < tree.nodes.size() && !grammar_.is_full(); ++i) {
    grammar_.SetBody(rules[i], OtherThan(grammar_, tree.nodes[i], rules, plain_, rest));
  }
  return grammar_.Sequence({grammar_.Literal("\""),
                            OtherThan(grammar_, tree.nodes[0], rules, plain_, rest),
                            grammar_.Literal("\"")});
}

ExprId JsonParts::AnyInteger() {
  const ExprId digit = grammar_.Chars({{'0', '9'}});
  const ExprId positive = grammar_.Sequence(
      {grammar_.Chars({{'1', '9'}}), grammar_.Repeat(digit, {.min = 0, .max = 17})});
  return grammar_.Choice({grammar_.Literal("0"),
                          grammar_.Sequence({grammar_.Optional(grammar_.Literal("-")), positive})});
}

ExprId JsonParts::AnyNumber() {
  const ExprId digit = grammar_.Chars({{'0', '9'}});
  const ExprId whole = grammar_.Choice(
      {grammar_.Literal("0"), grammar_.Sequence({grammar_.Chars({{'1', '9'}}),
                                                 grammar_.Repeat(digit, {.min = 0, .max = 17})})});
  const ExprId fraction =
      grammar_.Sequence({grammar_.Literal("."), grammar_.Repeat(digit, {.min = 1, .max = 15})});
  const ExprId exponent =
      grammar_.Sequence({grammar_.Chars({{'e', 'e'}, {'E', 'E'}}),
                         grammar_.Optional(grammar_.Chars({{'+', '+'}, {'-', '-'}})),
                         grammar_.Repeat(digit, {.min = 1, .max = 2})});
  return grammar_.Sequence({grammar_.Optional(grammar_.Literal("-")), whole,
                            grammar_.Optional(fraction), grammar_.Optional(exponent)});
}

ExprId JsonParts::Boolean() {
  return grammar_.Choice({grammar_.Literal("true"), grammar_.Literal("false")});
}

ExprId JsonParts::List(ExprId item, RepeatCount count) {
  if (count.max == 0) return grammar_.Empty();
  const RepeatCount more = {.min = count.min > 0 ? count.min - 1 : 0,
                            .max = count.max == kUnbounded ? kUnbounded : count.max - 1};
  const ExprId list =
      grammar_.Sequence({item, grammar_.Repeat(grammar_.Sequence({Comma(), item}), more)});
  return count.min == 0 ? grammar_.Optional(list) : list;
}

ExprId JsonParts::AnyValue() {
  if (!any_value_) {
    any_value_ = grammar_.AddRule("value");
    grammar_.SetBody(*any_value_, grammar_.Choice({AnyObject(), AnyArray(), String({}), AnyNumber(),
                                                   Boolean(), Null()}));
  }
  return grammar_.Rule(*any_value_);
}

ExprId JsonParts::AnyObject() {
  if (!any_object_) {
    any_object_ = grammar_.AddRule("object");
    const ExprId pair = grammar_.Sequence({String({}), Colon(), AnyValue()});
    grammar_.SetBody(*any_object_, grammar_.Sequence({grammar_.Literal("{"), List(pair, {}),
                                                      grammar_.Literal("}")}));
  }
  return grammar_.Rule(*any_object_);
}

ExprId JsonParts::AnyArray() {
  if (!any_array_) {
    any_array_ = grammar_.AddRule("array");
    const ExprId item = AnyValue();
    grammar_.SetBody(*any_array_, grammar_.Sequence({grammar_.Literal("["), List(item, {}),
                                                     grammar_.Literal("]")}));
  }
  return grammar_.Rule(*any_array_);
}

}  // namespace kvgate::grammar::rules
