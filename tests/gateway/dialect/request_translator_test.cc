// Requests between three dialects: what each field becomes, what is refused, and that what an
// upstream has cached stays the same when the conversation grows.
#include "gateway/dialect/request_translator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect {
namespace {

using dialect::form::Dialect;
using nlohmann::json;
using testing::HasSubstr;

constexpr Dialect kChat = Dialect::kChatCompletions;
constexpr Dialect kResponses = Dialect::kResponses;
constexpr Dialect kMessages = Dialect::kMessages;
constexpr translate::TargetTraits kBreakpoints = {.breakpoints = true};

std::string Raw(Dialect from, Dialect to, const std::string& body,
                translate::TargetTraits target = {}) {
  const auto made = TranslateRequest({.from = from, .to = to, .body = body, .target = target});
  EXPECT_TRUE(made) << made.error().ToString() << "\n" << body;
  return made ? made->body : "{}";
}

json Made(Dialect from, Dialect to, const std::string& body, translate::TargetTraits target = {}) {
  return json::parse(Raw(from, to, body, target));
}

// Returns the field that the error names.
std::string Refused(Dialect from, Dialect to, const std::string& body) {
  const auto made = TranslateRequest({.from = from, .to = to, .body = body});
  if (made) return "nothing: " + made->body;
  EXPECT_THAT(made.error().detail, HasSubstr(made.error().field));
  return made.error().field;
}

std::string Chat(const std::string& more) {
  return R"({"model":"m","messages":[{"role":"user","content":"Hi"}])" +
         (more.empty() ? "" : "," + more) + "}";
}
std::string Responses(const std::string& more) {
  return R"({"model":"m","input":"Hi")" + (more.empty() ? "" : "," + more) + "}";
}
std::string Messages(const std::string& more) {
  return R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}])" +
         (more.empty() ? "" : "," + more) + "}";
}

// --- the plain request --------------------------------------------------------------------------

TEST(RequestTranslatorTest, APlainQuestionInAllSixPairs) {
  const json text = json::parse(R"([{"type":"text","text":"Hi"}])");
  const json input = json::parse(R"([{"type":"input_text","text":"Hi"}])");
  EXPECT_EQ(Made(kChat, kMessages, Chat(""))["messages"][0]["content"], text);
  EXPECT_EQ(Made(kResponses, kMessages, Responses(""))["messages"][0]["content"], text);
  EXPECT_EQ(Made(kChat, kResponses, Chat(""))["input"][0]["content"], input);
  EXPECT_EQ(Made(kMessages, kResponses, Messages(""))["input"][0]["content"], input);
  EXPECT_EQ(Made(kMessages, kChat, Messages(""))["messages"][0]["content"], "Hi");
  EXPECT_EQ(Made(kResponses, kChat, Responses(""))["messages"][0]["content"], "Hi");
}

TEST(RequestTranslatorTest, ThePathIsTheTargets) {
  EXPECT_EQ(PathOfDialect(kChat), "/v1/chat/completions");
  EXPECT_EQ(PathOfDialect(kMessages), "/v1/messages");
}

TEST(RequestTranslatorTest, LimitsAndSamplersGoUnderTheTargetsNames) {
  const std::string chat =
      Chat(R"("max_completion_tokens":77,"temperature":0.50,"top_p":1.0,"stop":["a","b"])");
  const std::string made = Raw(kChat, kMessages, chat);
  EXPECT_THAT(made, HasSubstr(R"("max_tokens":77)"));
  EXPECT_THAT(made, HasSubstr(R"("temperature":0.50,"top_p":1.0,"stop_sequences":["a","b"])"));
  EXPECT_EQ(Made(kChat, kMessages, Chat(""))["max_tokens"], 4096);
  EXPECT_EQ(Made(kChat, kMessages, Chat(R"("stop":"x")"))["stop_sequences"],
            json::parse(R"(["x"])"));
  EXPECT_EQ(Made(kMessages, kChat, Messages(""))["max_completion_tokens"], 9);
  EXPECT_EQ(Made(kMessages, kResponses, Messages(""))["max_output_tokens"], 9);
  EXPECT_EQ(Made(kMessages, kChat, Messages(R"("stop_sequences":["s"])"))["stop"],
            json::parse(R"(["s"])"));
}

TEST(RequestTranslatorTest, AStreamIsAskedForItsUsage) {
  const auto made =
      TranslateRequest({.from = kMessages, .to = kChat, .body = Messages(R"("stream":true)")});
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->stream);
  EXPECT_THAT(made->body, HasSubstr(R"("stream_options":{"include_usage":true})"));
  EXPECT_FALSE(made->include_usage);
}

// --- what cannot be said ------------------------------------------------------------------------

