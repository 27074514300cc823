#include "engine/text/grammar/language/lark.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "engine/text/grammar/language/lark_text.h"
#include "engine/text/grammar/rules/json_parts.h"
#include "engine/text/grammar/rules/pattern.h"

namespace kvgate::grammar::language {

using rules::CharSet;
using rules::ExprId;
using rules::Grammar;

namespace {

// Writes the terminals of one grammar in the requested spelling.
class TextWriter {
 public:
  TextWriter(Grammar& grammar, const TextForm& form)
      : grammar_(grammar), form_(form), parts_(grammar) {}

  Grammar& grammar() { return grammar_; }

  ExprId Literal(std::string_view text) {
    if (form_.spelling == rules::Spelling::kPlain) return grammar_.Literal(text);
    const std::string quoted = rules::QuoteJson(text);
    return grammar_.Literal(std::string_view(quoted).substr(1, quoted.size() - 2));
  }

  ExprId Chars(const CharSet& set) {
    return form_.spelling == rules::Spelling::kPlain ? grammar_.Chars(set) : parts_.StringChar(set);
  }

  // `pattern` is in the syntax of pattern.h.
  Result<ExprId> Regex(std::string_view pattern) {
    KVGATE_TRY(rules::Pattern whole, rules::ParsePattern(pattern, {}));
    std::vector<rules::TextCondition> conditions;
    conditions.push_back({.pattern = std::move(whole)});
    if (!form_.closing.empty()) {
      KVGATE_TRY(rules::Pattern closing, rules::ParsePattern(Escaped(form_.closing), {}));
      conditions.push_back({.pattern = std::move(closing), .negated = true});
    }
    KVGATE_TRY(const rules::CharDfa dfa, rules::MakeDfa(conditions, {}));
    KVGATE_TRY_VOID(Charge(dfa.work));
    return rules::AddTexts(grammar_, parts_, dfa, {.spelling = form_.spelling});
  }

  Result<void> Charge(uint64_t steps) {
    rules::Budget& budget = form_.budget == nullptr ? own_ : *form_.budget;
    if (budget.Charge(steps) && !grammar_.is_full()) return {};
    return MakeError(ErrorCode::kTooLarge, "grammar.lark", "it takes too much to make it");
  }

 private:
  static std::string Escaped(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
      if (std::string_view("^$\\.*+?()[]{}|/").find(c) != std::string_view::npos) escaped += '\\';
      escaped += c;
    }
    return escaped;
  }

  Grammar& grammar_;
  const TextForm& form_;
  rules::JsonParts parts_;
  rules::Budget own_;
};

// Returns true if the text after a { is a count; otherwise the { is an ordinary character.
bool IsCount(std::string_view behind) {
  const size_t end = behind.find_first_not_of("0123456789,");
  return end != 0 && end != std::string_view::npos && behind[end] == '}' && behind[0] != ',';
}

// Copies the pattern with special characters escaped as ECMA-262 requires. A ] that comes first in
// a class is a member of it.
std::string WithPlainCharacters(std::string_view regex, bool dot_is_all) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '\\' && i + 1 < regex.size()) {
      out.append(regex.substr(i++, 2));
    } else if (in_class) {
      in_class = c != ']';
      out += c;
    } else if (c == '[') {
      in_class = true;
      out += c;
      if (regex.substr(i + 1).starts_with('^')) out += regex[++i];
      if (regex.substr(i + 1).starts_with(']')) out.append("\\").append(1, regex[++i]);
    } else if (c == '{' && !IsCount(regex.substr(i + 1))) {
      out += "\\{";
    } else if (c == '.' && dot_is_all) {
      out += "[^]";
    } else {
      out += c;
    }
  }
  return out;
}

