#include "gateway/dialect/responses/responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/dialect/form/client_calls.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/reply/reply_choice.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/dialect/reply_encoders.h"
#include "gateway/dialect/reply_translator.h"
#include "gateway/dialect/responses/prompt_builder.h"

namespace kvgate::dialect::responses {

using form::Fields;
using reply::ReplyChoice;
using reply::ReplyOptions;

using form::DeltaEvent;
using form::DeltaKind;
using form::FinishEvent;
using form::FinishReason;

namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kRequest = "000000000000000000000abc";

std::string Body(const std::string& more, const std::string& input = R"("hi")") {
  return R"({"model":"m","input":)" + input + more + "}";
}

// Returns a tool inside `depth` nested namespaces, each named "n".
std::string Nested(int depth) {
  std::string tool = R"({"type":"function","name":"f","description":"F."})";
  for (int i = 0; i < depth; ++i) {
    tool = R"({"type":"namespace","name":"n","description":"N.","tools":[)" + tool + "]}";
  }
  return tool;
}

Result<ResponsesRequest> Decode(const std::string& body) {
  return DecodeResponses({.body = body, .request_id = kRequest}, {});
}

Result<std::vector<form::Message>> Prompt(const std::string& input) {
  const form::DecodeLimits limits;
  auto decoded = Decode(Body("", input));
  if (!decoded) return decoded.error();
  PromptBuilder builder(limits);
  KVGATE_TRY_VOID(builder.Add(decoded->input, "input"));
  return builder.Take();
}

struct BadResponses {
  std::string body;
  const char* field;
  const char* message;
};

class BadResponsesTest : public ::testing::TestWithParam<BadResponses> {};

TEST_P(BadResponsesTest, IsRefusedByNameWithTheReason) {
  const auto decoded = Decode(GetParam().body);
  ASSERT_FALSE(decoded) << GetParam().body;
  EXPECT_EQ(decoded.error().field, GetParam().field);
  EXPECT_THAT(decoded.error().detail, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadResponsesTest,
    ::testing::Values(
        BadResponses{R"({"input":"x"})", "model", "Missing"},
        BadResponses{R"({"model":"m"})", "input", "Missing"},
        BadResponses{Body("", "[]"), "input", "at least one"},
        BadResponses{Body("", "7"), "input", "a string or an array of items"},
        BadResponses{Body("", R"([{"content":"x"}])"), "input[0].type", "Missing"},
        BadResponses{Body("", R"([{"role":"user"}])"), "input[0].content", "Missing"},
        BadResponses{Body("", R"([{"type":"item_reference"}])"), "input[0].id", "Missing"},
        BadResponses{Body(R"(,"background":true)"), "background", "not supported"},
        BadResponses{Body(R"(,"prompt":{"id":"p"})"), "prompt", "not supported"},
        BadResponses{Body(R"(,"tools":[{"type":"web search"}])"), "tools[0].type", "web search"},
        BadResponses{Body(",\"tools\":[" + Nested(form::kNamespaceDepthMax + 1) + "]"),
                     "tools[0].tools[0].tools[0].tools[0].tools[0].type", "4 namespaces"},
        BadResponses{Body(",\"tools\":[" + Nested(20) + "]"),
                     "tools[0].tools[0].tools[0].tools[0].tools[0].type", "4 namespaces"},
        BadResponses{Body(R"(,"tools":[{"type":"namespace","name":"n"}])"), "tools[0].tools",
                     "Missing"},
        BadResponses{
            Body(R"(,"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"})"),
            "tool_choice.type", "web_search"},
        BadResponses{Body(R"(,"tool_choice":"required")"), "tool_choice", "tools"},
        BadResponses{Body(R"(,"include":["x"])"), "include[0]", "'x'"},
        BadResponses{Body(R"(,"truncation":"some")"), "truncation", "'auto'"},
        BadResponses{Body(R"(,"reasoning":{"summary":"long"})"), "reasoning.summary", "'auto'"},
        BadResponses{Body(R"(,"reasoning":{"effort":"some"})"), "reasoning.effort", "'none'"},
        BadResponses{Body(R"(,"text":{"format":{"type":"xml"}})"), "text.format.type", "must be"},
        BadResponses{Body(R"(,"text":{"format":{"type":"json_schema"}})"), "text.format.schema",
                     "Missing"},
        BadResponses{Body(R"(,"max_output_tokens":0)"), "max_output_tokens", "between 1"},
        BadResponses{Body(R"(,"top_logprobs":21)"), "top_logprobs", "between 0 and 20"},
        BadResponses{Body(R"(,"metadata":{"a":1})"), "metadata.a", "a string"},
        BadResponses{Body(R"(,"stream_options":{})"), "stream_options", "stream is true"},
        BadResponses{Body(R"(,"conversation":{})"), "conversation.id", "Missing"},
        BadResponses{Body(R"(,"conversation":"c","previous_response_id":"r")"), "conversation",
                     "beside previous_response_id"},
        BadResponses{Body(R"(,"store":1)"), "store", "a boolean"},
        BadResponses{Body(R"(,"store":true,"store":false)"), "store", "more than once"},
        BadResponses{Body(R"(,"temperature":3)"), "temperature", "between 0 and 2"}));

TEST(DecodeResponsesTest, EveryFieldArrives) {
  const auto decoded = Decode(
      Body(R"(,"instructions":"be brief","max_output_tokens":9,"max_tokens":5,"temperature":0.5,)"
           R"("top_p":0.25,"seed":3,"stream":true,"stream_options":{"include_obfuscation":false},)"
           R"("tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],)"
           R"("tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false,)"
           R"("reasoning":{"effort":"none","summary":"auto"},"store":false,"truncation":"auto",)"
           R"("text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}},)"
           R"("include":["reasoning.encrypted_content","message.output_text.logprobs"],)"
           R"("top_logprobs":2,"previous_response_id":"resp_1","user":"u","service_tier":"auto")"));
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  const form::CompletionRequest& request = decoded->request;
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.temperature, 0.5f);
  EXPECT_EQ(request.top_p, 0.25f);
  EXPECT_EQ(request.seed, 3u);
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.tool_choice.mode, form::ToolMode::kRequired);
  EXPECT_THAT(request.tool_choice.allowed, ElementsAre("f"));
  EXPECT_FALSE(request.tool_choice.parallel);
  EXPECT_EQ(request.thinking, false);
  EXPECT_EQ(request.num_logprobs, 2);
  EXPECT_EQ(request.output.kind, form::OutputKind::kJsonSchema);
  EXPECT_EQ(request.output.field, "text.format.schema");
  EXPECT_EQ(decoded->instructions, "be brief");
  EXPECT_EQ(decoded->previous_response_id, "resp_1");
  EXPECT_FALSE(decoded->store);
  EXPECT_TRUE(decoded->truncates);
  EXPECT_TRUE(decoded->shape.summary);
  EXPECT_TRUE(decoded->shape.encrypted_reasoning);
  const json echo = json::parse("{" + decoded->shape.echo + "}");
  EXPECT_EQ(echo["tools"][0]["name"], "f");
  EXPECT_EQ(echo["text"]["format"]["name"], "n");
  EXPECT_EQ(echo["text"]["verbosity"], "medium");
  EXPECT_EQ(echo["reasoning"]["effort"], "none");
  EXPECT_EQ(echo["temperature"], 0.5);
  EXPECT_EQ(echo["conversation"], nullptr);
}