TEST(RequestTranslatorTest, WhatTheTargetCannotSayIsRefusedByName) {
  struct Case {
    Dialect from;
    Dialect to;
    std::string body;
    std::string field;
  };
  const std::vector<Case> cases = {
      {kChat, kMessages, Chat(R"("n":2)"), "n"},
      {kChat, kMessages, Chat(R"("seed":1)"), "seed"},
      {kChat, kMessages, Chat(R"("logit_bias":{"1":2})"), "logit_bias"},
      {kChat, kMessages, Chat(R"("logprobs":true)"), "logprobs"},
      {kChat, kMessages, Chat(R"("temperature":1.5)"), "temperature"},
      {kChat, kMessages, Chat(R"("presence_penalty":1)"), "presence_penalty"},
      {kChat, kMessages, Chat(R"("response_format":{"type":"json_object"})"), "response_format"},
      {kChat, kMessages, Chat(R"("anything":{})"), "anything"},
      {kChat, kResponses, Chat(R"("stop":["x"])"), "stop"},
      {kMessages, kResponses, Messages(R"("stop_sequences":["x"])"), "stop_sequences"},
      {kMessages, kChat, Messages(R"("top_k":5)"), "top_k"},
      {kMessages, kChat, Messages(R"("mcp_servers":[{}])"), "mcp_servers"},
      {kMessages, kChat,
       R"({"model":"m","max_tokens":0,"messages":[{"role":"user","content":"x"}]})", "max_tokens"},
      {kMessages, kChat, Messages(R"("thread":{"type":"create"})"), "thread"},
      {kResponses, kMessages, Responses(R"("previous_response_id":"resp_1")"),
       "previous_response_id"},
      {kResponses, kChat, Responses(R"("background":true)"), "background"},
      {kResponses, kMessages, R"({"model":"m","input":[{"type":"item_reference","id":"x"}]})",
       "input[0].type"},
      {kChat, kMessages,
       R"({"model":"m","messages":[{"role":"user","content":[{"type":"input_audio"}]}]})",
       "messages[0].content[0].type"},
      {kChat, kMessages,
       R"({"model":"m","messages":[{"role":"user","content":[{"type":"file",)"
       R"("file":{"file_id":"f"}}]}]})",
       "messages[0].content[0].file.file_id"},
      {kMessages, kChat,
       R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},)"
       R"({"role":"assistant","content":"b"}]})",
       "messages[1]"},
      {kMessages, kChat,
       R"({"model":"m","max_tokens":1,"messages":[{"role":"user",)"
       R"("content":[{"type":"document","source":{"type":"url","url":"https://x/y.pdf"}}]})"
       R"(]})",
       "messages[0].content[0]"},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(Refused(test.from, test.to, test.body), test.field) << test.body;
  }
}

TEST(RequestTranslatorTest, AThreadIsRefusedInTheWordsFromWhichItsClientGoesOn) {
  const auto made = TranslateRequest(
      {.from = kMessages, .to = kChat, .body = Messages(R"("thread":{"type":"create"})")});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().source, dialect::form::kThreadSource);
}

TEST(RequestTranslatorTest, ValuesThatSayNothingAreNotRefused) {
  Made(kChat, kMessages,
       Chat(R"("n":1,"presence_penalty":0,"frequency_penalty":0.0,"logprobs":false,)"
            R"("logit_bias":{},"seed":null,"modalities":["text"],)"
            R"("response_format":{"type":"text"})"));
  Made(kResponses, kMessages,
       Responses(R"("background":false,"truncation":"auto","top_logprobs":0,"store":true,)"
                 R"("include":["reasoning.encrypted_content"],"text":{"verbosity":"low"})"));
  Made(kMessages, kChat,
       Messages(R"("context_management":{"edits":[]},"service_tier":"auto","cache_control":)"
                R"({"type":"ephemeral"},"diagnostics":{"previous_message_id":null})"));
}

// --- the user's own JSON ------------------------------------------------------------------------

TEST(RequestTranslatorTest, G14TheUsersJsonPassesByteForByte) {
  const std::string schema =
      R"({"type":"object","properties":{"z":{"maximum":9223372036854775807,"x":1.0},)"
      R"("a":{"enum":["é\u00e9\/"]}}, "required":["z"]})";
  const std::string tool = R"({"name":"t","description":"d\u00e9","input_schema":)" + schema + "}";
  for (const Dialect to : {kChat, kResponses}) {
    EXPECT_THAT(Raw(kMessages, to, Messages("\"tools\":[" + tool + "]")),
                HasSubstr(R"("parameters":)" + schema));
  }
  const std::string function =
      R"({"type":"function","function":{"name":"t","parameters":)" + schema + "}}";
  EXPECT_THAT(Raw(kChat, kMessages, Chat("\"tools\":[" + function + "]")),
              HasSubstr(R"("input_schema":)" + schema));
}

