#include "engine/text/output/reply_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "base/log.h"
#include "engine/text/grammar/language/lark.h"
#include "engine/text/grammar/rules/free_text.h"
#include "engine/text/grammar/rules/json_parts.h"
#include "engine/text/grammar/schema/json_schema.h"
#include "engine/text/output/call_writing.h"
#include "engine/text/output/json_scan.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::output {
namespace {

using grammar::rules::ExprId;
using grammar::rules::FreeTextExit;
using grammar::rules::Grammar;
using grammar::rules::RuleId;

Error PlacedAt(const std::string& field, Error error) {
  error.field = error.field.empty() ? field : fmt::format("{}.{}", field, error.field);
  return error;
}

constexpr std::string_view kAnyText = "(?s).*";  // as a regular expression
constexpr int kIndexedCallsMax = 16;             // in one reply, if calls have an index

class ReplyGrammar {
 public:
  ReplyGrammar(const ReplyRules& rules, const grammar::Compiler::Options& options)
      : rules_(rules),
        options_(options),
        family_(FamilyNamed(rules.family)),
        writing_(WritingOf(family_, rules.chat_template)) {}

  Result<Grammar> Make() {
    if (rules_.output != nullptr) {
      Result<Grammar> read = grammar::ReadSource(*rules_.output, options_);
      if (!read) return PlacedAt(rules_.output_field, std::move(read).error());
      grammar_ = std::move(*read);
      output_ = grammar_.Rule(grammar_.root());
    }
    KVGATE_TRY_VOID(AddTools());
    const RuleId root = grammar_.AddRule("reply");
    grammar_.SetBody(root, Reply());
    grammar_.SetRoot(root);
    return std::move(grammar_);
  }

 private:
  // --- arguments --------------------------------------------------------------------------------

  // Adds a text with the tool's grammar. It is first built separately, because it may have to be
  // rejected.
  Result<ExprId> ByGrammar(const CallableTool& tool, const grammar::language::TextForm& form) {
    const auto add = [&](Grammar& to) {
      return tool.input == InputKind::kLark
                 ? grammar::language::AddLark(to, tool.input_grammar, form)
                 : grammar::language::AddRegex(to, tool.input_grammar, form);
    };
    Grammar alone;
    const Result<ExprId> made = add(alone);
    if (!made) return made;
    const RuleId root = alone.AddRule("root");
    alone.SetBody(root, *made);
    alone.SetRoot(root);
    const grammar::rules::GrammarFacts facts = grammar::rules::Analyze(alone);
    if (facts.left_recursive) {
      return MakeError(ErrorCode::kUnsupported, "reply.grammar",
                       fmt::format("the rule '{}' comes to itself by way of others before any text",
                                   alone.name(*facts.left_recursive)));
    }
    if (!facts.productive[made->value] || facts.unproductive) {
      return MakeError(ErrorCode::kInvalidArgument, "reply.grammar", "no text meets it");
    }
    return add(grammar_);
  }

  // {"input": "…"}, or the equivalent in the family's format.
  Result<ExprId> InputOf(const CallableTool& tool, const grammar::schema::PairForm* pairs) {
    const bool is_plain = pairs != nullptr && !pairs->closing.empty();
    const grammar::language::TextForm form{
        .spelling = is_plain ? grammar::rules::Spelling::kPlain : grammar::rules::Spelling::kJson,
        .closing = is_plain ? pairs->closing : "",
        .budget = &budget_};
    Result<ExprId> text = tool.input == InputKind::kText
                              ? grammar::language::AddRegex(grammar_, kAnyText, form)
                              : ByGrammar(tool, form);
    if (!text && text.error().code != ErrorCode::kInvalidArgument) {
      KVGATE_LOG(kWarning, "reply", "the grammar of the tool '{}' is not followed: {}", tool.name,
                 text.error().detail);
      text = grammar::language::AddRegex(grammar_, kAnyText, form);
    }
    if (!text) return PlacedAt(tool.field, std::move(text).error());
    const std::string quote = is_plain ? "" : "\"";
    std::string before = "{\"input\": ";
    std::string behind = "}";
    if (pairs != nullptr) {
      before = pairs->before_key + "input" + pairs->behind_key;
      behind = pairs->behind_value;
    }
    return grammar_.Sequence(
        {grammar_.Literal(before + quote), *text, grammar_.Literal(quote + behind)});
  }