TEST(DecodeResponsesTest, WhatIsNotGivenIsWhatTheApiDocuments) {
  const auto decoded = Decode(Body(""));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->store);
  EXPECT_FALSE(decoded->request.stream);
  EXPECT_FALSE(decoded->request.max_tokens);
  EXPECT_EQ(decoded->request.num_logprobs, -1);
  const json echo = json::parse("{" + decoded->shape.echo + "}");
  EXPECT_EQ(echo["tool_choice"], "auto");
  EXPECT_EQ(echo["truncation"], "disabled");
  EXPECT_EQ(echo["parallel_tool_calls"], true);
  EXPECT_EQ(echo["text"]["format"]["type"], "text");
  EXPECT_EQ(echo["instructions"], nullptr);
  EXPECT_EQ(echo["metadata"], json::object());
}

// --- encoding ---------------------------------------------------------------------------------

ReplyOptions Options(bool stream) {
  return {.dialect = form::Dialect::kResponses,
          .request_id = std::string(kRequest),
          .created_unix = 1000,
          .model = "m",
          .stream = stream,
          .response = {.echo = R"("instructions":null,"tools":[])", .stored = true}};
}

std::vector<DeltaEvent> CallingAnswer() {
  return {{.kind = DeltaKind::kReasoning, .text = "hm"},
          {.kind = DeltaKind::kReasoning, .text = "m"},
          {.text = "I "},
          {.text = "look"},
          {.kind = DeltaKind::kCall, .text = "f", .call_id = "call_1"},
          {.kind = DeltaKind::kArguments, .text = R"({"a")"},
          {.kind = DeltaKind::kArguments, .text = ":1}"},
          {.kind = DeltaKind::kCallEnd},
          {.kind = DeltaKind::kCall, .text = "g", .call_id = "call_2"},
          {.kind = DeltaKind::kCallEnd}};
}

