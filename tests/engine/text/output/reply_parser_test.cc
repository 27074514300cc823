// These tests are round trips: calls rendered by a family's template are the calls that its parser
// finds, however the text is cut.
#include "engine/text/output/reply_parser.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/text/jinja/template.h"
#include "tests/engine/text/output/parse.h"

namespace kvgate::output {
namespace {

using jinja::value::Data;
using Json = nlohmann::ordered_json;

// A template by which a family writes an assistant's turn: content, then calls.
struct Form {
  const char* family;
  const char* source;
  const char* tail = "";
};

constexpr const char* kHermes =
    "{{ content }}{% for c in calls %}{% if content or not loop.first %}{{ '\n' }}{% endif %}"
    "<tool_call>\n"
    "{\"name\": \"{{ c.name }}\", \"arguments\": {{ c.arguments | tojson }}}\n</tool_call>"
    "{% endfor %}";
constexpr const char* kCoder =
    "{{ content }}{% for c in calls %}\n<tool_call>\n<function={{ c.name }}>\n"
    "{% for k, v in c.arguments.items() %}<parameter={{ k }}>\n"
    "{% if v is string %}{{ v }}{% else %}{{ v | tojson }}{% endif %}{{ '\n' }}</parameter>\n"
    "{% endfor %}"
    "</function>\n</tool_call>{% endfor %}";
constexpr const char* kGlm =
    "{{ content }}{% for c in calls %}\n<tool_call>{{ c.name }}\n"
    "{% for k, v in c.arguments.items() %}<arg_key>{{ k }}</arg_key>\n<arg_value>"
    "{% if v is string %}{{ v }}{% else %}{{ v | tojson }}{% endif %}</arg_value>\n{% endfor %}"
    "</tool_call>{% endfor %}";
constexpr const char* kFunctionTags =
    "{{ content }}{% for c in calls %}\n<function={{ c.name }}>{{ c.arguments | tojson }}"
    "</function>{% endfor %}";
constexpr const char* kMistral =
    "{{ content }}{% if calls %}[TOOL_CALLS][{% for c in calls %}{\"name\": \"{{ c.name }}\", "
    "\"arguments\": {{ c.arguments | tojson }}, \"id\": \"abcdefgh{{ loop.index }}\"}"
    "{% if not loop.last %}, {% endif %}{% endfor %}]{% endif %}";
constexpr const char* kMistralNamed =
    "{{ content }}{% for c in calls %}[TOOL_CALLS]{{ c.name }}[CALL_ID]abcdefgh{{ loop.index }}"
    "[ARGS]{{ c.arguments | tojson }}{% endfor %}";
constexpr const char* kMistralShort =
    "{{ content }}{% for c in calls %}[TOOL_CALLS]{{ c.name }}{{ c.arguments | tojson }}"
    "{% endfor %}";
constexpr const char* kDeepSeek =
    "{{ content }}{% if calls %}<｜tool▁calls▁begin｜>{% for c in calls %}<｜tool▁call▁begin｜>"
    "function<｜tool▁sep｜>{{ c.name }}\n```json\n{{ c.arguments | tojson }}\n```"
    "<｜tool▁call▁end｜>{% if not loop.last %}\n{% endif %}{% endfor %}<｜tool▁calls▁end｜>"
    "{% endif %}";
constexpr const char* kDeepSeek31 =
    "{{ content }}{% if calls %}<｜tool▁calls▁begin｜>{% for c in calls %}<｜tool▁call▁begin｜>"
    "{{ c.name }}<｜tool▁sep｜>{{ c.arguments | tojson }}<｜tool▁call▁end｜>{% endfor %}"
    "<｜tool▁calls▁end｜>{% endif %}";
constexpr const char* kKimi =
    "{{ content }}{% if calls %}<|tool_calls_section_begin|>{% for c in calls %}"
    "<|tool_call_begin|>functions.{{ c.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>"
    "{{ c.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>{% endif %}";
constexpr const char* kCommand =
    "{% if calls %}<|START_ACTION|>[\n{% for c in calls %}    {\"tool_call_id\": "
    "\"{{ loop.index0 }}\", \"tool_name\": \"{{ c.name }}\", \"parameters\": "
    "{{ c.arguments | tojson }}}{% if not loop.last %},\n{% endif %}{% endfor %}\n]"
    "<|END_ACTION|>{% else %}<|START_RESPONSE|>{{ content }}<|END_RESPONSE|>{% endif %}";
constexpr const char* kCommandOld =
    "{% if calls %}Action: ```json\n[{% for c in calls %}\n    {\n        \"tool_name\": "
    "\"{{ c.name }}\",\n        \"parameters\": {{ c.arguments | tojson }}\n    }"
    "{% if not loop.last %},{% endif %}{% endfor %}\n]```{% else %}{{ content }}{% endif %}";
constexpr const char* kLlama =
    "{% if calls %}{% for c in calls %}{\"name\": \"{{ c.name }}\", \"parameters\": "
    "{{ c.arguments | tojson }}}{% if not loop.last %}; {% endif %}{% endfor %}"
    "{% else %}{{ content }}{% endif %}";
constexpr const char* kLlamaTag =
    "{% if calls %}{% for c in calls %}<|python_tag|>{\"name\": \"{{ c.name }}\", \"parameters\": "
    "{{ c.arguments | tojson }}}{% endfor %}{% else %}{{ content }}{% endif %}";
constexpr const char* kHarmony =
    "{% if content %}<|channel|>commentary<|message|>{{ content }}<|end|><|start|>assistant"
    "{% endif %}{% for c in calls %}<|channel|>commentary to=functions.{{ c.name }} "
    "<|constrain|>json<|message|>{{ c.arguments | tojson }}<|call|>{% if not loop.last %}"
    "<|start|>assistant{% endif %}{% endfor %}";
constexpr const char* kFunctionary =
    "{% if content %}all\n{{ content }}{% endif %}{% for c in calls %}"
    "{% if content or not loop.first %}>>>{% endif %}{{ c.name }}\n{{ c.arguments | tojson }}"
    "{% endfor %}";

constexpr Form kForms[] = {
    {"generic", kHermes},
    {"hermes", kHermes},
    {"qwen3-coder", kCoder},
    {"glm", kGlm},
    {"functionary-3.1", kFunctionTags},
    {"mistral", kMistral},
    {"mistral", kMistralNamed},
    {"mistral", kMistralShort},
    {"deepseek", kDeepSeek},
    {"deepseek", kDeepSeek31},
    {"kimi", kKimi},
    {"command-r", kCommand},
    {"command-r", kCommandOld},
    {"llama3", kLlama},
    {"llama3", kLlamaTag},
    {"harmony", kHarmony},
    {"functionary-3.2", kFunctionary, "assistant\n>>>"},
};

Data ToData(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return json.get<int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      Data::List list;
      for (const Json& item : json) list.push_back(ToData(item));
      return list;
    }
    case Json::value_t::object: {
      Data::Dict dict;
      for (const auto& [key, value] : json.items()) dict.emplace_back(key, ToData(value));
      return dict;
    }
    default:
      return {};
  }
}

