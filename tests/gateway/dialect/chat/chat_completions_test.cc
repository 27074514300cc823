#include "gateway/dialect/chat/chat_completions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/reply/reply_choice.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/dialect/reply_encoders.h"

namespace kvgate::dialect::chat {

using form::Fields;
using reply::ReplyOptions;

using form::DeltaKind;
using form::FinishReason;

namespace {

using ::testing::HasSubstr;

std::string Body(const std::string& messages, const std::string& more = "") {
  return R"({"model":"m","messages":)" + messages + more + "}";
}

constexpr const char* kUser = R"([{"role":"user","content":"hi"}])";

struct BadChat {
  std::string body;
  const char* field;
  const char* message;
};

class BadChatTest : public ::testing::TestWithParam<BadChat> {};

TEST_P(BadChatTest, IsRefusedByNameWithTheReason) {
  const auto decoded = DecodeChatCompletions(GetParam().body, {});
  ASSERT_FALSE(decoded) << GetParam().body;
  EXPECT_EQ(decoded.error().field, GetParam().field);
  EXPECT_THAT(decoded.error().detail, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadChatTest,
    ::testing::Values(
        BadChat{R"({"model":"m"})", "messages", "Missing"},
        BadChat{Body("null"), "messages", "Missing"}, BadChat{Body("{}"), "messages", "an array"},
        BadChat{Body("[]"), "messages", "at least one"},
        BadChat{Body("[5]"), "messages[0]", "expected an object"},
        BadChat{Body(R"([{"content":"x"}])"), "messages[0].role", "Missing"},
        BadChat{Body(R"([{"role":7,"content":"x"}])"), "messages[0].role", "expected a string"},
        BadChat{Body(R"([{"role":"king","content":"x"}])"), "messages[0].role", "must be one of"},
        BadChat{Body(R"([{"role":"user"}])"), "messages[0].content", "Missing"},
        BadChat{Body(R"([{"role":"user","content":null}])"), "messages[0].content", "Missing"},
        BadChat{Body(R"([{"role":"user","content":5}])"), "messages[0].content",
                "a string or an array of content parts"},
        BadChat{Body(R"([{"role":"user","content":[]}])"), "messages[0].content", "empty array"},
        BadChat{Body(R"([{"role":"user","content":[{"type":"text","text":"a"},)"
                     R"({"type":"smell","smell":{"url":"x"}}]}])"),
                "messages[0].content[1].type", "smell"},
        BadChat{Body(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
                "messages[0].content[0].image_url", "Missing"},
        BadChat{Body(R"([{"role":"user","content":[{"text":"a"}]}])"),
                "messages[0].content[0].type", "Missing"},
        BadChat{Body(R"([{"role":"user","content":[{"type":"text"}]}])"),
                "messages[0].content[0].text", "Missing"},
        BadChat{Body(R"([{"role":"user","content":"x"},{"role":"assistant","content":"",)"
                     R"("tool_calls":[{"id":"1"}]}])"),
                "messages[1].tool_calls[0].function", "Missing"},
        BadChat{Body(kUser, R"(,"tools":[{"type":"function"}])"), "tools[0].function", "Missing"},
        BadChat{Body(kUser, R"(,"tools":[{"type":"custom","custom":{}}])"), "tools[0].custom.name",
                "Missing"},
        BadChat{Body(kUser, R"(,"tools":[{"type":"custom","custom":{"name":"p","format":)"
                            R"({"type":"grammar","grammar":{"syntax":"ebnf","definition":""}}}}])"),
                "tools[0].custom.format.grammar.syntax", "'lark' or 'regex'"},
        BadChat{Body(kUser, R"(,"tools":[{"type":"namespace","name":"n","tools":[]}])"),
                "tools[0].type", "not supported"},
        BadChat{Body(kUser, R"(,"tool_choice":"required","tools":[{"type":"web_search"}])"),
                "tool_choice", "can call"},
        BadChat{Body(kUser, R"(,"tools":[{"type":"function","function":{"name":"a b"}}])"),
                "tools[0].function.name", "letters"},
        BadChat{Body(kUser, R"(,"tool_choice":"required")"), "tool_choice",
                "where tools are given"},
        BadChat{Body(kUser, R"(,"tool_choice":{"type":"function","function":{"name":"x"}},)"
                            R"("tools":[{"type":"function","function":{"name":"y"}}])"),
                "tool_choice", "'x'"},
        BadChat{Body(R"([{"role":"user","content":"x"},{"role":"tool","content":"y"}])"),
                "messages[1].tool_call_id", "Missing"},
        BadChat{Body(R"([{"role":"user","content":"x"},{"role":"tool","tool_call_id":"1",)"
                     R"("content":"y"}])"),
                "messages[1].tool_call_id", "in the assistant's turn before"},
        BadChat{Body(kUser, R"(,"functions":[{}])"), "functions", "not supported"},
        BadChat{Body(kUser, R"(,"modalities":["text","audio"])"), "modalities[1]", "not supported"},
        BadChat{Body(kUser, R"(,"logprobs":3)"), "logprobs", "expected a boolean"},
        BadChat{Body(kUser, R"(,"top_logprobs":3)"), "top_logprobs", "only allowed when logprobs"},
        BadChat{Body(kUser, R"(,"logprobs":true,"top_logprobs":21)"), "top_logprobs",
                "between 0 and 20"},
        BadChat{Body(kUser, R"(,"max_completion_tokens":-1)"), "max_completion_tokens",
                "must be between"}));

TEST(DecodeChatCompletionsTest, ArgumentsOfTheTemplateKeepTheirTypesAndMayNotBeItsVariables) {
  const auto decoded = DecodeChatCompletions(
      Body(kUser, R"(,"chat_template_kwargs":{"enable_thinking":false,"n":[1,2.5,"x",null]})"), {});
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  const auto& arguments = decoded->template_arguments;
  ASSERT_EQ(arguments.size(), 2u);
  EXPECT_EQ(arguments[0].first, "enable_thinking");
  EXPECT_FALSE(std::get<bool>(arguments[0].second.value()));
  const auto& list = std::get<jinja::value::Data::List>(arguments[1].second.value());
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(std::get<int64_t>(list[0].value()), 1);
  EXPECT_EQ(std::get<double>(list[1].value()), 2.5);
  for (const char* bad :
       {R"(,"chat_template_kwargs":[])", R"(,"chat_template_kwargs":{"tools":1})"}) {
    const auto refused = DecodeChatCompletions(Body(kUser, bad), {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().field, "chat_template_kwargs");
  }
}

TEST(DecodeChatCompletionsTest, TakesTextInAllItsForms) {
  const auto decoded = DecodeChatCompletions(
      Body(R"([{"role":"developer","content":"d"},{"role":"user","content":)"
           R"([{"type":"text","text":"a"},{"type":"text","text":"b\u00e9"}]},)"
           R"({"role":"assistant","content":null,"reasoning_content":"why","tool_calls":)"
           R"([{"id":"1","type":"function","function":{"name":"f","arguments":"{ \"a\":1}"}}]},)"
           R"({"role":"tool","tool_call_id":"1","content":"t"}])",
           R"(,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":)"
           R"({"type":"object","properties":{"a":{"type":"integer","maximum":9007199254740993}}})"
           R"(}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required",)"
           R"("tools":[{"type":"function","function":{"name":"f"}}]}},)"
           R"("parallel_tool_calls":false,"logprobs":true,"top_logprobs":5,"max_tokens":3,)"
           R"("max_completion_tokens":9)"),
      {});
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  const auto& messages = std::get<std::vector<form::Message>>(decoded->prompt);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].role, "developer");
  EXPECT_EQ(messages[1].content, "a\nb\xC3\xA9");
  EXPECT_EQ(messages[2].reasoning, "why");
  ASSERT_EQ(messages[2].tool_calls.size(), 1u);
  EXPECT_EQ(messages[2].tool_calls[0],
            (form::ToolCall{.id = "1", .name = "f", .arguments = "{ \"a\":1}"}));
  EXPECT_EQ(messages[3].role, "tool");
  EXPECT_EQ(messages[3].tool_call_id, "1");
  ASSERT_EQ(decoded->tools.size(), 1u);
  EXPECT_TRUE(decoded->tools[0].strict);
  EXPECT_THAT(decoded->tools[0].parameters, HasSubstr("9007199254740993"));
  EXPECT_EQ(decoded->tool_choice.mode, form::ToolMode::kRequired);
  EXPECT_EQ(decoded->tool_choice.allowed, std::vector<std::string>{"f"});
  EXPECT_FALSE(decoded->tool_choice.parallel);
  EXPECT_EQ(decoded->num_logprobs, 5);
  EXPECT_EQ(decoded->max_tokens, 9);
}