std::string Encode(const ReplyOptions& options, const std::vector<DeltaEvent>& deltas,
                   const FinishEvent& finish) {
  const auto encoder = MakeReplyEncoder(options);
  std::string out;
  encoder->OnStart({}, out);
  for (const DeltaEvent& delta : deltas) encoder->OnDelta(delta, out);
  encoder->OnFinish(finish, out);
  return out;
}

FinishEvent Finish(FinishReason reason) {
  return {.reason = reason,
          .stats = {.num_prompt_tokens = 7,
                    .num_output_tokens = 5,
                    .num_cached_tokens = 4,
                    .num_reasoning_tokens = 2}};
}

std::vector<json> Events(const std::string& stream) {
  std::vector<json> events;
  size_t begin = 0;
  while (begin < stream.size()) {
    const size_t end = stream.find("\n\n", begin);
    const std::string event = stream.substr(begin, end - begin);
    const size_t line = event.find("\ndata: ");
    events.push_back(json::parse(event.substr(line + 7)));
    EXPECT_EQ(event.substr(0, line), "event: " + events.back()["type"].get<std::string>());
    begin = end + 2;
  }
  return events;
}

std::vector<std::string> Types(const std::vector<json>& events) {
  std::vector<std::string> types;
  for (const json& event : events) types.push_back(event["type"]);
  return types;
}

TEST(ResponsesEncoderTest, AStreamHasAllEventsInTheirOrder) {
  const auto events =
      Events(Encode(Options(true), CallingAnswer(), Finish(FinishReason::kToolCalls)));
  EXPECT_THAT(Types(events),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.reasoning_text.delta",
                          "response.reasoning_text.delta", "response.reasoning_text.done",
                          "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.content_part.added",
                          "response.output_text.delta", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done",
                          "response.output_item.done", "response.output_item.added",
                          "response.function_call_arguments.delta",
                          "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done",
                          "response.output_item.added", "response.function_call_arguments.done",
                          "response.output_item.done", "response.completed"));
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  const json& response = events.back()["response"];
  EXPECT_EQ(response["status"], "completed");
  ASSERT_EQ(response["output"].size(), 4u);
  // An item that is done equals the one in the final response.
  for (const json& event : events) {
    if (event["type"] == "response.output_item.done") {
      EXPECT_EQ(event["item"], response["output"][event["output_index"].get<size_t>()]);
    }
    if (event.contains("item_id")) {
      EXPECT_EQ(event["item_id"], response["output"][event["output_index"].get<size_t>()]["id"]);
    }
  }
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], json::array());
  EXPECT_EQ(events[16]["item"]["arguments"], "");
  EXPECT_EQ(events[19]["arguments"], R"({"a":1})");
}

