#include "engine/text/output/reply_grammar.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "engine/text/grammar/mask/matcher.h"
#include "engine/text/output/reply_parser.h"
#include "tests/engine/text/grammar/grammar_fixture.h"
#include "tests/engine/text/grammar/schema_validator.h"

namespace kvgate::output {
namespace {

using grammar::PlainJson;

// A family, a piece of template text that selects a variant of it, and the end of its prompt.
struct Way {
  std::string_view family;
  std::string_view chat_template = "";
  std::string_view tail = "";
};
const Way kWays[] = {{"generic"},
                     {"hermes"},
                     {"hermes", "", "<think>\n"},
                     {"qwen3-coder"},
                     {"glm"},
                     {"glm", "", "<think>"},
                     {"functionary-3.1"},
                     {"llama3"},
                     {"mistral"},
                     {"mistral", "[ARGS]"},
                     {"deepseek"},
                     {"deepseek", "```json", "<think>\n"},
                     {"kimi"},
                     {"command-r", "<|START_ACTION|>"},
                     {"command-r"},
                     {"lfm2"},
                     {"phi", "<|/tool_call|>"},
                     {"phi"},
                     {"harmony"},
                     {"functionary-3.2", "", ">>>"},
                     {"functionary-3.2"}};

bool Thinks(const Way& way) { return way.tail.find("<think>") != std::string_view::npos; }

// Returns parameter schemas of tools; "" means that a tool has none.
const std::vector<std::string>& Schemas() {
  static const std::vector<std::string> schemas = {
      "",
      R"({"type":"object","properties":{"city":{"type":"string","maxLength":20},
         "days":{"type":"integer","minimum":1,"maximum":9}},"required":["city"]})",
      R"({"type":"object","properties":{"path":{"type":"string","pattern":"^[a-z/<]{2,9}$"},
         "mode":{"type":"string","enum":["r","w","</parameter>","a\n"]},
         "lines":{"type":"array","items":{"type":"string","maxLength":6},"maxItems":3},
         "deep":{"type":"object","properties":{"a<b":{"enum":["<",1,null,"</arg_value>"]}},
                 "required":["a<b"]}},
         "required":["path","mode","deep","lines"],"additionalProperties":false})",
      R"({"type":"object","properties":{"x":{"type":["number","null"],"exclusiveMinimum":-2.5},
         "kind":{"anyOf":[{"const":"none"},{"type":"boolean"}]},
         "note":{"type":["string","null"],"minLength":2,"maxLength":9}},
         "required":["x","note","kind"]})",
      R"({"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"],
         "$defs":{"n":{"type":"object","properties":{"v":{"type":"integer","maximum":3},
         "next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/n"}]}},"required":["v","next"]}}})",
  };
  return schemas;
}

std::vector<CallableTool> AllTools() {
  std::vector<CallableTool> tools;
  for (size_t i = 0; i < Schemas().size(); ++i) {
    tools.push_back({.name = "tool_" + std::to_string(i) + (i == 1 ? "" : "-x"),
                     .parameters = Schemas()[i],
                     .strict = true});
    if (i == 2) tools.back().name = "tool_1b";  // begins like another tool's name
  }
  return tools;
}

ToolShape ShapeOf(const CallableTool& tool) {
  ToolShape shape{.name = tool.name, .text_arguments = {}};
  if (tool.parameters.empty()) return shape;
  const PlainJson schema = PlainJson::parse(tool.parameters);
  for (const auto& [name, property] : schema.at("properties").items()) {
    const PlainJson type = property.value("type", PlainJson());
    const bool is_text = type == "string" || (type.is_array() && std::find(type.begin(), type.end(),
                                                                           "string") != type.end());
    if (is_text) shape.text_arguments.push_back(name);
  }
  return shape;
}

class ReplyGrammarTest : public testing::Test {
 protected:
  ReplyRules RulesOf(const Way& way) const {
    return {.family = way.family,
            .chat_template = way.chat_template,
            .prompt_tail = way.tail,
            .tools = tools_,
            .must_call = true};
  }

  std::shared_ptr<const grammar::mask::CompiledGrammar> Compile(const ReplyRules& rules) {
    const auto made = compiler_.Compile(grammar::Compiler::Recipe{
        .key = KeyOf(rules) + std::string(rules.chat_template),
        .make = [&] { return MakeReplyGrammar(rules, compiler_.options()); },
        .is_open = !rules.must_call && rules.output == nullptr});
    if (!made) throw std::runtime_error(made.error().ToString());
    return *made;
  }