  Result<ExprId> ArgumentsOf(const CallableTool& tool) {
    const grammar::schema::PairForm* const form = writing_.pairs ? &*writing_.pairs : nullptr;
    if (tool.input != InputKind::kObject) return InputOf(tool, form);
    if (tool.parameters.empty()) return grammar_.Literal(form == nullptr ? "{}" : "");
    grammar::schema::SchemaLimits limits = options_.schema;
    limits.is_relaxed = !tool.strict;
    limits.budget = &budget_;
    Grammar alone;  // checks separately that some value meets the schema
    Result<ExprId> made = grammar::schema::AddArguments(alone, tool.parameters, limits, form);
    if (made && grammar::rules::Analyze(alone).productive[made->value]) {
      Result<ExprId> added = grammar::schema::AddArguments(grammar_, tool.parameters, limits, form);
      return added ? added : PlacedAt(tool.field, std::move(added).error());
    }
    const bool costs_too_much = budget_.is_spent() || alone.is_full();
    if (!tool.strict && !costs_too_much) {
      return form == nullptr ? grammar::rules::JsonParts(grammar_).AnyObject()
                             : grammar_.Literal("");
    }
    if (made) {
      return MakeError(ErrorCode::kInvalidArgument, "reply.grammar",
                       "no value that we could write meets the schema", tool.field);
    }
    return PlacedAt(tool.field, std::move(made).error());
  }

  Result<void> AddTools() {
    for (const CallableTool& tool : rules_.tools) {
      const RuleId rule = grammar_.AddRule("arguments");
      KVGATE_TRY(const ExprId arguments, ArgumentsOf(tool));
      grammar_.SetBody(rule, arguments);
      arguments_.push_back(grammar_.Rule(rule));
    }
    return {};
  }

  // --- calls ------------------------------------------------------------------------------------

  ExprId AsRule(const char* name, ExprId body) {
    const RuleId rule = grammar_.AddRule(name);
    grammar_.SetBody(rule, body);
    return grammar_.Rule(rule);
  }

  static std::string WithIndex(std::string text, int index) {
    if (const size_t at = text.find('#'); at != std::string::npos) {
      text.replace(at, 1, std::to_string(index));
    }
    return text;
  }
  bool is_indexed() const {
    return writing_.head.find('#') != std::string::npos ||
           writing_.middle.find('#') != std::string::npos;
  }

  // NAME and the arguments of any tool, with `middle` between them and `tail` after them.
  ExprId NameAndArguments(std::string_view middle, std::string_view tail) {
    std::vector<ExprId> calls;
    for (size_t i = 0; i < rules_.tools.size(); ++i) {
      calls.push_back(
          grammar_.Sequence({grammar_.Literal(rules_.tools[i].name + std::string(middle)),
                             arguments_[i], grammar_.Literal(tail)}));
    }
    return AsRule("call", grammar_.Choice(calls));
  }

  // `text`, then the call with this index, without its head.
  ExprId Call(std::string_view text, int index) {
    return grammar_.Sequence({grammar_.Literal(text),
                              NameAndArguments(WithIndex(writing_.middle, index), writing_.tail)});
  }

  // The calls of a reply, without the first `skipped` bytes. `more`: several calls are allowed.
  ExprId Calls(size_t skipped, bool more) {
    const std::string before = writing_.begin + WithIndex(writing_.head, 0);
    const ExprId first = Call(std::string_view(before).substr(skipped), 0);
    const ExprId end = grammar_.Literal(writing_.end);
    if (!more || writing_.single) return grammar_.Sequence({first, end});
    if (!is_indexed()) {
      const ExprId next = Call(writing_.between + writing_.head, 0);
      return grammar_.Sequence({first, grammar_.Repeat(next, {}), end});
    }
    ExprId rest = grammar_.Empty();
    for (int index = kIndexedCallsMax - 1; index > 0; --index) {
      const ExprId call = Call(writing_.between + WithIndex(writing_.head, index), index);
      rest = AsRule("calls", grammar_.Optional(grammar_.Sequence({call, rest})));
    }
    return grammar_.Sequence({first, rest, end});
  }

  ExprId Blanks(uint32_t max) {
    return grammar_.Repeat(grammar_.Chars({{'\n', '\n'}, {' ', ' '}}), {.min = 0, .max = max});
  }

  // --- replies that need not call ---------------------------------------------------------------