// --- encoding ---------------------------------------------------------------------------------

TEST(DecodeChatCompletionsTest, ATurnThatMustCallMakesOneCallUnlessMoreAreAskedFor) {
  const auto parallel = [](const std::string& more) {
    const auto decoded = DecodeChatCompletions(
        R"({"model":"m","messages":[{"role":"user","content":"u"}],"tools":[{"type":"function",)"
        R"("function":{"name":"f"}}])" +
            more + "}",
        {});
    EXPECT_TRUE(decoded) << decoded.error().ToString();
    return decoded && decoded->tool_choice.parallel;
  };
  EXPECT_TRUE(parallel(""));
  EXPECT_FALSE(parallel(R"(,"parallel_tool_calls":false)"));
  EXPECT_FALSE(parallel(R"(,"tool_choice":"required")"));
  EXPECT_TRUE(parallel(R"(,"tool_choice":"required","parallel_tool_calls":true)"));
  EXPECT_TRUE(parallel(R"(,"parallel_tool_calls":true,"tool_choice":"required")"));
}

TEST(DecodeChatCompletionsTest, ReasoningEffortAndThinkingReachTheTemplate) {
  const auto decode = [](const std::string& more) {
    return DecodeChatCompletions(
        R"({"model":"m","messages":[{"role":"user","content":"u"}])" + more + "}", {});
  };
  EXPECT_EQ(decode(R"(,"reasoning_effort":"low")")->reasoning_effort, "low");
  EXPECT_EQ(decode(R"(,"reasoning_effort":"none")")->thinking, false);
  EXPECT_EQ(decode(R"(,"thinking":{"type":"enabled"})")->thinking, true);
  EXPECT_EQ(decode(R"(,"thinking":{"type":"auto"})")->thinking, std::nullopt);
  EXPECT_EQ(decode(R"(,"reasoning_effort":"huge")").error().field, "reasoning_effort");
  EXPECT_EQ(decode(R"(,"thinking":{"type":"x"})").error().field, "thinking.type");
}

