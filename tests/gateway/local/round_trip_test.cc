// These tests take calls through a whole provider: the text that a chat template renders for a turn
// with calls becomes the answer of the next model, and that answer's calls must be those of the
// turn. They use small templates of this repository, and those of real models if they are at hand.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "engine/text/chat/template_format.h"
#include "gateway/dialect/reply/reply_choice.h"
#include "tests/engine/model/test_paths.h"
#include "tests/gateway/fakes.h"

namespace kvgate::local {

using jinja::value::Data;

namespace {

using dialect::form::CompletionRequest;
using dialect::form::Message;
using dialect::form::ToolCall;
using Json = nlohmann::ordered_json;

dialect::form::Tool ToolOf(const std::string& name, Data::Dict properties) {
  Data::Dict parameters{{"type", "object"}, {"properties", std::move(properties)}};
  return {
      .name = name,
      .definition = Data::Dict{{"type", "function"},
                               {"function", Data::Dict{{"name", name},
                                                       {"description", "Does it."},
                                                       {"parameters", std::move(parameters)}}}}};
}

std::vector<dialect::form::Tool> Tools(bool nullable) {
  const auto type = [](const char* name) {
    return Data::Dict{{"type", name}, {"description", "A value."}};
  };
  const Data maybe(Data::Dict{{"type", Data::List{"string", "null"}}, {"description", "Or not."}});
  return {ToolOf("get_weather", {{"city", type("string")},
                                 {"text", type("string")},
                                 {"maybe", nullable ? maybe : type("string")},
                                 {"ok", type("boolean")},
                                 {"no", type("boolean")},
                                 {"z", type(nullable ? "null" : "boolean")}}),
          ToolOf("run-it", {{"code", type("string")},
                            {"s", type("string")},
                            {"n", type("integer")},
                            {"f", type("number")},
                            {"big", type("integer")},
                            {"deep", type("object")},
                            {"list", type("array")}}),
          ToolOf("empty", {})};
}

struct Script {
  std::string source;
  std::vector<std::string> pieces;
};

struct Fixture {
  explicit Fixture(const Script& script)
      : engine({.pieces = script.pieces}),
        provider({.engine = engine,
                  .tokenizer = tokenizer,
                  .chat_format = chat::MakeTemplateFormat({.name = "test",
                                                           .source = script.source,
                                                           .bos_token = "<s>",
                                                           .eos_token = "</s>"})
                                     .value(),
                  .names = {"m"}}) {
    engine.mutable_info().context_tokens_max = 1 << 20;
  }
  test::FakeTokenizer tokenizer;
  test::FakeEngine engine;
  LocalProvider provider;
};

struct Source {
  std::string text;
  bool nullable = true;
};

CompletionRequest Request(const Source& source, std::vector<Message> messages) {
  CompletionRequest request;
  request.prompt = std::move(messages);
  request.tools = Tools(source.nullable);
  return request;
}

std::string PromptOf(const Source& source, std::vector<Message> messages) {
  Fixture fixture({.source = source.text, .pieces = {"x"}});
  const auto stream =
      fixture.provider.Run({.request = Request(source, std::move(messages)), .tenant = {}});
  EXPECT_TRUE(stream) << stream.error().ToString();
  if (!stream) return {};
  return fixture.tokenizer.Decode(fixture.engine.last_request().prompt, false);
}

// Returns the message of a model that answers with `reply` in pieces of `bytes` bytes.
Message AnswerTo(const Source& source, const std::string& reply, size_t bytes) {
  std::vector<std::string> pieces;
  for (size_t i = 0; i < reply.size(); i += bytes) pieces.push_back(reply.substr(i, bytes));
  Fixture fixture({.source = source.text, .pieces = pieces});
  const auto stream =
      fixture.provider.Run({.request = Request(source, {{"user", "Please."}}), .tenant = {}});
  EXPECT_TRUE(stream) << stream.error().ToString();
  if (!stream) return {};
  dialect::reply::ReplyChoice choice;
  for (bool finished = false; !finished;) {
    for (const auto& event : (*stream)->Take()) {
      if (const auto* delta = std::get_if<dialect::form::DeltaEvent>(&event)) choice.Add(*delta);
      finished = finished || std::holds_alternative<dialect::form::FinishEvent>(event);
    }
    std::this_thread::yield();
  }
  return choice.ToMessage();
}

// Returns the text of a turn: the part of its rendering after the prompt that asked for it, up to
// the end of the turn.
std::string ReplyOf(const Source& source, const Message& turn) {
  std::string asked = PromptOf(source, {{"user", "Please."}});
  std::vector<Message> messages = {{"user", "Please."}, turn};
  for (const ToolCall& call : turn.tool_calls) {
    messages.push_back({.role = "tool", .content = "RESULT", .tool_call_id = call.id});
  }
  const std::string all = PromptOf(source, messages);
  std::string thinking;
  if (asked.ends_with("<think>\n")) {  // the history has no thinking
    asked.resize(asked.size() - std::string("<think>\n").size());
    thinking = "\n</think>\n\n";
  }
  size_t begin = 0;
  while (begin < std::min(asked.size(), all.size()) && asked[begin] == all[begin]) ++begin;
  std::string reply = all.substr(begin);
  reply = reply.substr(0, reply.find("RESULT"));
  size_t end = reply.size();
  for (const char* mark :
       {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "</s>", "<｜end▁of▁sentence｜>", "<|call|>",
        "<|observation|>", "<|END_OF_TURN_TOKEN|>", "[TOOL_RESULTS]", "<｜tool▁outputs▁begin｜>",
        "<|end|>\n", "<end_of_turn>", "<END>"}) {
    end = std::min(end, reply.find(mark));
  }
  return thinking + reply.substr(0, end);
}

struct Case {
  const char* arguments;
  const char* name = "run-it";
};

// Returns calls that each family must carry: with quotes, newlines, braces, markup, Unicode, no
// arguments, all JSON types, numbers of any size, and texts that look like markup of other
// families.
std::vector<std::vector<Case>> Cases() {
  return {
      {{R"({"city":"Paris"})", "get_weather"}},
      {{"{}", "empty"}},
      {{R"({"code":"print(\"a\\n\")\nif x: { 'y' }\n","n":3,"f":1.5})"}},
      {{R"({"s":"}]\"\\ {[ <b> </x> `\t` ; ', \"\"\" \\n","deep":{"a":[1,{"b":null}]}})"}},
      {{R"({"city":"Zürich 東京 🌦 \u0001","ok":true,"no":false,"z":null})", "get_weather"}},
      {{R"({"n":-7,"big":12345678901234567890123,"f":1.10})"}},
      {{R"({"f":1e-7,"n":0,"list":[]})"}},
      {{R"({"deep":{"":{"k":"v"}},"list":["a",2,[true,false,null],{"x":"'\""}]})"}},
      {{R"({"city":"123","text":"","maybe":null})", "get_weather"}},
      {{R"({"code":"true","s":"null"})"}},
      {{R"({"code":" padded ","s":"[1]"})"}},
      {{R"({"city":"A"})", "get_weather"},
       {R"({"code":"x\ny","list":["a",2,[]]})"},
       {R"({"text":"b"})", "get_weather"}},
  };
}

struct Expectation {
  size_t calls_max = 9;    // calls that a turn can hold in this template
  bool keeps_text = true;  // text beside calls is kept
  bool nullable = true;    // a parameter's types may include null
};

Message TurnOf(const std::vector<Case>& calls, const std::string& content) {
  Message turn{.role = "assistant", .content = content};
  for (size_t i = 0; i < calls.size(); ++i) {
    turn.tool_calls.push_back({.id = "callid00" + std::to_string(i),
                               .name = calls[i].name,
                               .arguments = calls[i].arguments});
  }
  return turn;
}

void CheckRoundTrips(const std::string& text, const Expectation& expected) {
  const Source source{.text = text, .nullable = expected.nullable};
  for (const std::vector<Case>& calls : Cases()) {
    if (calls.size() > expected.calls_max) continue;
    for (const std::string content : {"", "Let me look.\n\nIt's {\"name\": 1} <b>."}) {
      if (!content.empty() && !expected.keeps_text) continue;
      const std::string reply = ReplyOf(source, TurnOf(calls, content));
      const Message whole = AnswerTo(source, reply, std::max<size_t>(reply.size(), 1));
      EXPECT_EQ(whole.content, content) << reply;
      ASSERT_EQ(whole.tool_calls.size(), calls.size()) << reply;
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(whole.tool_calls[i].name, calls[i].name);
        EXPECT_EQ(Json::parse(whole.tool_calls[i].arguments, nullptr, false),
                  Json::parse(calls[i].arguments))
            << reply << "\n"
            << whole.tool_calls[i].arguments;
        EXPECT_FALSE(whole.tool_calls[i].id.empty());
      }
      const Message cut = AnswerTo(source, reply, 1);
      EXPECT_EQ(cut.content, whole.content) << reply;
      ASSERT_EQ(cut.tool_calls.size(), whole.tool_calls.size()) << reply;
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(cut.tool_calls[i].arguments, whole.tool_calls[i].arguments);
      }
    }
  }
}

TEST(RoundTripTest, CallsAsTextOfTemplatesThatKnowNoTools) {
  CheckRoundTrips(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<END>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      {});
}

TEST(RoundTripTest, CallsThatATemplateLeavesOut) {
  CheckRoundTrips(
      "{% if tools %}<|tool_list_start|>{{ tools | tojson }}<|tool_list_end|>{% endif %}"
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<END>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      {});
  CheckRoundTrips(
      "{% if tools %}<|tool|>{{ tools | tojson }}<|/tool|>{% endif %}"
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<END>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      {});
}

TEST(RoundTripTest, CallsOfTemplatesThatTakeNoTextBesideThem) {
  CheckRoundTrips(
      "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{% if m.content is none %}"
      "{% for c in m.tool_calls %}<tool_call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
      "{{ c.function.arguments + '' }}}</tool_call>{% endfor %}{% else %}{{ m.content }}"
      "{% endif %}<END>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
      {.keeps_text = false});
}

TEST(RoundTripTest, CallsOfTheTemplatesOfModels) {
  const std::filesystem::path folder = model::TestDataPath("templates");
  struct Known {
    const char* file;
    Expectation expected = {};
  };
  const Known kKnown[] = {
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", {.keeps_text = false}},
      {"GLM-4.6"},
      {"HuggingFaceTB-SmolLM3-3B"},
      {"Kimi-K2-Instruct"},
      {"LFM2-8B-A1B"},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", {.keeps_text = false, .nullable = false}},
      {"Qwen-Qwen2.5-7B-Instruct"},
      {"Qwen-Qwen3-0.6B"},
      {"Qwen3-Coder"},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", {.calls_max = 1, .keeps_text = false}},
      {"deepseek-ai-DeepSeek-V3.1"},
      {"google-gemma-2-2b-it"},
      {"meetkai-functionary-medium-v3.1"},
      {"meta-llama-Llama-3.1-8B-Instruct", {.calls_max = 1, .keeps_text = false}},
      {"meta-llama-Llama-3.2-3B-Instruct", {.calls_max = 1, .keeps_text = false}},
      {"microsoft-Phi-3.5-mini-instruct"},
      {"mistralai-Mistral-Nemo-Instruct-2407", {.keeps_text = false}},
      {"openai-gpt-oss-120b", {.calls_max = 1, .keeps_text = false}},
  };
  for (const Known& known : kKnown) {
    std::ifstream file(folder / (std::string(known.file) + ".jinja"));
    if (!file) GTEST_SKIP() << folder << " is not there (KVGATE_TEST_DATA)";
    std::ostringstream source;
    source << file.rdbuf();
    SCOPED_TRACE(known.file);
    CheckRoundTrips(source.str(), known.expected);
  }
}

}  // namespace
}  // namespace kvgate::local