  // Free text in which a mark begins calls; after them free text continues.
  ExprId Free() {
    switch (family_.shape) {
      case ReplyShape::kChannels:
        return FreeChannels();
      case ReplyShape::kRecipients:
        return FreeParts();
      case ReplyShape::kTags:
        break;
    }
    const RuleId again = grammar_.AddRule("text");
    const ExprId then = rules_.parallel ? grammar_.Rule(again) : grammar_.Empty();
    std::vector<FreeTextExit> exits;
    const auto add = [&](std::string mark, ExprId calls, bool at_begin) {
      exits.push_back({.mark = std::move(mark),
                       .then = grammar_.Sequence({calls, then}),
                       .at_begin = at_begin});
    };
    if (!writing_.mark.empty()) {
      // Families without an end mark repeat the opening mark for each call.
      const bool more = rules_.parallel && !writing_.end.empty();
      add(writing_.mark, AsRule("calls", Calls(writing_.mark.size(), more)), false);
    }
    if (family_.name == "qwen3-coder") AddBareFunction(add);
    if (family_.name == "deepseek" || family_.name == "kimi") AddBareCall(add);
    if (family_.name == "llama3") {
      add("<|python_tag|>", AsRule("calls", Calls(0, rules_.parallel)), false);
    }
    grammar_.SetBody(again, grammar::rules::FreeText(grammar_, {.exits = exits, .may_end = true}));
    if (family_.name != "llama3") return grammar_.Rule(again);
    // Text that begins like a bare call of a tool must be one.
    for (size_t i = 0; i < rules_.tools.size(); ++i) {
      const ExprId rest = grammar_.Sequence({arguments_[i], grammar_.Literal(writing_.tail)});
      add(writing_.head + rules_.tools[i].name + writing_.middle, rest, true);
    }
    return grammar::rules::FreeText(grammar_, {.exits = exits, .may_end = true});
  }

  template <typename Add>
  void AddBareFunction(Add add) {
    const ExprId call = NameAndArguments(writing_.middle, "</function>");
    add("<function=",
        grammar_.Sequence({call, grammar_.Optional(grammar_.Literal("\n</tool_call>"))}), false);
  }

  // A call without the marks that usually surround all calls.
  template <typename Add>
  void AddBareCall(Add add) {
    const std::string mark(family_.forms[0].open);
    const std::string rest = writing_.head.substr(mark.size());
    const ExprId call = Call(rest, 0);
    add(mark, call, false);
  }

  // Messages with headers. A message to a function is a call and ends the reply.
  ExprId FreeChannels() {
    const RuleId text = grammar_.AddRule("text");
    const RuleId header = grammar_.AddRule("header");
    std::vector<ExprId> calls;
    for (const std::string_view middle :
         {" <|constrain|>json<|message|>", "<|message|>", "<|channel|>commentary json<|message|>",
          "<|channel|>commentary <|constrain|>json<|message|>"}) {
      calls.push_back(NameAndArguments(middle, ""));
    }
    const ExprId call = grammar_.Sequence(
        {grammar_.Choice(calls), grammar_.Optional(grammar_.Literal("<|call|>"))});
    const FreeTextExit in_header[] = {{.mark = "<|message|>", .then = grammar_.Rule(text)},
                                      {.mark = "to=functions.", .then = call}};
    grammar_.SetBody(header,
                     grammar::rules::FreeText(grammar_, {.exits = in_header, .may_end = true}));
    const FreeTextExit in_text[] = {{.mark = "<|channel|>", .then = grammar_.Rule(header)},
                                    {.mark = "<|start|>", .then = grammar_.Rule(header)},
                                    {.mark = " to=functions.", .then = call, .at_begin = true}};
    grammar_.SetBody(text, grammar::rules::FreeText(
                               grammar_, {.exits = std::span(in_text).first(2), .may_end = true}));
    return grammar::rules::FreeText(grammar_, {.exits = in_text, .may_end = true});
  }

  // Parts that each name their recipient.
  ExprId FreeParts() {
    const RuleId text = grammar_.AddRule("text");
    const RuleId part = grammar_.AddRule("part");
    const ExprId then = rules_.parallel ? grammar_.Rule(text) : grammar_.Empty();
    grammar_.SetBody(
        part, grammar_.Choice({grammar_.Sequence({grammar_.Literal("all\n"), grammar_.Rule(text)}),
                               grammar_.Sequence({NameAndArguments("\n", ""), then})}));
    const FreeTextExit exit = {.mark = std::string(kPart), .then = grammar_.Rule(part)};
    grammar_.SetBody(text,
                     grammar::rules::FreeText(grammar_, {.exits = {&exit, 1}, .may_end = true}));
    return grammar_.Rule(OpensPart() ? part : text);
  }