  // Writes a random reply under the mask. With `end_soon` it ends as soon as it may.
  std::string Write(const std::shared_ptr<const grammar::mask::CompiledGrammar>& compiled,
                    int num_tokens, bool end_soon = false) {
    const auto matcher = pool_.Start(compiled);
    std::vector<uint64_t> mask((static_cast<size_t>(tokenizer_->vocab_size()) + 63) / 64);
    std::string text;
    for (int left = num_tokens; left > 0 && !matcher->IsComplete(); --left) {
      if (end_soon && matcher->CanEnd()) break;
      const auto any = matcher->FillMask(mask, left);
      EXPECT_TRUE(any.has_value());
      if (!any.has_value()) break;
      if (*any) mask.assign(mask.size(), ~uint64_t{0});
      std::vector<TokenId> tokens = grammar::TokensIn(mask);
      std::erase_if(tokens, [&](TokenId token) { return token >= tokenizer_->vocab_size(); });
      if (tokens.empty()) return text + " <nothing left>";
      const TokenId token = tokens[random_() % tokens.size()];
      EXPECT_TRUE(matcher->AcceptToken(token));
      if (tokenizer_->is_end_of_generation(token)) break;
      text += tokenizer_->TokenBytes(token);
    }
    return text;
  }

  struct Call {
    std::string name;
    std::string arguments;
  };
  struct Parsed {
    std::vector<Call> calls;
    std::string text;
    std::string reasoning;
  };
  Parsed Parse(const Way& way, std::string_view text) const {
    ReplyParserOptions options{
        .family = way.family, .calls = true, .tools = {}, .prompt_tail = way.tail};
    for (const CallableTool& tool : tools_) options.tools.push_back(ShapeOf(tool));
    const auto parser = MakeReplyParser(options);
    std::vector<Piece> pieces;
    parser->Push(text, pieces);
    parser->Finish(pieces);
    Parsed parsed;
    for (const Piece& piece : pieces) {
      if (piece.kind == PieceKind::kCall) parsed.calls.push_back({piece.text, ""});
      if (piece.kind == PieceKind::kArguments) parsed.calls.back().arguments += piece.text;
      if (piece.kind == PieceKind::kText) parsed.text += piece.text;
      if (piece.kind == PieceKind::kReasoning) parsed.reasoning += piece.text;
    }
    return parsed;
  }