// Translates Python and Rust syntax to ECMA-262, and anchors the pattern to the whole text.
std::string WholePattern(std::string_view regex, bool dot_is_all) {
  std::string pattern(regex);
  if (pattern.starts_with("(?s)")) {
    dot_is_all = true;
    pattern.erase(0, 4);
  }
  for (size_t at = 0; (at = pattern.find("(?P<", at)) != std::string::npos; ++at) {
    pattern.erase(at + 2, 1);
  }
  pattern = WithPlainCharacters(pattern, dot_is_all);
  // The anchors of a pattern without alternatives are redundant. Those of single alternatives are
  // kept.
  const bool ends = pattern.ends_with('$') && !pattern.ends_with("\\$");
  if (pattern.find('|') == std::string::npos) {
    if (ends) pattern.pop_back();
    if (pattern.starts_with('^')) pattern.erase(0, 1);
  }
  return "^(?:" + pattern + ")$";
}

class LarkCompiler {
 public:
  LarkCompiler(const LarkRules& rules, TextWriter& writer) : rules_(rules), writer_(writer) {}

  Result<ExprId> Compile() {
    Grammar& grammar = writer_.grammar();
    if (!rules_.ignored.empty()) {
      std::vector<ExprId> ignored;
      for (const uint32_t node : rules_.ignored) {
        KVGATE_TRY(const ExprId part, Node(node, true));
        ignored.push_back(part);
      }
      between_ = AsRule("ignored", grammar.Repeat(grammar.Choice(ignored), {}));
    }
    KVGATE_TRY(const ExprId start, RuleNamed("start"));
    while (!pending_.empty()) {
      const std::string name = std::move(pending_.back());
      pending_.pop_back();
      KVGATE_TRY(const ExprId body, Body(name));
      grammar.SetBody(made_.at(name), body);
      KVGATE_TRY_VOID(writer_.Charge(1));
    }
    return between_ ? grammar.Sequence({*between_, start}) : start;
  }

 private:
  ExprId AsRule(const char* name, ExprId body) {
    const rules::RuleId rule = writer_.grammar().AddRule(name);
    writer_.grammar().SetBody(rule, body);
    return writer_.grammar().Rule(rule);
  }

  // Creates the rule on first use; its body is built later.
  Result<ExprId> RuleNamed(const std::string& name) {
    if (!rules_.rules.contains(name)) {
      return MakeError(ErrorCode::kInvalidArgument, "grammar.lark",
                       fmt::format("there is no rule '{}'", name));
    }
    const auto known = made_.find(name);
    if (known != made_.end()) return writer_.grammar().Rule(known->second);
    const rules::RuleId rule = writer_.grammar().AddRule(name);
    made_.emplace(name, rule);
    pending_.push_back(name);
    return writer_.grammar().Rule(rule);
  }

  // Left recursion is turned into repetition: r: r a | b becomes r: b a*.
  Result<ExprId> Body(const std::string& name) {
    Grammar& grammar = writer_.grammar();
    const bool terminal = IsTerminal(name);
    std::vector<ExprId> first;
    std::vector<ExprId> more;
    for (const uint32_t child : rules_.nodes[rules_.rules.at(name)].children) {
      const std::vector<uint32_t>& parts = rules_.nodes[child].children;
      const bool is_left = !parts.empty() && rules_.nodes[parts[0]].kind == LarkKind::kName &&
                           rules_.nodes[parts[0]].text == name;
      std::vector<ExprId> made;
      for (size_t i = is_left ? 1 : 0; i < parts.size(); ++i) {
        KVGATE_TRY(const ExprId part, Node(parts[i], terminal));
        made.push_back(part);
      }
      if (is_left && made.empty()) continue;
      const ExprId sequence = made.empty() ? grammar.Empty() : grammar.Sequence(made);
      (is_left ? more : first).push_back(sequence);
    }
    if (first.empty()) return grammar.Nothing();
    const ExprId begin = grammar.Choice(first);
    if (more.empty()) return begin;
    return grammar.Sequence({begin, grammar.Repeat(grammar.Choice(more), {})});
  }