  // --- the complete reply -----------------------------------------------------------------------

  static constexpr std::string_view kPart = ">>>";
  bool OpensPart() const {
    return family_.shape == ReplyShape::kRecipients &&
           TrimBlanks(rules_.prompt_tail).ends_with(kPart);
  }

  ExprId Output() {
    std::string_view before;
    if (family_.shape == ReplyShape::kChannels) before = "<|channel|>final<|message|>";
    if (OpensPart()) before = "all\n";
    return grammar_.Sequence({grammar_.Literal(before), *output_});
  }

  ExprId OnlyCalls() {
    const bool opens = family_.shape == ReplyShape::kRecipients && !OpensPart();
    return grammar_.Sequence({grammar_.Literal(opens ? kPart : ""), Calls(0, rules_.parallel)});
  }

  ExprId Reply() {
    const bool is_free = !rules_.must_call && !output_;
    ExprId reply = {};
    if (is_free) {
      reply = Free();
    } else if (rules_.tools.empty()) {
      reply = Output();
    } else if (rules_.must_call) {
      reply = OnlyCalls();
    } else {
      reply = grammar_.Choice({Output(), OnlyCalls()});
    }
    const ReasoningTags& tags = family_.reasoning;
    if (family_.shape != ReplyShape::kTags) return reply;
    const bool is_open = OpensReasoning(family_.name, rules_.prompt_tail);
    if (!is_open && !is_free) return reply;
    const FreeTextExit exit = {.mark = std::string(tags.close),
                               .then = is_free ? reply : grammar_.Sequence({Blanks(4), reply})};
    const ExprId reasoning =
        grammar::rules::FreeText(grammar_, {.exits = {&exit, 1}, .may_end = is_free});
    if (is_open) return reasoning;
    // A reply may open reasoning by itself; marks inside it are not calls.
    return grammar_.Choice({reply, grammar_.Sequence({Blanks(grammar::rules::kUnbounded),
                                                      grammar_.Literal(tags.open), reasoning})});
  }

  const ReplyRules& rules_;
  const grammar::Compiler::Options& options_;
  grammar::rules::Budget budget_;  // shared by the schemas of all tools
  const Family& family_;
  const CallWriting writing_;
  Grammar grammar_;
  std::optional<ExprId> output_;
  std::vector<ExprId> arguments_;  // by tool
};

}  // namespace

Result<Grammar> MakeReplyGrammar(const ReplyRules& rules,
                                 const grammar::Compiler::Options& options) {
  return ReplyGrammar(rules, options).Make();
}

std::string KeyOf(const ReplyRules& rules) {
  // The prompt tail matters only by what it opens; the template is constant, as a server has one
  // model.
  const bool opens = OpensReasoning(rules.family, rules.prompt_tail) ||
                     TrimBlanks(rules.prompt_tail).ends_with(">>>");
  std::string key = fmt::format("{}\n{}{}{}{}\n", rules.family, opens, rules.must_call,
                                rules.parallel, rules.output != nullptr);
  if (rules.output != nullptr) {
    key += fmt::format("{} {} {}\n", static_cast<int>(rules.output->kind),
                       rules.output->text.size(), rules.output->text);
  }
  for (const CallableTool& tool : rules.tools) {
    key += fmt::format("{} {} {} {}\n", tool.name, tool.strict, tool.parameters.size(),
                       tool.parameters);
    if (tool.input == InputKind::kObject) continue;
    key += fmt::format("{} {} {}\n", static_cast<int>(tool.input), tool.input_grammar.size(),
                       tool.input_grammar);
  }
  return key;
}

std::vector<std::string> MarksOf(const Family& family) {
  std::vector<std::string> marks;
  const auto add = [&](std::string_view mark) {
    if (!mark.empty()) marks.emplace_back(mark);
  };
  for (const CallForm& form : family.forms) {
    add(form.open);
    add(form.before_arguments);
    add(form.before_id);
    for (const std::string_view mark : form.close) add(mark);
  }
  for (const std::string_view mark : family.silent) add(mark);
  add(family.reasoning.open);
  add(family.reasoning.close);
  if (family.shape == ReplyShape::kChannels) {
    for (const std::string_view mark : {"<|channel|>", "<|message|>", "<|start|>", "<|end|>",
                                        "<|call|>", "<|return|>", "<|constrain|>"}) {
      add(mark);
    }
  }
  return marks;
}

}  // namespace kvgate::output