  void ExpectRight(const Call& call, const std::string& text) const {
    const auto tool = std::find_if(tools_.begin(), tools_.end(),
                                   [&](const CallableTool& t) { return t.name == call.name; });
    ASSERT_NE(tool, tools_.end()) << call.name << " in\n" << text;
    const PlainJson value = PlainJson::parse(call.arguments, nullptr, false);
    ASSERT_TRUE(value.is_object()) << call.arguments << " in\n" << text;
    const std::string schema =
        tool->parameters.empty() ? "{\"maxProperties\":0}" : tool->parameters;
    const grammar::SchemaValidator validator(PlainJson::parse(schema));
    ASSERT_EQ(validator.Check(value), "") << call.arguments << " in\n" << text;
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = grammar::JsonTokenizer();
  grammar::Compiler compiler_{*tokenizer_, {}};
  grammar::mask::MatcherPool pool_;
  std::mt19937_64 random_{11};
  std::vector<CallableTool> tools_ = AllTools();
};

TEST_F(ReplyGrammarTest, RepliesThatMustCallAreRightCallsInEveryFamily) {
  for (const Way& way : kWays) {
    for (const bool parallel : {false, true}) {
      ReplyRules rules = RulesOf(way);
      rules.parallel = parallel;
      const auto compiled = Compile(rules);
      size_t num_calls_max = 0;
      for (int round = 0; round < 25; ++round) {
        const std::string text = Write(compiled, 900);
        const Parsed parsed = Parse(way, text);
        ASSERT_GE(parsed.calls.size(), 1u) << way.family << "\n" << text;
        ASSERT_EQ(parsed.text, "") << way.family << "\n" << text;
        if (!parallel) {
          ASSERT_EQ(parsed.calls.size(), 1u) << way.family << "\n" << text;
        }
        for (const Call& call : parsed.calls) ExpectRight(call, text);
        num_calls_max = std::max(num_calls_max, parsed.calls.size());
      }
      // Thoughts may use up all tokens, so a thinking reply need not have several calls.
      if (parallel && way.family != "harmony" && !Thinks(way)) {
        EXPECT_GT(num_calls_max, 1u) << way.family;
      }
    }
  }
}

TEST_F(ReplyGrammarTest, OnlyAllowedToolsAreCalled) {
  for (const Way& way : kWays) {
    ReplyRules rules = RulesOf(way);
    rules.tools = {tools_[1]};
    const auto compiled = Compile(rules);
    for (int round = 0; round < 5; ++round) {
      const std::string text = Write(compiled, 500);
      for (const Call& call : Parse(way, text).calls) EXPECT_EQ(call.name, "tool_1") << text;
    }
  }
}

// Returns the text that begins a call in each family.
std::string OpeningOf(const Way& way) {
  if (way.family == "harmony") return "<|channel|>commentary to=functions.";
  if (way.family == "functionary-3.2") return ">>>tool_1";
  if (way.family == "llama3") return "<|python_tag|>";
  if (way.family == "command-r" && way.chat_template.empty()) return "Action: ```json";
  return std::string(FamilyNamed(way.family).forms[0].open);
}

TEST_F(ReplyGrammarTest, AFreeReplyIsAnyTextUntilItCalls) {
  for (const Way& way : kWays) {
    ReplyRules rules = RulesOf(way);
    rules.must_call = false;
    const auto compiled = Compile(rules);
    const auto matcher = pool_.Start(compiled);
    std::vector<uint64_t> mask((static_cast<size_t>(tokenizer_->vocab_size()) + 63) / 64);
    const bool opens_part = way.family == "functionary-3.2" && !way.tail.empty();
    if (!opens_part) {
      const auto any = matcher->FillMask(mask, 100);
      ASSERT_TRUE(any.has_value());
      EXPECT_TRUE(*any) << way.family;
    }
    // A reply that has begun a call must continue as a call.
    const std::string close(FamilyNamed(way.family).reasoning.close);
    const std::string begun = (Thinks(way) ? "hm <tool_call> " + close + "\n" : "") +
                              (opens_part ? "all\n" : "") + "hello { < \xff " + OpeningOf(way);
    grammar::mask::StateTable states(compiled->automaton);
    grammar::mask::StateId state = states.Start();
    for (const char byte : begun) state = states.Next(state, static_cast<uint8_t>(byte));
    ASSERT_NE(state, grammar::mask::StateTable::kDead) << way.family << begun;
    EXPECT_EQ(states.can_end(state), false) << way.family << begun;
    std::string text = begun;
    while (!states.can_end(state) && text.size() < 4000) {
      std::vector<char> bytes;
      for (int byte = 0; byte < 256; ++byte) {
        if (states.Next(state, static_cast<uint8_t>(byte)) != grammar::mask::StateTable::kDead) {
          bytes.push_back(static_cast<char>(byte));
        }
      }
      ASSERT_FALSE(bytes.empty());
      text += bytes[random_() % bytes.size()];
      state = states.Next(state, static_cast<uint8_t>(text.back()));
    }
    const Parsed parsed = Parse(way, text);
    if (text.size() >= 4000) continue;
    ASSERT_GE(parsed.calls.size(), 1u) << way.family << "\n" << text;
    for (const Call& call : parsed.calls) ExpectRight(call, text);
    EXPECT_NE(parsed.text.find("hello"), std::string::npos) << text;
  }
}

TEST_F(ReplyGrammarTest, ABareCallOfAToolHasItsArguments) {
  ReplyRules rules = RulesOf({"llama3"});
  rules.must_call = false;
  const auto compiled = Compile(rules);
  const auto takes = [&](std::string_view text) {
    return grammar::Takes(compiled->automaton, text);
  };
  EXPECT_TRUE(takes(R"({"name": "tool_1", "parameters": {"city": "x"}})"));
  EXPECT_FALSE(takes(R"({"name": "tool_1", "parameters": {"city": 1}})"));
  EXPECT_TRUE(takes(R"({"name": "tool_9", "parameters": {"city": 1}})"));
  EXPECT_TRUE(takes(R"( {"name": "tool_1", "parameters": 0)"));
  EXPECT_TRUE(takes(R"({"name": "tool)"));
}

TEST_F(ReplyGrammarTest, AnOutputStandsBehindReasoningAndBesideCalls) {
  const grammar::Source output = {.kind = grammar::SourceKind::kJsonSchema,
                                  .text = R"({"enum":["yes","no"]})"};
  ReplyRules rules{.family = "hermes", .prompt_tail = "<think>\n", .output = &output};
  const auto takes = [&](std::string_view text) {
    return grammar::Takes(Compile(rules)->automaton, text);
  };
  EXPECT_TRUE(takes("well </th </think>\n\n\"yes\""));
  EXPECT_FALSE(takes("\"yes\""));
  EXPECT_FALSE(takes("x</think>\n"));
  rules.prompt_tail = "";
  EXPECT_TRUE(takes("\"no\""));
  EXPECT_FALSE(takes("<think></think>\"no\""));
  rules.tools = {tools_[0]};
  EXPECT_TRUE(takes("\"no\""));
  EXPECT_TRUE(takes("<tool_call>\n{\"name\": \"tool_0-x\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(takes("no"));
  rules.family = "harmony";
  EXPECT_TRUE(takes("<|channel|>final<|message|>\"yes\""));
}

TEST_F(ReplyGrammarTest, WhatIsNotSupportedIsAnErrorOnlyWhereItIsStrict) {
  const std::string odd = R"({"type":"object","properties":{"a":{"type":"string"},
      "b":{"type":"integer","if":{},"multipleOf":0.3},"c":{"type":"frog"},
      "d":{"type":"array","items":{"type":"string","format":"x"},"uniqueItems":true}},
      "required":["a","b","c","d"],"dependentSchemas":{}})";
  for (const Way& way : kWays) {
    ReplyRules rules = RulesOf(way);
    rules.tools = {{.name = "t", .parameters = odd, .strict = true, .field = "tools[0].input"}};
    const auto refused = MakeReplyGrammar(rules, {});
    ASSERT_FALSE(refused.has_value());
    EXPECT_TRUE(refused.error().field.starts_with("tools[0].input.")) << refused.error().field;
    rules.tools[0].strict = false;
    tools_ = rules.tools;
    tools_[0].parameters = R"({"properties":{"a":{"type":"string"},"b":{"type":"integer"},
        "d":{"type":"array"}},"required":["a","b","c","d"]})";
    const auto compiled = Compile(rules);
    for (int round = 0; round < 5; ++round) {
      const std::string text = Write(compiled, 600);
      const Parsed parsed = Parse(way, text);
      ASSERT_GE(parsed.calls.size(), 1u) << way.family << "\n" << text;
      ExpectRight(parsed.calls[0], text);
    }
    for (const char* const bad : {"{", "7", R"({"type":"string"})", "false"}) {
      rules.tools[0].parameters = bad;
      EXPECT_TRUE(MakeReplyGrammar(rules, {}).has_value()) << bad;
      rules.tools[0].strict = true;
      const auto strict = MakeReplyGrammar(rules, {});
      EXPECT_FALSE(strict.has_value()) << bad << way.family;
      rules.tools[0].strict = false;
    }
  }
}