TEST(RequestTranslatorTest, G14ArgumentsOfCallsKeepTheirSpelling) {
  const std::string input = R"({"z": 12345678901234567890, "a":1.0, "t":"\u00e9 \"q\""})";
  const std::string body =
      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"},)"
      R"({"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"t","input":)" +
      input +
      R"(}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1",)"
      R"("content":"ok"}]}]})";
  const json chat = Made(kMessages, kChat, body);
  EXPECT_EQ(chat["messages"][1]["tool_calls"][0]["function"]["arguments"], input);
  // The translation back restores the same bytes.
  EXPECT_THAT(Raw(kChat, kMessages, chat.dump()), HasSubstr("\"input\":" + input));
  const json responses = Made(kMessages, kResponses, body);
  EXPECT_EQ(responses["input"][1]["arguments"], input);
  EXPECT_THAT(Raw(kResponses, kMessages, responses.dump()), HasSubstr("\"input\":" + input));
}

TEST(RequestTranslatorTest, ArgumentsThatAreNoObjectBecomeOne) {
  for (const auto& [arguments, input] : std::vector<std::pair<std::string, std::string>>{
           {"", "{}"}, {"[1]", R"({"arguments":[1]})"}}) {
    const json call = {
        {"id", "c"}, {"type", "function"}, {"function", {{"name", "t"}, {"arguments", arguments}}}};
    const json body = {{"model", "m"},
                       {"messages",
                        {{{"role", "user"}, {"content", "x"}},
                         {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                         {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "r"}}}}};
    EXPECT_EQ(Made(kChat, kMessages, body.dump())["messages"][1]["content"][0]["input"],
              json::parse(input));
  }
}

// --- tools --------------------------------------------------------------------------------------

constexpr std::string_view kTwoTools =
    R"("tools":[{"type":"function","function":{"name":"a"}},{"type":"function",)"
    R"("function":{"name":"b","strict":true,"parameters":{"type":"object"}}}])";

TEST(RequestTranslatorTest, ChoicesOfTools) {
  const auto choice = [](const std::string& given) {
    return Made(kChat, kMessages, Chat(std::string(kTwoTools) + "," + given));
  };
  EXPECT_EQ(choice(R"("tool_choice":"auto")")["tool_choice"], json::parse(R"({"type":"auto"})"));
  EXPECT_EQ(choice(R"("tool_choice":"none")")["tool_choice"], json::parse(R"({"type":"none"})"));
  EXPECT_EQ(choice(R"("tool_choice":"required")")["tool_choice"], json::parse(R"({"type":"any"})"));
  EXPECT_EQ(choice(R"("tool_choice":{"type":"function","function":{"name":"b"}})")["tool_choice"],
            json::parse(R"({"type":"tool","name":"b"})"));
  EXPECT_EQ(choice(R"("parallel_tool_calls":false)")["tool_choice"],
            json::parse(R"({"type":"auto","disable_parallel_tool_use":true})"));
  const json allowed =
      choice(R"("tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required",)"
             R"("tools":[{"type":"function","function":{"name":"b"}}]}})");
  EXPECT_EQ(allowed["tool_choice"], json::parse(R"({"type":"any"})"));
  ASSERT_EQ(allowed["tools"].size(), 1);
  EXPECT_EQ(allowed["tools"][0]["name"], "b");
  EXPECT_EQ(allowed["tools"][0]["strict"], true);
}

TEST(RequestTranslatorTest, ChoicesOfToolsTheOtherWay) {
  const auto choice = [](const std::string& given, Dialect to) {
    return Made(
        kMessages, to,
        Messages(R"("tools":[{"name":"a","input_schema":{"type":"object"}}],"tool_choice":)" +
                 given));
  };
  EXPECT_EQ(choice(R"({"type":"any"})", kChat)["tool_choice"], "required");
  EXPECT_EQ(choice(R"({"type":"none"})", kResponses)["tool_choice"], "none");
  EXPECT_EQ(choice(R"({"type":"tool","name":"a"})", kChat)["tool_choice"],
            json::parse(R"({"type":"function","function":{"name":"a"}})"));
  EXPECT_EQ(choice(R"({"type":"tool","name":"a"})", kResponses)["tool_choice"],
            json::parse(R"({"type":"function","name":"a"})"));
  EXPECT_EQ(
      choice(R"({"type":"auto","disable_parallel_tool_use":true})", kChat)["parallel_tool_calls"],
      false);
  // Responses takes a missing `strict` for true.
  EXPECT_EQ(choice(R"({"type":"auto"})", kResponses)["tools"][0]["strict"], false);
}