TEST(ResponsesEncoderTest, ABodyIsTheStreamsLastResponse) {
  const FinishEvent finish = Finish(FinishReason::kToolCalls);
  const json body = json::parse(Encode(Options(false), CallingAnswer(), finish));
  EXPECT_EQ(body, Events(Encode(Options(true), CallingAnswer(), finish)).back()["response"]);
  EXPECT_EQ(body["id"], "resp_kv000000000000000000000abc");
  EXPECT_EQ(body["object"], "response");
  EXPECT_EQ(body["created_at"], 1000);
  EXPECT_EQ(body["store"], true);
  EXPECT_EQ(body["usage"]["input_tokens"], 7);
  EXPECT_EQ(body["usage"]["input_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(body["usage"]["output_tokens_details"]["reasoning_tokens"], 2);
  EXPECT_EQ(body["usage"]["total_tokens"], 12);
  const json& output = body["output"];
  EXPECT_EQ(output[0]["content"][0], (json{{"type", "reasoning_text"}, {"text", "hmm"}}));
  EXPECT_EQ(output[0]["summary"], json::array());
  EXPECT_EQ(output[1]["role"], "assistant");
  EXPECT_EQ(output[1]["content"][0]["text"], "I look");
  EXPECT_EQ(output[1]["content"][0]["annotations"], json::array());
  EXPECT_EQ(output[2]["call_id"], "call_1");
  EXPECT_EQ(output[2]["name"], "f");
  EXPECT_EQ(output[3]["arguments"], "");
}

TEST(ResponsesEncoderTest, WhatIsKeptIsWhatTheClientGot) {
  ReplyOptions options = Options(false);
  const FinishEvent finish = Finish(FinishReason::kToolCalls);
  ReplyChoice choice;
  for (const DeltaEvent& delta : CallingAnswer()) choice.Add(delta);
  const auto output = EncodeOutput(options, choice, finish.reason);
  const std::string kept = EncodeResponse(options, finish, output);
  EXPECT_EQ(kept, Encode(options, CallingAnswer(), finish));
  const auto parsed = OutputOf(kept);
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), output.size());
  for (size_t i = 0; i < output.size(); ++i) {
    EXPECT_EQ((*parsed)[i].id, output[i].id);
    EXPECT_EQ((*parsed)[i].json, output[i].json);
  }
  options.explain = true;
  EXPECT_EQ(json::parse(Encode(options, CallingAnswer(), finish)).count("kvgate"), 1u);
  EXPECT_EQ(EncodeResponse(options, finish, output), kept);
}

TEST(ResponsesEncoderTest, AnAnswerThatRanOutOfTokensIsIncomplete) {
  const auto events = Events(Encode(Options(true), {{.text = "a"}}, Finish(FinishReason::kLength)));
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  const json& response = events.back()["response"];
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
  EXPECT_EQ(response["completed_at"], nullptr);
}

TEST(ResponsesEncoderTest, AnAnswerWithoutAWordIsAnEmptyMessage) {
  const auto events = Events(Encode(Options(true), {}, Finish(FinishReason::kStop)));
  EXPECT_THAT(
      Types(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.output_text.done",
                  "response.content_part.done", "response.output_item.done", "response.completed"));
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"], "");
}

TEST(ResponsesEncoderTest, AStreamThatFailsSaysSoInBothWays) {
  FinishEvent finish;
  finish.error = MakeError(ErrorCode::kUnavailable, "x", "stopped");
  const auto events = Events(Encode(Options(true), {{.text = "a"}}, finish));
  const json& error = events[events.size() - 2];
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["message"], "stopped");
  EXPECT_EQ(error["error"]["message"], "stopped");
  const json& response = events.back()["response"];
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_EQ(response["status"], "failed");
  EXPECT_EQ(response["error"], (json{{"code", "server_error"}, {"message", "stopped"}}));
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
}