  // Allows ignored text after every terminal of a rule.
  ExprId Token(ExprId token, bool in_terminal) {
    if (in_terminal || !between_) return token;
    return writer_.grammar().Sequence({token, *between_});
  }

  ExprId Text(const LarkNode& node) {
    if (!node.any_case) return writer_.Literal(node.text);
    std::vector<ExprId> characters;
    std::string_view rest = node.text;
    while (!rest.empty()) {
      const Utf8Step step = NextUtf8(rest);
      rest.remove_prefix(step.length);
      CharSet set = CharSet::Of(step.code_point);
      const char32_t lower = step.code_point | 0x20;
      if (step.code_point < 0x80 && lower >= 'a' && lower <= 'z') {
        set = {{lower, lower}, {lower - 0x20, lower - 0x20}};
      }
      characters.push_back(writer_.Chars(set));
    }
    return characters.empty() ? writer_.grammar().Empty() : writer_.grammar().Sequence(characters);
  }

  Result<ExprId> Range(const LarkNode& node) {
    const Utf8Step first = NextUtf8(node.text);
    const std::string_view rest = std::string_view(node.text).substr(first.length);
    const Utf8Step last = NextUtf8(rest);
    if (rest.empty() || last.length != rest.size() || last.code_point < first.code_point) {
      return MakeError(ErrorCode::kInvalidArgument, "grammar.lark",
                       "a range is not from one character to a later one");
    }
    return writer_.Chars(CharSet{{first.code_point, last.code_point}});
  }

  Result<ExprId> Node(uint32_t index, bool in_terminal) {
    Grammar& grammar = writer_.grammar();
    const LarkNode& node = rules_.nodes[index];
    KVGATE_TRY_VOID(writer_.Charge(1 + node.text.size()));
    switch (node.kind) {
      case LarkKind::kText:
        return Token(Text(node), in_terminal);
      case LarkKind::kRange: {
        KVGATE_TRY(const ExprId range, Range(node));
        return Token(range, in_terminal);
      }
      case LarkKind::kRegex: {
        KVGATE_TRY(const ExprId regex, writer_.Regex(WholePattern(node.text, node.dot_is_all)));
        return Token(regex, in_terminal);
      }
      case LarkKind::kName: {
        KVGATE_TRY(const ExprId rule, RuleNamed(node.text));
        return IsTerminal(node.text) ? Token(rule, in_terminal) : rule;
      }
      case LarkKind::kRepeat: {
        KVGATE_TRY(const ExprId part, Node(node.children[0], in_terminal));
        return grammar.Repeat(part, node.count);
      }
      case LarkKind::kSequence:
      case LarkKind::kChoice:
        break;
    }
    std::vector<ExprId> parts;
    for (const uint32_t child : node.children) {
      KVGATE_TRY(const ExprId part, Node(child, in_terminal));
      parts.push_back(part);
    }
    if (node.kind == LarkKind::kChoice) return grammar.Choice(parts);
    return parts.empty() ? grammar.Empty() : grammar.Sequence(parts);
  }

  const LarkRules& rules_;
  TextWriter& writer_;
  std::map<std::string, rules::RuleId> made_;
  std::vector<std::string> pending_;  // rules whose bodies are not built yet
  std::optional<ExprId> between_;
};

}  // namespace

Result<ExprId> AddLark(Grammar& grammar, std::string_view text, const TextForm& form,
                       const LarkLimits& limits) {
  KVGATE_TRY(const LarkRules rules, ParseLark(text, limits));
  TextWriter writer(grammar, form);
  return LarkCompiler(rules, writer).Compile();
}

Result<ExprId> AddRegex(Grammar& grammar, std::string_view regex, const TextForm& form) {
  return TextWriter(grammar, form).Regex(WholePattern(regex, false));
}

}  // namespace kvgate::grammar::language