// Each input has one spelling, so rendering a call again gives what the model wrote.
TEST_F(ReplyGrammarTest, InputsOfCustomToolsFollowTheirGrammarsInEveryFamily) {
  const std::string lark =
      "start: line+\nline: (\"+\" | \"-\") /[a-z\"\\\\<]{1,4}/ LF\n"
      "%import common.LF\n";
  tools_ = {{.name = "patch", .input = InputKind::kLark, .input_grammar = lark},
            {.name = "word", .input = InputKind::kRegex, .input_grammar = "[a-z]{2,5}"},
            {.name = "any", .input = InputKind::kText}};
  for (CallableTool& tool : tools_)
    tool.parameters = R"({"properties":{"input":{"type":"string"}}})";
  const std::regex patch("([+-][a-z\"\\\\<]{1,4}\n)+");
  const std::regex word("[a-z]{2,5}");
  for (const Way& way : kWays) {
    ReplyRules rules = RulesOf(way);
    rules.parallel = false;
    const auto compiled = Compile(rules);
    for (int round = 0; round < 20; ++round) {
      const std::string text = Write(compiled, 900, true);
      const Parsed parsed = Parse(way, text);
      ASSERT_EQ(parsed.calls.size(), 1u) << way.family << "\n" << text;
      const PlainJson value = PlainJson::parse(parsed.calls[0].arguments, nullptr, false);
      ASSERT_TRUE(value.is_object()) << parsed.calls[0].arguments << " in\n" << text;
      ASSERT_EQ(value.size(), 1u);
      const auto input = value.at("input").get<std::string>();
      if (parsed.calls[0].name == "patch") {
        // A reader of markup takes the line feed before its closing tag for a part of the tag.
        const bool trimmed = !std::regex_match(input, patch);
        ASSERT_TRUE(std::regex_match(trimmed ? input + "\n" : input, patch)) << input;
      }
      if (parsed.calls[0].name == "word") {
        ASSERT_TRUE(std::regex_match(input, word)) << input;
      }
    }
  }
}

TEST_F(ReplyGrammarTest, AGrammarThatIsNoneIsRefusedAndOneThatWeCannotFollowIsLeft) {
  ReplyRules rules = RulesOf({"hermes"});
  const auto made = [&](InputKind kind, std::string text) {
    rules.tools = {{.name = "f",
                    .field = "tools[0].format.definition",
                    .input = kind,
                    .input_grammar = std::move(text)}};
    return MakeReplyGrammar(rules, {});
  };
  const auto bad = made(InputKind::kLark, "start: \"x");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().field, "tools[0].format.definition");
  EXPECT_FALSE(made(InputKind::kRegex, "[a"));
  EXPECT_FALSE(made(InputKind::kLark, "start: a\na: \"x\" a")) << "it never ends";
  EXPECT_TRUE(made(InputKind::kRegex, "(?<=a)b")) << "any text";
  EXPECT_TRUE(made(InputKind::kLark, "start: a\na: b \"x\"\nb: a | \"y\"")) << "likewise";
}

}  // namespace
}  // namespace kvgate::output