TEST(RequestTranslatorTest, AllowedToolsBetweenTheOpenAiDialects) {
  const std::string choice =
      R"("tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto",)"
      R"("tools":[{"type":"function","function":{"name":"a"}}]}})";
  const json made = Made(kChat, kResponses, Chat(std::string(kTwoTools) + "," + choice));
  EXPECT_EQ(made["tools"].size(), 2);
  EXPECT_EQ(
      made["tool_choice"],
      json::parse(
          R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"a"}]})"));
}

TEST(RequestTranslatorTest, ALoopOfTwoTurnsWithToolsInAllPairs) {
  const std::string chat = R"({"model":"m","messages":[
    {"role":"system","content":"Sys"},{"role":"user","content":"Go"},
    {"role":"assistant","content":"On it","tool_calls":[
      {"id":"call_1","type":"function","function":{"name":"a","arguments":"{\"x\":1}"}},
      {"id":"call_2","type":"function","function":{"name":"b","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"call_1","content":"one"},
    {"role":"tool","tool_call_id":"call_2","content":[{"type":"text","text":"two"}]},
    {"role":"user","content":"And?"}]})";
  const json messages = Made(kChat, kMessages, chat);
  EXPECT_EQ(messages["system"], json::parse(R"([{"type":"text","text":"Sys"}])"));
  EXPECT_EQ(messages["messages"], json::parse(R"([
    {"role":"user","content":[{"type":"text","text":"Go"}]},
    {"role":"assistant","content":[{"type":"text","text":"On it"},
      {"type":"tool_use","id":"call_1","name":"a","input":{"x":1}},
      {"type":"tool_use","id":"call_2","name":"b","input":{}}]},
    {"role":"user","content":[
      {"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"one"}]},
      {"type":"tool_result","tool_use_id":"call_2","content":[{"type":"text","text":"two"}]},
      {"type":"text","text":"And?"}]}])"));
  const json responses = Made(kChat, kResponses, chat);
  EXPECT_EQ(responses["instructions"], "Sys");
  EXPECT_EQ(responses["input"][1]["content"][0]["type"], "output_text");
  EXPECT_EQ(
      responses["input"][2],
      json::parse(
          R"({"type":"function_call","call_id":"call_1","name":"a","arguments":"{\"x\":1}"})"));
  EXPECT_EQ(responses["input"][5],
            json::parse(R"({"type":"function_call_output","call_id":"call_2","output":"two"})"));
  // All three bodies say the same, so both become the same chat.
  const json from_messages = Made(kMessages, kChat, messages.dump());
  const json from_responses = Made(kResponses, kChat, responses.dump());
  EXPECT_EQ(from_messages["messages"], from_responses["messages"]);
  EXPECT_EQ(from_messages["messages"][2]["tool_calls"],
            json::parse(chat)["messages"][2]["tool_calls"]);
  EXPECT_EQ(Made(kResponses, kMessages, responses.dump())["messages"], messages["messages"]);
  EXPECT_EQ(Made(kMessages, kResponses, messages.dump())["input"], responses["input"]);
}

TEST(RequestTranslatorTest, ResultsStandBehindTheirCallsWhateverCameBetween) {
  const json made = Made(kResponses, kMessages, R"({"model":"m","input":[
    {"role":"user","content":"Go"},
    {"type":"function_call","call_id":"c","name":"a","arguments":"{}"},
    {"role":"user","content":"Wait"},
    {"type":"function_call_output","call_id":"c","output":"done"}]})");
  EXPECT_EQ(made["messages"][2]["content"][0]["type"], "tool_result");
  EXPECT_EQ(made["messages"][2]["content"][1]["text"], "Wait");
}

TEST(RequestTranslatorTest, AToolsFailureIsTold) {
  const std::string body =
      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"},)"
      R"({"role":"assistant","content":[{"type":"tool_use","id":"c","name":"t","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,)"
      R"("content":"no"}]}]})";
  EXPECT_EQ(Made(kMessages, kChat, body)["messages"][2]["content"], "Error:\nno");
  EXPECT_EQ(Made(kMessages, kResponses, body)["input"][2]["output"], "Error:\nno");
}

// --- media --------------------------------------------------------------------------------------