TEST(ResponsesEncoderTest, ReasoningIsToldAsASummaryAndSealedWhereThatIsAskedFor) {
  ReplyOptions options = Options(true);
  options.response.summary = true;
  options.response.encrypted_reasoning = true;
  const auto events = Events(Encode(options, {{.kind = DeltaKind::kReasoning, .text = "hm"}},
                                    Finish(FinishReason::kStop)));
  EXPECT_THAT(
      Types(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.reasoning_summary_part.added", "response.content_part.added",
                  "response.reasoning_summary_text.delta", "response.reasoning_text.delta",
                  "response.reasoning_summary_text.done", "response.reasoning_summary_part.done",
                  "response.reasoning_text.done", "response.content_part.done",
                  "response.output_item.done", "response.completed"));
  const json& item = events.back()["response"]["output"][0];
  EXPECT_EQ(item["summary"][0]["text"], "hm");
  const std::string sealed = item["encrypted_content"];
  EXPECT_EQ(responses::OpenReasoning(sealed), "hm");
  // A client that keeps nothing else sends the same turn back.
  const auto prompt = Prompt(R"([{"type":"reasoning","id":"rs_1","summary":[],)"
                             R"("encrypted_content":")" +
                             sealed + R"("},{"role":"assistant","content":"a"}])");
  ASSERT_TRUE(prompt) << prompt.error().ToString();
  EXPECT_EQ(prompt->front(),
            (form::Message{.role = "assistant", .content = "a", .reasoning = "hm"}));
}

TEST(ResponsesEncoderTest, LogProbabilitiesStandWithTheirText) {
  ReplyOptions options = Options(true);
  options.logprobs = true;
  const auto token = [](const char* bytes) {
    return form::TokenDetail{.token = {.bytes = bytes, .logprob = -0.5f},
                             .top = {{.bytes = "z", .logprob = -1}}};
  };
  const auto events =
      Events(Encode(options,
                    {{.kind = DeltaKind::kReasoning, .text = "r", .tokens = {token("r")}},
                     {.text = "a", .tokens = {token("a")}},
                     {.text = "b", .tokens = {token("b")}}},
                    Finish(FinishReason::kStop)));
  const json& logprobs = events.back()["response"]["output"][1]["content"][0]["logprobs"];
  ASSERT_EQ(logprobs.size(), 2u);
  EXPECT_EQ(logprobs[0]["token"], "a");
  EXPECT_EQ(logprobs[1]["top_logprobs"][0]["token"], "z");
  for (const json& event : events) {
    if (event["type"] != "response.output_text.delta") continue;
    EXPECT_EQ(event["logprobs"][0]["token"], event["delta"]);
  }
}

// --- conversations ----------------------------------------------------------------------------

TEST(ConversationBodyTest, HasItemsAndMetadata) {
  const auto decode = [](std::string_view body) {
    return DecodeConversation({.body = body, .request_id = kRequest}, {});
  };
  EXPECT_TRUE(decode("")->items.empty());
  const auto both = decode(R"({"items":[{"role":"user","content":"hi"}],"metadata":{"a":"b"}})");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->items.size(), 1u);
  EXPECT_EQ(both->metadata, R"({"a":"b"})");
  EXPECT_EQ(decode(R"({"items":"x"})").error().field, "items");
  EXPECT_EQ(decode(R"({"items":[{"type":"item_reference","id":"x"}]})").error().field,
            "items[0].type");
  EXPECT_EQ(decode(R"({"metadata":[]})").error().field, "metadata");
}

TEST(DecodeResponsesTest, ToolsOfEveryKindGetTheNameThatTheModelKnows) {
  const auto decoded = Decode(
      Body(R"(,"tools":[{"type":"function","name":"look"},{"type":"custom","name":"patch",)"
           R"("description":"Edits.","format":{"type":"grammar","syntax":"lark",)"
           R"("definition":"start: \"x\""}},{"type":"namespace","name":"agents",)"
           R"("description":"A team.","tools":[{"type":"function","name":"spawn"},)"
           R"({"type":"custom","name":"say"}]},{"type":"web_search"},{"type":"tool_search"}],)"
           R"("tool_choice":{"type":"allowed_tools","mode":"required","tools":[)"
           R"({"type":"custom","name":"patch"},{"type":"web_search"},)"
           R"({"type":"function","name":"spawn","namespace":"agents"}]})"));
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  const form::CompletionRequest& request = decoded->request;
  EXPECT_THAT(request.left_out, ElementsAre("web_search", "tool_search"));
  EXPECT_THAT(request.tool_choice.allowed, ElementsAre("patch", "agents__spawn"));
  ASSERT_EQ(request.tools.size(), 4u);
  EXPECT_FALSE(request.tools[0].is_custom);
  EXPECT_TRUE(request.tools[1].is_custom);
  EXPECT_EQ(request.tools[1].input_syntax, form::InputSyntax::kLark);
  EXPECT_EQ(request.tools[1].input_grammar, "start: \"x\"");
  EXPECT_EQ(request.tools[1].field, "tools[1].format.definition");
  EXPECT_EQ(request.tools[2].name, "agents__spawn");
  EXPECT_EQ(request.tools[2].space, "agents");
  EXPECT_EQ(request.tools[3].input_syntax, form::InputSyntax::kText);
}