struct Call {
  std::string name;
  Json arguments;
  friend bool operator==(const Call&, const Call&) = default;
};

std::string Render(const Form& form, const std::string& content, const std::vector<Call>& calls) {
  auto parsed = jinja::Template::Parse(form.source);
  EXPECT_TRUE(parsed) << form.family;
  Data::List list;
  for (const Call& call : calls) {
    list.push_back(Data::Dict{{"name", call.name}, {"arguments", ToData(call.arguments)}});
  }
  const Data calls_data(list);
  const Data content_data(content);
  const std::vector<jinja::Template::Variable> variables = {
      {.name = "content", .value = &content_data}, {.name = "calls", .value = &calls_data}};
  auto rendered = (*parsed)->Render({.variables = variables});
  EXPECT_TRUE(rendered) << form.family;
  return rendered->text;
}

ReplyParserOptions Options(const Form& form) {
  return {.family = form.family,
          .calls = true,
          .tools = {{.name = "get_weather", .text_arguments = {"city", "text"}},
                    {.name = "run", .text_arguments = {"code", "s"}}},
          .prompt_tail = form.tail};
}

struct Reply {
  std::string text;
  std::vector<Call> calls;
};

Reply Collect(const std::vector<Piece>& pieces) {
  Reply reply;
  std::string arguments;
  for (const Piece& piece : pieces) {
    if (piece.kind == PieceKind::kText) reply.text += piece.text;
    if (piece.kind == PieceKind::kCall)
      reply.calls.push_back({.name = piece.text, .arguments = {}});
    if (piece.kind == PieceKind::kArguments) arguments += piece.text;
    if (piece.kind != PieceKind::kCallEnd) continue;
    reply.calls.back().arguments = Json::parse(arguments, nullptr, false);
    arguments.clear();
  }
  return reply;
}