TEST(RequestTranslatorTest, ImagesByUrlAndInBase64) {
  const std::string chat = R"({"model":"m","messages":[{"role":"user","content":[
    {"type":"text","text":"Look"},
    {"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}},
    {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO\/Rw0="}}]}]})";
  EXPECT_THAT(Raw(kChat, kMessages, chat), HasSubstr(R"("data":"iVBO\/Rw0=")"));
  const json messages = Made(kChat, kMessages, chat);
  EXPECT_EQ(messages["messages"][0]["content"][1],
            json::parse(R"({"type":"image","source":{"type":"url","url":"https://x/y.png"}})"));
  EXPECT_EQ(messages["messages"][0]["content"][2]["source"]["media_type"], "image/png");
  const json responses = Made(kChat, kResponses, chat);
  EXPECT_EQ(responses["input"][0]["content"][1],
            json::parse(R"({"type":"input_image","image_url":"https://x/y.png","detail":"low"})"));
  const json back = Made(kMessages, kChat, [&] {
    json body = messages;
    body["max_tokens"] = 5;
    return body.dump();
  }());
  EXPECT_EQ(back["messages"][0]["content"][2]["image_url"]["url"],
            "data:image/png;base64,iVBO/Rw0=");
  EXPECT_EQ(Made(kResponses, kMessages, responses.dump())["messages"], messages["messages"]);
}

TEST(RequestTranslatorTest, DocumentsAndFiles) {
  const std::string body = R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":[
    {"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf",
      "data":"JVBE"}},
    {"type":"document","title":"T","source":{"type":"text","media_type":"text/plain",
      "data":"words"}}]}]})";
  const json chat = Made(kMessages, kChat, body);
  EXPECT_EQ(chat["messages"][0]["content"][0],
            json::parse(R"({"type":"file","file":{"filename":"a.pdf",)"
                        R"("file_data":"data:application/pdf;base64,JVBE"}})"));
  EXPECT_EQ(chat["messages"][0]["content"][1]["text"], "T\nwords");
  const json responses = Made(kMessages, kResponses, body);
  EXPECT_EQ(responses["input"][0]["content"][0]["type"], "input_file");
  const json back = Made(kResponses, kMessages, responses.dump());
  EXPECT_EQ(back["messages"][0]["content"][0]["source"]["data"], "JVBE");
  EXPECT_EQ(back["messages"][0]["content"][0]["title"], "a.pdf");
}

TEST(RequestTranslatorTest, ImagesThatAToolReturnedReachTheModel) {
  const std::string body =
      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"},)"
      R"({"role":"assistant","content":[{"type":"tool_use","id":"c","name":"t","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[)"
      R"({"type":"text","text":"see"},{"type":"image","source":{"type":"base64",)"
      R"("media_type":"image/png","data":"AA"}}]}]}]})";
  const json responses = Made(kMessages, kResponses, body);
  EXPECT_EQ(responses["input"][2]["output"][1]["image_url"], "data:image/png;base64,AA");
  const json chat = Made(kMessages, kChat, body);
  EXPECT_EQ(chat["messages"][2]["content"], "see");
  EXPECT_EQ(chat["messages"][3]["role"], "user");
  EXPECT_EQ(chat["messages"][3]["content"][0]["image_url"]["url"], "data:image/png;base64,AA");
}

// --- system texts -------------------------------------------------------------------------------

TEST(RequestTranslatorTest, V3SystemTextsStayWhereTheyAre) {
  const std::string body = R"({"model":"m","max_tokens":9,"system":"Sys","messages":[
    {"role":"user","content":"Hi"},{"role":"system","content":"9 tokens left"},
    {"role":"assistant","content":"Yes"},{"role":"user","content":"More"},
    {"role":"system","content":"8 tokens left"}]})";
  const json chat = Made(kMessages, kChat, body);
  EXPECT_EQ(chat["messages"][0], json::parse(R"({"role":"system","content":"Sys"})"));
  EXPECT_EQ(chat["messages"][2], json::parse(R"({"role":"system","content":"9 tokens left"})"));
  EXPECT_EQ(chat["messages"][5]["content"], "8 tokens left");
  const json responses = Made(kMessages, kResponses, body);
  EXPECT_EQ(responses["instructions"], "Sys");
  EXPECT_EQ(responses["input"][1]["role"], "system");
  const json messages = Made(kChat, kMessages, chat.dump());
  EXPECT_EQ(messages["system"].size(), 1);
  EXPECT_EQ(messages["messages"][0], json::parse(R"({"role":"user","content":[
    {"type":"text","text":"Hi"},{"type":"text","text":"9 tokens left"}]})"));
}

TEST(RequestTranslatorTest, InstructionsAndDeveloperTextsBecomeTheSystem) {
  const json made = Made(kResponses, kMessages, R"({"model":"m","instructions":"I","input":[
    {"role":"developer","content":"D"},{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(made["system"],
            json::parse(R"([{"type":"text","text":"I"},{"type":"text","text":"D"}])"));
}

TEST(RequestTranslatorTest, ServersThatOnlySpeakLikeOpenAiGetTheOldNames) {
  const json made = Made(kResponses, kChat,
                         R"({"model":"m","max_output_tokens":7,"input":[
    {"role":"user","content":"Hi"},{"role":"developer","content":"D"},
    {"role":"user","content":"?"}]})",
                         {.plain_names = true});
  EXPECT_EQ(made["max_tokens"], 7);
  EXPECT_EQ(made["messages"][1]["role"], "system");
}