TEST(DecodeChatCompletionsTest, ARefusalIsWhatTheAssistantSaid) {
  const auto decoded = DecodeChatCompletions(
      R"({"model":"m","messages":[{"role":"user","content":"u"},)"
      R"({"role":"assistant","content":null,"refusal":"No."},{"role":"user","content":"w"}]})",
      {});
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<std::vector<form::Message>>(decoded->prompt)[1].content, "No.");
}

ReplyOptions Options() {
  return {.dialect = form::Dialect::kChatCompletions,
          .request_id = "r1",
          .created_unix = 5,
          .model = "m",
          .system_fingerprint = "fp",
          .echo = {}};
}

form::FinishEvent Finish() {
  return {.reason = FinishReason::kLength,
          .stats = {.num_prompt_tokens = 10, .num_output_tokens = 2, .num_cached_tokens = 8}};
}

std::string Play(ReplyOptions options, const form::FinishEvent& finish = Finish()) {
  const auto encoder = MakeChatCompletionsEncoder(std::move(options));
  std::string out;
  encoder->OnStart({}, out);
  encoder->OnDelta({.text = "He said \"hi\"\n"}, out);
  encoder->OnDelta({.text = ""}, out);
  encoder->OnDelta({.text = "\xC3\xA9"}, out);
  encoder->OnFinish(finish, out);
  return out;
}

TEST(EncodeChatCompletionsTest, AStreamIsExactlyTheDocumentedChunks) {
  ReplyOptions options = Options();
  options.stream = true;
  options.include_usage = true;
  const std::string head =
      R"(data: {"id":"chatcmpl-r1","object":"chat.completion.chunk","created":5,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[)";
  EXPECT_EQ(
      Play(options),
      head +
          R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
          R"("finish_reason":null}],"usage":null})" +
          "\n\n" + head +
          R"({"index":0,"delta":{"content":"He said \"hi\"\n"},"logprobs":null,)"
          R"("finish_reason":null}],"usage":null})" +
          "\n\n" + head +
          "{\"index\":0,\"delta\":{\"content\":\"\xC3\xA9\"},\"logprobs\":null,"
          R"("finish_reason":null}],"usage":null})" +
          "\n\n" + head +
          R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null})" +
          "\n\n" + head +
          R"(],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,)"
          R"("prompt_tokens_details":{"cached_tokens":8},)"
          R"("completion_tokens_details":{"reasoning_tokens":0}}})" +
          "\n\n" + "data: [DONE]\n\n");
}

TEST(EncodeChatCompletionsTest, OneBodyHoldsTheSameEvents) {
  const auto body = nlohmann::json::parse(Play(Options()));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "He said \"hi\"\n\xC3\xA9");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(body["usage"]["total_tokens"], 12);
  EXPECT_FALSE(body.contains("kvgate"));
}