// Returns calls that each family must carry: with quotes, newlines, braces, markup, Unicode, no
// arguments, and all JSON types.
std::vector<std::vector<Call>> Cases() {
  return {
      {},
      {{"get_weather", Json::parse(R"({"city":"Paris"})")}},
      {{"get_weather", Json::object()}},
      {{"run", Json::parse(R"({"code":"print(\"a\\n\")\nif x: { 'y' }\n","n":3,"f":1.5})")}},
      {{"run", Json::parse(R"({"s":"}]\"\\ {[ <b> </x> `\t` ;","deep":{"a":[1,{"b":null}]}})")}},
      {{"get_weather",
        Json::parse(R"({"city":"Zürich 東京 🌦","ok":true,"no":false,"z":null})")}},
      {{"get_weather", Json::parse(R"({"city":"123"})")},
       {"run", Json::parse(R"({"code":"true","list":["a",2,[]]})")},
       {"get_weather", Json::parse(R"({"text":""})")}},
  };
}

// Returns false for forms whose replies are calls alone: their templates drop the text, or it would
// be read as a part of the call.
bool HoldsText(const Form& form) {
  return form.source != kCommand && form.source != kCommandOld && form.source != kLlama &&
         form.source != kLlamaTag;
}

TEST(RoundTripTest, WhatIsRenderedIsParsedWhateverTheCuts) {
  for (const Form& form : kForms) {
    for (const std::vector<Call>& calls : Cases()) {
      for (const std::string content : {"", "Let me look.\n\nIt's {\"name\": 1} <b>."}) {
        const bool has_text = !content.empty() && (HoldsText(form) || calls.empty());
        const std::string text = Render(form, has_text ? content : "", calls);
        const std::vector<Piece> whole = Parse(Options(form), text);
        const Reply reply = Collect(whole);
        EXPECT_EQ(reply.text, has_text ? content : "") << form.family << "\n" << text;
        EXPECT_EQ(reply.calls, calls) << form.family << "\n" << text << "\n" << Show(whole);
        for (const size_t bytes : {1, 2, 3, 7, 16}) {
          EXPECT_EQ(ParseCut(Options(form), text, bytes), whole) << form.family << " " << bytes;
        }
      }
    }
  }
}

TEST(RoundTripTest, EveryCutInTwoGivesTheSame) {
  for (const Form& form : kForms) {
    const std::string text = Render(form, HoldsText(form) ? "Well:" : "", Cases().back());
    const std::vector<Piece> whole = Parse(Options(form), text);
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      const auto parser = MakeReplyParser(Options(form));
      std::vector<Piece> pieces;
      parser->Push(std::string_view(text).substr(0, cut), pieces);
      parser->Push(std::string_view(text).substr(cut), pieces);
      parser->Finish(pieces);
      EXPECT_EQ(Merge(pieces), whole) << form.family << " " << cut;
    }
  }
}

TEST(RoundTripTest, ArgumentsComeBeforeTheCallIsAtItsEnd) {
  const std::string text = Render(kForms[1], "", {{"run", Json::parse(R"({"code":"long"})")}});
  const auto parser = MakeReplyParser(Options(kForms[1]));
  std::vector<Piece> pieces;
  parser->Push(std::string_view(text).substr(0, text.find("long") + 2), pieces);
  EXPECT_EQ(Show(Merge(pieces)), "call run{\"code\": \"lo");
}

TEST(RoundTripTest, ReasoningThatThePromptOpensIsSeen) {
  EXPECT_TRUE(OpensReasoning("hermes", "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(OpensReasoning("hermes", "<think>\n\n</think>\n\n"));
}

std::string Letters(std::string_view text) {
  std::string letters;
  for (const char byte : text) {
    if (!(byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r')) letters += byte;
  }
  return letters;
}

// A reply that is cut short or mangled never fails, and one without a call keeps all its text.
TEST(RoundTripTest, MangledRepliesLoseNoTextAndDoNotDependOnCuts) {
  std::mt19937 random(7);
  for (const Form& form : kForms) {
    for (int i = 0; i < 300; ++i) {
      std::string text = Render(form, HoldsText(form) ? "Well:" : "", Cases()[random() % 7]);
      for (int edits = static_cast<int>(random() % 3); edits >= 0 && !text.empty(); --edits) {
        const size_t at = random() % text.size();
        if (random() % 2 == 0) {
          text.erase(at, 1 + random() % 9);
        } else {
          text[at] = "{}\"<>[]\\:x"[random() % 10];
        }
      }
      const std::vector<Piece> whole = Parse(Options(form), text);
      EXPECT_EQ(ParseCut(Options(form), text, 1), whole) << form.family << "\n" << text;
      const Reply reply = Collect(whole);
      const bool marks =
          text.find("<|") != std::string::npos || text.find(">>>") != std::string::npos ||
          text.find("all") != std::string::npos || text.find("<｜") != std::string::npos;
      if (reply.calls.empty() && !marks) {
        EXPECT_EQ(Letters(reply.text), Letters(text)) << form.family;
      }
    }
  }
}

}  // namespace
}  // namespace kvgate::output