TEST(RequestTranslatorTest, V1TheBillingHeaderIsNobodyElses) {
  const std::string body =
      R"({"model":"m","max_tokens":9,"system":[{"type":"text",)"
      R"("text":"x-anthropic-billing-header: cc_version=2.1; cch=36ee5;"},)"
      R"({"type":"text","text":"Sys"}],"messages":[{"role":"user","content":"Hi"}]})";
  EXPECT_EQ(Made(kMessages, kChat, body)["messages"][0]["content"], "Sys");
  EXPECT_EQ(Made(kMessages, kResponses, body)["instructions"], "Sys");
}

// --- reasoning ----------------------------------------------------------------------------------

TEST(RequestTranslatorTest, EffortIsToldInEachDialectsPlace) {
  const json messages = Made(kChat, kMessages, Chat(R"("reasoning_effort":"high")"));
  EXPECT_EQ(messages["output_config"]["effort"], "high");
  EXPECT_EQ(messages["thinking"]["type"], "adaptive");
  EXPECT_EQ(Made(kChat, kMessages, Chat(R"("reasoning_effort":"none")")).count("thinking"), 0);
  const json responses = Made(kMessages, kResponses,
                              Messages(R"("thinking":{"type":"enabled","budget_tokens":10000})"));
  EXPECT_EQ(responses["reasoning"]["effort"], "medium");
  EXPECT_EQ(responses["include"][0], "reasoning.encrypted_content");
  EXPECT_EQ(
      Made(kMessages, kChat, Messages(R"("output_config":{"effort":"max"})"))["reasoning_effort"],
      "max");
  EXPECT_EQ(Made(kMessages, kChat, Messages(R"("thinking":{"type":"disabled"})"))
                .count("reasoning_effort"),
            0);
  EXPECT_EQ(
      Made(kResponses, kChat, Responses(R"("reasoning":{"effort":"low"})"))["reasoning_effort"],
      "low");
}

TEST(RequestTranslatorTest, ThinkingNeverGoesToAnotherProviderWithItsSignature) {
  const std::string body =
      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"SIG"},)"
      R"({"type":"redacted_thinking","data":"RED"},{"type":"text","text":"Yes"}]},)"
      R"({"role":"user","content":"?"}]})";
  for (const Dialect to : {kChat, kResponses}) {
    const std::string made = Raw(kMessages, to, body);
    EXPECT_THAT(made, testing::Not(HasSubstr("SIG")));
    EXPECT_THAT(made, testing::Not(HasSubstr("RED")));
    EXPECT_THAT(made, testing::Not(HasSubstr("Hm")));
  }
  EXPECT_EQ(
      Made(kMessages, kChat, body, {.reasoning_content = true})["messages"][1]["reasoning_content"],
      "Hm");
}

TEST(RequestTranslatorTest, WhatAProviderSealedComesBackToItAlone) {
  const std::string input =
      R"({"model":"m","input":[{"role":"user","content":"Hi"},{"type":"reasoning",)"
      R"("id":"rs_1","summary":[],)"
      R"("encrypted_content":"kvgate-thinking:SIG+/=:Hm \"so\""},{"type":"reasoning",)"
      R"("id":"rs_2","summary":[],)"
      R"("encrypted_content":"kvgate-redacted:RED"},{"role":"assistant","content":"Yes"},)"
      R"({"role":"user","content":"?"}]})";
  const json messages = Made(kResponses, kMessages, input);
  EXPECT_EQ(messages["messages"][1]["content"][0],
            json::parse(R"({"type":"thinking","thinking":"Hm \"so\"","signature":"SIG+/="})"));
  EXPECT_EQ(messages["messages"][1]["content"][1],
            json::parse(R"({"type":"redacted_thinking","data":"RED"})"));
  EXPECT_THAT(Raw(kResponses, kChat, input), testing::Not(HasSubstr("SIG")));

  const std::string body =
      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"},)"
      R"({"role":"assistant","content":[)"
      R"({"type":"thinking","thinking":"Sum","signature":"kvgate-item:rs_7:ENC"},)"
      R"({"type":"redacted_thinking","data":"kvgate-item:rs_8:ENC2"},{"type":"text",)"
      R"("text":"Yes"}]},)"
      R"({"role":"user","content":"?"}]})";
  const json responses = Made(kMessages, kResponses, body);
  EXPECT_EQ(responses["input"][1],
            json::parse(R"({"type":"reasoning","id":"rs_7","summary":[{"type":"summary_text",)"
                        R"("text":"Sum"}],"encrypted_content":"ENC"})"));
  EXPECT_EQ(
      responses["input"][2],
      json::parse(R"({"type":"reasoning","id":"rs_8","summary":[],"encrypted_content":"ENC2"})"));
}

// --- formats and hints --------------------------------------------------------------------------