TEST(EncodeChatCompletionsTest, EachChoiceHasItsRoleItsTextAndItsEnd) {
  ReplyOptions options = Options();
  options.num_choices = 2;
  for (const bool stream : {false, true}) {
    options.stream = stream;
    const auto encoder = MakeChatCompletionsEncoder(options);
    std::string out;
    encoder->OnStart({}, out);
    encoder->OnDelta({.text = "b", .choice = 1}, out);
    encoder->OnDelta({.text = "a", .choice = 0}, out);
    encoder->OnDelta({.text = "B", .choice = 1, .finish = FinishReason::kStop}, out);
    encoder->OnFinish(Finish(), out);
    if (!stream) {
      const auto choices = nlohmann::json::parse(out)["choices"];
      ASSERT_EQ(choices.size(), 2u);
      EXPECT_EQ(choices[0]["index"], 0);
      EXPECT_EQ(choices[0]["message"]["content"], "a");
      EXPECT_EQ(choices[0]["finish_reason"], "length");
      EXPECT_EQ(choices[1]["index"], 1);
      EXPECT_EQ(choices[1]["message"]["content"], "bB");
      EXPECT_EQ(choices[1]["finish_reason"], "stop");
      continue;
    }
    std::vector<std::string> said;
    for (size_t begin = 0; out.compare(begin, 12, "data: [DONE]") != 0;) {
      const size_t end = out.find("\n\n", begin);
      const auto chunk = nlohmann::json::parse(out.substr(begin + 6, end - begin - 6));
      const auto& choice = chunk["choices"].at(0);
      said.push_back(choice["index"].dump() + choice["delta"].dump() +
                     choice["finish_reason"].dump());
      begin = end + 2;
    }
    EXPECT_EQ(said, (std::vector<std::string>{R"(0{"content":"","role":"assistant"}null)",
                                              R"(1{"content":"","role":"assistant"}null)",
                                              R"(1{"content":"b"}null)", R"(0{"content":"a"}null)",
                                              R"(1{"content":"B"}null)", R"(1{}"stop")",
                                              R"(0{}"length")"}));
  }
}

TEST(EncodeChatCompletionsTest, AnErrorEndsTheStreamWithoutDone) {
  ReplyOptions options = Options();
  options.stream = true;
  form::FinishEvent finish;
  finish.error = MakeError(ErrorCode::kOverloaded, "engine", "full");
  const std::string out = Play(options, finish);
  EXPECT_THAT(out, HasSubstr(R"(data: {"error":{"message":"full","type":"server_error")"));
  EXPECT_THAT(out, Not(HasSubstr("[DONE]")));
  EXPECT_THAT(out, Not(HasSubstr("finish_reason\":\"")));
}

// Encodes a turn that thinks, speaks and calls twice.
std::string PlayCalls(ReplyOptions options) {
  const auto encoder = MakeChatCompletionsEncoder(std::move(options));
  std::string out;
  encoder->OnStart({}, out);
  encoder->OnDelta({.kind = DeltaKind::kReasoning, .text = "hm"}, out);
  for (int call = 0; call < 2; ++call) {
    encoder->OnDelta({.kind = DeltaKind::kCall, .text = "f", .call_id = "id", .call = call}, out);
    encoder->OnDelta({.kind = DeltaKind::kArguments, .text = "{\"a\"", .call = call}, out);
    encoder->OnDelta({.kind = DeltaKind::kArguments, .text = ":1}", .call = call}, out);
    encoder->OnDelta({.kind = DeltaKind::kCallEnd, .call = call}, out);
  }
  encoder->OnFinish({.reason = FinishReason::kToolCalls}, out);
  return out;
}

TEST(EncodeChatCompletionsTest, CallsAndReasoningStandInTheMessage) {
  const auto body = nlohmann::json::parse(PlayCalls(Options()));
  const auto& message = body["choices"][0]["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["reasoning_content"], "hm");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][1],
            nlohmann::json::parse(R"({"id":"id","type":"function","function":)"
                                  R"({"name":"f","arguments":"{\"a\":1}"}})"));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
}