TEST(DecodeResponsesTest, NamespacesInNamespacesBecomeOneNameThatLeadsBack) {
  const auto decoded = Decode(Body(",\"tools\":[" + Nested(form::kNamespaceDepthMax) +
                                   R"(,{"type":"function","name":"f"}])"));
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  const std::vector<form::Tool>& tools = decoded->request.tools;
  ASSERT_EQ(tools.size(), 2u);
  EXPECT_EQ(tools[0].name, "n__n__n__n__f");
  EXPECT_EQ(tools[0].space, "n__n__n__n");
  EXPECT_EQ(tools[1].name, "f");
  form::CallNamer namer(tools);
  DeltaEvent call{.kind = DeltaKind::kCall, .text = tools[0].name};
  namer.Apply(call);
  EXPECT_EQ(call.text, "f");
  EXPECT_EQ(call.space, "n__n__n__n");
  EXPECT_EQ(form::FlatName(call.space, call.text), tools[0].name) << "as the item comes back";
}

// A choice is refused only if no remaining tool can meet it.
TEST(DecodeResponsesTest, AChoiceAmongToolsThatAreLeftOutIsRefusedOnlyWhereItForcesOne) {
  const auto decode = [](const std::string& mode) {
    return Decode(Body(R"(,"tools":[{"type":"web_search"},{"type":"function","name":"f"}],)"
                       R"("tool_choice":{"type":"allowed_tools","mode":")" +
                       mode + R"(","tools":[{"type":"web_search"}]})"));
  };
  ASSERT_TRUE(decode("auto"));
  EXPECT_EQ(decode("auto")->request.tool_choice.mode, form::ToolMode::kNone);
  EXPECT_EQ(decode("required").error().field, "tool_choice.tools");
}

TEST(ResponsesEncoderTest, ACustomCallIsToldAsItsInput) {
  const std::vector<DeltaEvent> deltas = {
      {.kind = DeltaKind::kCall,
       .text = "exec",
       .call_id = "call_1",
       .is_custom = true,
       .space = "functions"},
      {.kind = DeltaKind::kArguments, .text = "", .is_custom = true},
      {.kind = DeltaKind::kArguments, .text = "say ", .is_custom = true},
      {.kind = DeltaKind::kArguments, .text = "\"hi\"", .is_custom = true},
      {.kind = DeltaKind::kCallEnd}};
  const auto events = Events(Encode(Options(true), deltas, Finish(FinishReason::kToolCalls)));
  EXPECT_THAT(
      Types(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.custom_tool_call_input.delta", "response.custom_tool_call_input.delta",
                  "response.custom_tool_call_input.done", "response.output_item.done",
                  "response.completed"));
  EXPECT_EQ(events[2]["item"]["input"], "");
  EXPECT_EQ(events[3]["delta"], "say ");
  EXPECT_EQ(events[5]["input"], "say \"hi\"");
  const json& item = events.back()["response"]["output"][0];
  EXPECT_EQ(item, events[6]["item"]);
  EXPECT_EQ(item["type"], "custom_tool_call");
  EXPECT_EQ(item["id"], "ctc_kv000000000000000000000abc_0");
  EXPECT_EQ(item["call_id"], "call_1");
  EXPECT_EQ(item["name"], "exec");
  EXPECT_EQ(item["namespace"], "functions");
  EXPECT_EQ(item["input"], "say \"hi\"");
  EXPECT_FALSE(item.contains("arguments"));
}

}  // namespace
}  // namespace kvgate::dialect::responses