TEST(RequestTranslatorTest, AnAnswersFormat) {
  const std::string format = R"("response_format":{"type":"json_schema","json_schema":{"name":"n",)"
                             R"("schema":{"type":"object","b":1,"a":2},"strict":true}})";
  EXPECT_THAT(
      Raw(kChat, kMessages, Chat(format)),
      HasSubstr(R"("format":{"type":"json_schema","schema":{"type":"object","b":1,"a":2}})"));
  EXPECT_EQ(
      Made(kChat, kResponses, Chat(format))["text"]["format"],
      json::parse(R"({"type":"json_schema","name":"n","schema":{"type":"object","b":1,"a":2},)"
                  R"("strict":true})"));
  const json chat =
      Made(kMessages, kChat,
           Messages(R"("output_config":{"format":{"type":"json_schema","schema":{"a":1}}})"));
  EXPECT_EQ(chat["response_format"]["json_schema"]["schema"], json::parse(R"({"a":1})"));
  EXPECT_EQ(Made(kChat, kResponses,
                 Chat(R"("response_format":{"type":"json_object"})"))["text"]["format"]["type"],
            "json_object");
}

TEST(RequestTranslatorTest, G6MarkersBecomeBreakpointsWhereTheModelHasThem) {
  const std::string body = R"({"model":"m","max_tokens":9,"system":[{"type":"text","text":"Sys",)"
                           R"("cache_control":{"type":"ephemeral","ttl":"1h"}}],)"
                           R"("messages":[{"role":"user","content":[{"type":"text","text":"Hi",)"
                           R"("cache_control":{"type":"ephemeral"}}]}]})";
  const json mark = json::parse(R"({"mode":"explicit"})");
  const json chat = Made(kMessages, kChat, body, kBreakpoints);
  EXPECT_EQ(chat["messages"][0]["content"][0]["prompt_cache_breakpoint"], mark);
  EXPECT_EQ(chat["messages"][1]["content"][0]["prompt_cache_breakpoint"], mark);
  const json responses = Made(kMessages, kResponses, body, kBreakpoints);
  EXPECT_EQ(responses.count("instructions"), 0);
  EXPECT_EQ(responses["input"][0]["content"][0]["prompt_cache_breakpoint"], mark);
  EXPECT_THAT(Raw(kMessages, kChat, body), testing::Not(HasSubstr("breakpoint")));
  const json back = Made(kResponses, kMessages, responses.dump());
  EXPECT_EQ(back["system"][0]["cache_control"], json::parse(R"({"type":"ephemeral"})"));
}

TEST(RequestTranslatorTest, G8ALongTtlIsLeftOutWhereItIsNotKnown) {
  const std::string chat = R"({"model":"m","messages":[{"role":"user","content":[
    {"type":"text","text":"Hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]})";
  EXPECT_EQ(Made(kChat, kMessages, chat)["messages"][0]["content"][0]["cache_control"],
            json::parse(R"({"type":"ephemeral","ttl":"1h"})"));
  EXPECT_EQ(
      Made(kChat, kMessages, chat, {.ttl = false})["messages"][0]["content"][0]["cache_control"],
      json::parse(R"({"type":"ephemeral"})"));
}

TEST(RequestTranslatorTest, TheKeyOfAConversationIsItsUser) {
  EXPECT_EQ(Made(kChat, kMessages, Chat(R"("prompt_cache_key":"k","user":"u")"))["metadata"],
            json::parse(R"({"user_id":"k"})"));
  EXPECT_EQ(Made(kMessages, kChat, Messages(R"("metadata":{"user_id":"u1"})"))["prompt_cache_key"],
            "u1");
  // Providers refuse more than 64 characters.
  const std::string id(150, 'x');
  const json made =
      Made(kMessages, kResponses, Messages(R"("metadata":{"user_id":")" + id + "\"}"));
  EXPECT_EQ(made["prompt_cache_key"].get<std::string>().size(), 64);
}

// --- prefixes -----------------------------------------------------------------------------------

// Makes the turns of a conversation in each dialect, as JSON, from one seed.
class RandomConversation {
 public:
  explicit RandomConversation(unsigned seed) : random_(seed) {}