TEST(EncodeChatCompletionsTest, AStreamedCallBeginsWithIdTypeAndName) {
  ReplyOptions options = Options();
  options.stream = true;
  const std::string out = PlayCalls(options);
  EXPECT_THAT(out, HasSubstr(R"("delta":{"reasoning_content":"hm"})"));
  EXPECT_THAT(out, HasSubstr(R"("delta":{"tool_calls":[{"index":1,"id":"id","type":"function",)"
                             R"("function":{"name":"f","arguments":""}}]})"));
  EXPECT_THAT(out, HasSubstr(R"("delta":{"tool_calls":[{"index":1,"function":)"
                             R"({"arguments":":1}"}}]})"));
  EXPECT_THAT(out, HasSubstr(R"("finish_reason":"tool_calls")"));
}

TEST(EncodeChatCompletionsTest, LogprobsCarryTextAndBytes) {
  ReplyOptions options = Options();
  options.logprobs = true;
  const auto encoder = MakeChatCompletionsEncoder(options);
  std::string out;
  encoder->OnDelta({.text = "a",
                    .tokens = {{.token = {.bytes = "\xC3", .logprob = -0.25f},
                                .top = {{.bytes = "b", .logprob = -1.0f}}}}},
                   out);
  encoder->OnFinish(Finish(), out);
  const auto content = nlohmann::json::parse(out)["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 1u);
  EXPECT_EQ(content[0]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(content[0]["bytes"], nlohmann::json({0xC3}));
  EXPECT_EQ(content[0]["logprob"], -0.25);
  EXPECT_EQ(content[0]["top_logprobs"][0]["token"], "b");
}

TEST(EncodeChatCompletionsTest, TheExplanationStandsInTheLastChunk) {
  for (const bool include_usage : {false, true}) {
    ReplyOptions options = Options();
    options.stream = true;
    options.explain = true;
    options.include_usage = include_usage;
    const std::string out = Play(options);
    const size_t end = out.rfind("\n\ndata: [DONE]");
    const size_t begin = out.rfind("data: ", end) + 6;
    const auto last = nlohmann::json::parse(out.substr(begin, end - begin));
    EXPECT_EQ(last["kvgate"]["cached_tokens"], 8) << include_usage;
    EXPECT_EQ(out.find("kvgate\":"), out.rfind("kvgate\":"));
  }
}

TEST(ChatCompletionsTest, CustomToolsGoBothWays) {
  const auto decoded = DecodeChatCompletions(
      Body(R"([{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[)"
           R"({"id":"1","type":"custom","custom":{"name":"patch","input":"a\nb"}}]},)"
           R"({"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"ok"},)"
           R"({"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}])",
           R"(,"tools":[{"type":"custom","custom":{"name":"patch","format":{"type":"grammar",)"
           R"("grammar":{"syntax":"regex","definition":"[a-z]+"}}}}],)"
           R"("tool_choice":{"type":"custom","custom":{"name":"patch"}})"),
      {});
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  ASSERT_EQ(decoded->tools.size(), 1u);
  EXPECT_EQ(decoded->tools[0].input_syntax, form::InputSyntax::kRegex);
  EXPECT_EQ(decoded->tools[0].field, "tools[0].custom.format.grammar.definition");
  EXPECT_EQ(decoded->tool_choice.allowed, std::vector<std::string>{"patch"});
  const auto& messages = std::get<std::vector<form::Message>>(decoded->prompt);
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"input": "a\nb"})");
  EXPECT_THAT(messages[2].content, HasSubstr("ok\n[image left out (image/png)"));
  EXPECT_EQ(decoded->left_out, std::vector<std::string>{"image"});

  const auto encode = [](bool stream) {
    const auto encoder = MakeReplyEncoder({.request_id = "1", .model = "m", .stream = stream});
    std::string out;
    encoder->OnStart({}, out);
    encoder->OnDelta({.kind = DeltaKind::kCall, .text = "patch", .call_id = "c", .is_custom = true},
                     out);
    encoder->OnDelta({.kind = DeltaKind::kArguments, .text = "ab", .is_custom = true}, out);
    encoder->OnDelta({.kind = DeltaKind::kCallEnd}, out);
    encoder->OnFinish({.reason = FinishReason::kToolCalls}, out);
    return out;
  };
  EXPECT_THAT(encode(false), HasSubstr(R"("tool_calls":[{"id":"c","type":"custom",)"
                                       R"("custom":{"name":"patch","input":"ab"}}])"));
  const std::string stream = encode(true);
  EXPECT_THAT(stream, HasSubstr(R"("id":"c","type":"custom","custom":{"name":"patch",)"
                                R"("input":""})"));
  EXPECT_THAT(stream, HasSubstr(R"({"index":0,"custom":{"input":"ab"}})"));
}

}  // namespace
}  // namespace kvgate::dialect::chat