  // Returns turns that end with one of the user, or with results.
  std::vector<json> Chat(int rounds) {
    std::vector<json> turns = {{{"role", "system"}, {"content", Words()}}};
    for (int i = 0; i < rounds; ++i) {
      turns.push_back({{"role", "user"}, {"content", Words()}});
      if (Pick(4) == 0) turns.push_back({{"role", "system"}, {"content", Words()}});
      if (i + 1 == rounds) break;
      json answer = {{"role", "assistant"}, {"content", Words()}};
      const int num_calls = Pick(3);
      for (int call = 0; call < num_calls; ++call) {
        answer["tool_calls"].push_back(
            {{"id", "call_" + std::to_string(i) + "_" + std::to_string(call)},
             {"type", "function"},
             {"function",
              {{"name", "t"}, {"arguments", R"({"z": 1.0, "a": ")" + Words() + "\"}"}}}});
      }
      turns.push_back(answer);
      for (int call = 0; call < num_calls; ++call) {
        turns.push_back({{"role", "tool"},
                         {"tool_call_id", "call_" + std::to_string(i) + "_" + std::to_string(call)},
                         {"content", Words()}});
      }
    }
    return turns;
  }

 private:
  int Pick(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  std::string Words() {
    static const std::vector<std::string> kWords = {"é", "so", "\\n", "1.0", "ok 😀", "</s>"};
    std::string text;
    for (int i = Pick(4); i >= 0; --i) text += kWords[static_cast<size_t>(Pick(6))] + " ";
    return text;
  }
  std::mt19937 random_;
};

// Returns the body without its closing brackets, which come later in a longer body.
std::string Front(std::string body) {
  while (!body.empty() && (body.back() == '}' || body.back() == ']')) body.pop_back();
  return body;
}

TEST(RequestTranslatorTest, G3G4G12ALongerConversationBeginsWithTheShorterOnesBytes) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::vector<json> turns = RandomConversation(seed).Chat(6);
    for (const Dialect to : {kMessages, kResponses}) {
      std::string before;
      for (size_t end = 2; end <= turns.size(); ++end) {
        const std::string role = turns[end - 1]["role"];
        const bool more_results = end < turns.size() && turns[end]["role"] == "tool";
        if (role == "assistant" || more_results) continue;
        json body = {
            {"model", "m"},
            {"tools", json::array({{{"type", "function"}, {"function", {{"name", "t"}}}}})}};
        body["messages"] = std::vector<json>(turns.begin(), turns.begin() + static_cast<long>(end));
        const std::string made = Raw(kChat, to, body.dump());
        EXPECT_EQ(Raw(kChat, to, body.dump()), made);
        EXPECT_TRUE(made.starts_with(before)) << before << "\n" << made;
        before = Front(made);
      }
    }
  }
}

TEST(RequestTranslatorTest, G3TheSameHoldsFromTheOtherTwoDialects) {
  for (unsigned seed = 100; seed < 140; ++seed) {
    const std::vector<json> turns = RandomConversation(seed).Chat(5);
    for (const auto& [from, to] :
         std::vector<std::pair<Dialect, Dialect>>{{kMessages, kChat},
                                                  {kMessages, kResponses},
                                                  {kResponses, kChat},
                                                  {kResponses, kMessages}}) {
      std::string before;
      for (size_t end = 2; end <= turns.size(); ++end) {
        const bool more_results = end < turns.size() && turns[end]["role"] == "tool";
        if (turns[end - 1]["role"] == "assistant" || more_results) continue;
        json body = {{"model", "m"}};
        body["messages"] = std::vector<json>(turns.begin(), turns.begin() + static_cast<long>(end));
        const std::string made = Raw(from, to, Raw(kChat, from, body.dump()));
        // A turn of Messages that has grown is one turn in the other dialects, too.
        const std::string role = turns[end - 1]["role"];
        const bool grows = end < turns.size() && turns[end]["role"] != "assistant";
        EXPECT_TRUE(made.starts_with(before)) << before << "\n" << made;
        before = grows || role == "system" ? before : Front(made);
      }
    }
  }
}

// --- counting -----------------------------------------------------------------------------------

TEST(RequestTranslatorTest, TokensAreEstimatedHighRatherThanLow) {
  const std::string text(4000, 'a');
  const auto tokens =
      EstimateTokens(R"({"model":"m","messages":[{"role":"user","content":")" + text + "\"}]}");
  ASSERT_TRUE(tokens);
  EXPECT_GE(*tokens, 1150);
  EXPECT_LE(*tokens, 1300);
  const auto image = EstimateTokens(
      R"({"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64",)"
      R"("data":")" +
      std::string(1'000'000, 'A') + "\"}}]}]}");
  ASSERT_TRUE(image);
  EXPECT_LT(*image, 2000);
  EXPECT_FALSE(EstimateTokens("{}"));
}

TEST(RequestTranslatorTest, AnAnswerOfResponsesRepeatsItsRequest) {
  const auto made = TranslateRequest(
      {.from = kResponses,
       .to = kMessages,
       .body = Responses(
           R"("temperature":0.50,"metadata":{"b":"1","a":"2"},"reasoning":{"summary":"auto"})")});
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->shape.summary);
  EXPECT_THAT(made->shape.echo, HasSubstr(R"("temperature":0.50)"));
  EXPECT_EQ(json::parse("{" + made->shape.echo + "}")["tool_choice"], "auto");
}

}  // namespace
}  // namespace kvgate::dialect
