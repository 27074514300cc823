// Requests of Gemini's dialect as those of other dialects, and the other way round.
#include "gateway/dialect/gemini/gemini_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/base64.h"
#include "base/clock.h"
#include "gateway/dialect/gemini/call_signature.h"
#include "gateway/dialect/request_translator.h"

namespace kvgate::dialect::gemini {
namespace {

using form::Dialect;
using nlohmann::json;
using testing::HasSubstr;

constexpr translate::TargetTraits kEngine = {
    .reasoning_content = true, .plain_names = true, .samplers = true};

Result<TranslatedRequest> FromGemini(const std::string& body,
                                     Dialect to = Dialect::kChatCompletions,
                                     translate::TargetTraits target = {}, bool stream = false) {
  return TranslateRequest({.from = Dialect::kGemini,
                           .to = to,
                           .body = body,
                           .model = "gemini-3-pro",
                           .stream = stream,
                           .target = target});
}

json Chat(const std::string& body, translate::TargetTraits target = {}) {
  const auto made = FromGemini(body, Dialect::kChatCompletions, target);
  EXPECT_TRUE(made) << made.error().ToString();
  return made ? json::parse(made->body) : json();
}

json Gemini(const std::string& chat) {
  const auto made =
      TranslateRequest({.from = Dialect::kChatCompletions, .to = Dialect::kGemini, .body = chat});
  EXPECT_TRUE(made) << made.error().ToString();
  return made ? json::parse(made->body) : json();
}

std::string RefusedField(const std::string& body, Dialect to = Dialect::kChatCompletions) {
  const auto made = FromGemini(body, to);
  return made ? "nothing: " + made->body : made.error().field;
}

TEST(GeminiRequestTest, ThePathSaysModelAndStream) {
  const auto made = FromGemini(R"({"contents":[{"parts":[{"text":"Hi"}]}]})",
                               Dialect::kChatCompletions, {}, /*stream=*/true);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_TRUE(made->stream);
  const json body = json::parse(made->body);
  EXPECT_EQ(body["model"], "gemini-3-pro");
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["messages"], json::parse(R"([{"role":"user","content":"Hi"}])"));
}

TEST(GeminiRequestTest, BothSpellingsMeanTheSame) {
  const std::string camel = R"({"systemInstruction":{"parts":[{"text":"Be brief."}]},
      "generationConfig":{"maxOutputTokens":7,"topP":0.5,"stopSequences":["x"]},
      "contents":[{"role":"user","parts":[{"text":"Hi"}]}]})";
  const std::string snake = R"({"system_instruction":{"parts":[{"text":"Be brief."}]},
      "generation_config":{"max_output_tokens":7,"top_p":0.5,"stop_sequences":["x"]},
      "contents":[{"role":"user","parts":[{"text":"Hi"}]}]})";
  EXPECT_EQ(Chat(camel), Chat(snake));
  EXPECT_EQ(Chat(camel)["messages"][0]["content"], "Be brief.");
  EXPECT_EQ(Chat(camel)["max_completion_tokens"], 7);
}

TEST(GeminiRequestTest, AToolLoopWithoutIds) {
  const json body = Chat(R"({"tools":[{"functionDeclarations":[{"name":"get","description":"d",
      "parameters":{"type":"OBJECT","properties":{"k":{"type":"STRING","nullable":true}}}}]}],
      "toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["get"]}},
      "contents":[{"role":"user","parts":[{"text":"Hi"}]},
       {"role":"model","parts":[{"functionCall":{"name":"get","args":{"k":"a"}}},
                                {"functionCall":{"name":"get","args":{"k":"b"}}}]},
       {"role":"user","parts":[{"functionResponse":{"name":"get","response":{"output":"1"}}},
                               {"functionResponse":{"name":"get","response":{"x":2}}}]}]})");
  EXPECT_EQ(body["tools"][0]["function"]["parameters"],
            json::parse(R"({"type":"object","properties":{"k":{"type":["string","null"]}}})"));
  EXPECT_EQ(body["tool_choice"]["function"]["name"], "get");
  const json& calls = body["messages"][1]["tool_calls"];
  EXPECT_EQ(calls[0]["id"], "call_0");
  EXPECT_EQ(calls[1]["id"], "call_1");
  EXPECT_EQ(calls[1]["function"]["arguments"], R"({"k":"b"})");
  EXPECT_EQ(body["messages"][2]["tool_call_id"], "call_0");
  EXPECT_EQ(body["messages"][2]["content"], "1");
  EXPECT_EQ(body["messages"][3]["tool_call_id"], "call_1");
  EXPECT_EQ(body["messages"][3]["content"], R"({"x":2})");
}

TEST(GeminiRequestTest, ConversationsOnlyGrow) {
  const std::string head = R"({"contents":[{"role":"user","parts":[{"text":"Hi"}]},
      {"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},
      {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"result":"r"}}}]})";
  const std::string more = R"(,{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},
      {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"error":"e"}}}]})";
  const json before = Chat(head + "]}")["messages"];
  const json after = Chat(head + more + "]}")["messages"];
  ASSERT_EQ(after.size(), before.size() + 2);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i], after[i]);
  EXPECT_EQ(after.back()["tool_call_id"], "call_1");
  EXPECT_THAT(after.back()["content"].get<std::string>(), HasSubstr("Error:"));
}

TEST(GeminiRequestTest, SamplersGoToTheEngineAlone) {
  const std::string body = R"({"generationConfig":{"topK":3,"seed":4},
      "contents":[{"parts":[{"text":"Hi"}]}]})";
  EXPECT_EQ(Chat(body, kEngine)["top_k"], 3);
  EXPECT_EQ(Chat(body, kEngine)["seed"], 4);
  EXPECT_EQ(RefusedField(body), "generationConfig.seed");
  const auto without = FromGemini(R"({"generationConfig":{"topK":3},
      "contents":[{"parts":[{"text":"Hi"}]}]})");
  ASSERT_TRUE(without);
  EXPECT_EQ(without->left_out, std::vector<std::string>{"top_k"});
  EXPECT_FALSE(json::parse(without->body).contains("top_k"));
}

TEST(GeminiRequestTest, WhatCannotBeSaidNamesItsField) {
  const std::string hi = R"("contents":[{"parts":[{"text":"Hi"}]}])";
  EXPECT_EQ(RefusedField("{}"), "contents");
  EXPECT_EQ(RefusedField(R"({"contents":[]})"), "contents");
  EXPECT_EQ(RefusedField(R"({"contents":[{"role":"system","parts":[]}]})"), "contents[0].role");
  EXPECT_EQ(RefusedField(R"({"contents":[{"parts":[{"txt":"Hi"}]}]})"), "contents[0].parts[0].txt");
  EXPECT_EQ(RefusedField("{" + hi + R"(,"messages":[]})"), "messages");
  EXPECT_EQ(RefusedField("{" + hi + R"(,"cachedContent":"cachedContents/1"})"), "cachedContent");
  EXPECT_EQ(RefusedField("{" + hi + R"(,"generationConfig":{"temperature":"hot"}})"),
            "generationConfig.temperature");
  EXPECT_EQ(RefusedField("{" + hi + R"(,"generationConfig":{"responseSchema":{"type":"STRING"}}})"),
            "generationConfig.responseSchema");
  EXPECT_EQ(RefusedField(R"({"contents":[{"parts":[
                {"functionResponse":{"name":"never","response":{}}}]}]})"),
            "contents[0].parts[0].functionResponse.name");
}

TEST(GeminiRequestTest, ThinkingAndOutput) {
  const std::string hi = R"("contents":[{"parts":[{"text":"Hi"}]}])";
  const auto effort = [&](const std::string& thinking) {
    return Chat("{" + hi + R"(,"generationConfig":{"thinkingConfig":)" + thinking + "}}")
        .value("reasoning_effort", "");
  };
  EXPECT_EQ(effort(R"({"thinkingBudget":0})"), "none");
  EXPECT_EQ(effort(R"({"thinkingBudget":-1})"), "");
  EXPECT_EQ(effort(R"({"thinkingBudget":8192})"), "medium");
  EXPECT_EQ(effort(R"({"thinkingLevel":"HIGH"})"), "high");
  const json made = Chat("{" + hi + R"(,"generationConfig":{
      "responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}})");
  EXPECT_EQ(made["response_format"]["json_schema"]["schema"], json::parse(R"({"type":"object"})"));
  const json any =
      Chat("{" + hi + R"(,"generationConfig":{"responseMimeType":"application/json"}})");
  EXPECT_EQ(any["response_format"]["type"], "json_object");
}

TEST(GeminiRequestTest, ChatAsGemini) {
  const json body = Gemini(R"({"model":"gemini-3-pro","max_tokens":5,"reasoning_effort":"low",
      "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
      "tool_choice":"required","response_format":{"type":"json_object"},
      "messages":[{"role":"system","content":"S"},{"role":"user","content":"Q"},
       {"role":"assistant","content":null,"tool_calls":[
         {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
       {"role":"tool","tool_call_id":"c1","content":"R"},{"role":"system","content":"Later"}]})");
  EXPECT_EQ(body["systemInstruction"], json::parse(R"({"parts":[{"text":"S"}]})"));
  EXPECT_EQ(body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"],
            json::parse(R"({"type":"object"})"));
  EXPECT_EQ(body["toolConfig"]["functionCallingConfig"]["mode"], "ANY");
  EXPECT_EQ(body["generationConfig"]["maxOutputTokens"], 5);
  EXPECT_EQ(body["generationConfig"]["responseMimeType"], "application/json");
  EXPECT_EQ(body["generationConfig"]["thinkingConfig"]["thinkingLevel"], "low");
  ASSERT_EQ(body["contents"].size(), 3U);
  const json& call = body["contents"][1]["parts"][0];
  EXPECT_EQ(call["functionCall"], json::parse(R"({"id":"c1","name":"f","args":{"a":1}})"));
  EXPECT_EQ(call["thoughtSignature"], kNoSignature);
  const json& answered = body["contents"][2]["parts"];
  EXPECT_EQ(answered[0]["functionResponse"],
            json::parse(R"({"id":"c1","name":"f","response":{"output":"R"}})"));
  EXPECT_EQ(answered[1]["text"], "Later");
}

TEST(GeminiRequestTest, ASignatureComesBackFromTheId) {
  const std::string signature = EncodeBase64("what the model thought?>");
  const std::string id = JoinCallId({.id = "c1", .signature = signature});
  const json body = Gemini(R"({"model":"gemini-2.5-pro","reasoning_effort":"low","messages":[
      {"role":"user","content":"Q"},{"role":"assistant","tool_calls":[{"id":")" +
                           id + R"(","type":"function","function":{"name":"f","arguments":""}}]},
      {"role":"tool","tool_call_id":")" +
                           id + R"(","content":"R"}]})");
  EXPECT_EQ(body["contents"][1]["parts"][0]["thoughtSignature"], signature);
  EXPECT_EQ(body["contents"][1]["parts"][0]["functionCall"]["id"], "c1");
  EXPECT_EQ(body["contents"][2]["parts"][0]["functionResponse"]["id"], "c1");
  EXPECT_EQ(body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 1024);
}

TEST(GeminiRequestTest, MessagesThoughtsTravelAsSignatures) {
  const std::string seal = EncodeBase64("kvgate-thinking:SIG:Hm");
  const auto made = FromGemini(R"({"contents":[{"parts":[{"text":"Q"}]},
      {"role":"model","parts":[{"text":"A","thoughtSignature":")" +
                                   seal + R"("}]},{"parts":[{"text":"Q2"}]}]})",
                               Dialect::kMessages);
  ASSERT_TRUE(made) << made.error().ToString();
  const json answer = json::parse(made->body)["messages"][1]["content"];
  EXPECT_EQ(answer[0], json::parse(R"({"type":"thinking","thinking":"Hm","signature":"SIG"})"));
  EXPECT_EQ(answer[1]["text"], "A");
}

TEST(GeminiRequestTest, CountsWhatItIsAskedFor) {
  EXPECT_EQ(CountedRequest(R"({"generateContentRequest":{"contents":[]}})"), R"({"contents":[]})");
  EXPECT_EQ(CountedRequest(R"({"contents":[]})"), R"({"contents":[]})");
  EXPECT_EQ(CountedRequest("nothing"), "nothing");
}

TEST(GeminiRequestTest, AnEstimateCountsTextsAndMedia) {
  const auto estimate = [](const std::string& parts) {
    return *EstimateTokens(R"({"contents":[{"parts":[)" + parts + "]}]}");
  };
  const int64_t text = estimate(R"({"text":")" + std::string(3300, 'a') + R"("})");
  EXPECT_GT(text, 990);
  EXPECT_LT(text, 1100);
  const std::string data(330'000, 'A');
  EXPECT_LT(estimate(R"({"inlineData":{"mimeType":"image/png","data":")" + data + R"("}})"), 1700);
  EXPECT_LT(estimate(R"({"text":"a","thoughtSignature":")" + data + R"("})"), 100);
}

TEST(GeminiRequestTest, PathsOfBothKinds) {
  EXPECT_EQ(GeminiPath({.model = "m", .stream = false}), "/v1beta/models/m:generateContent");
  EXPECT_EQ(GeminiPath({.model = "m", .stream = true}),
            "/v1beta/models/m:streamGenerateContent?alt=sse");
  EXPECT_EQ(GeminiPath({.model = "a/../b?x HTTP/1.1\r\nH: \"", .stream = false}),
            "/v1beta/models/a%2F..%2Fb%3Fx%20HTTP%2F1.1%0D%0AH%3A%20%22:generateContent");
}

TEST(GeminiRequestTest, ManyCallsInOneTurnTakeTimeByTheirNumber) {
  std::string calls;
  std::string results;
  std::string chat_calls;
  std::string chat_results;
  constexpr int kCalls = 20'000;
  for (int i = 0; i < kCalls; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    const std::string name = "f" + std::to_string(i);
    const std::string back = "f" + std::to_string(kCalls - 1 - i);
    calls += comma + R"({"functionCall":{"name":")" + name + R"("}})";
    results += comma + R"({"functionResponse":{"name":")" + back + R"(","response":{}}})";
    chat_calls += comma + R"({"id":"c)" + name + R"(","type":"function","function":{"name":")" +
                  name + R"(","arguments":""}})";
    chat_results += R"(,{"role":"tool","tool_call_id":"c)" + back + R"(","content":"r"})";
  }
  const std::string body = R"({"contents":[{"parts":[{"text":"Q"}]},{"role":"model","parts":[)" +
                           calls + R"(]},{"parts":[)" + results + "]}]}";
  const std::string chat = R"({"model":"m","messages":[{"role":"user","content":"Q"},)"
                           R"({"role":"assistant","tool_calls":[)" +
                           chat_calls + "]}" + chat_results + "]}";
  const auto began = SteadyClock::now();
  EXPECT_EQ(Chat(body)["messages"].back()["tool_call_id"], "call_0");
  EXPECT_EQ(Gemini(chat)["contents"].size(), 3U);
  // A search through all calls for each result takes ten times as long.
  EXPECT_LT(SteadyClock::now() - began, std::chrono::seconds(5));
}

TEST(GeminiRequestTest, WhateverABodyHoldsItIsTranslatedOrRefused) {
  const std::string seeds[] = {
      R"({"contents":[{"role":"user","parts":[{"text":"a\u00e9"},{"inlineData":{"mimeType":
      "image/png","data":"AA=="}},{"fileData":{"fileUri":"u"}}]},{"role":"model","parts":[
      {"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"a3ZnYXRlLQ=="}]},{"parts":[
      {"functionResponse":{"name":"f","response":{"output":"r"},"parts":[{"text":"p"}]}}]}]})",
      R"({"contents":[{"parts":[{"text":"Q"}]}],"tools":[{"functionDeclarations":[{"name":"f",
      "parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING","nullable":true}}}}]},
      {"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},
      "generationConfig":{"thinkingConfig":{"thinkingBudget":9},"stopSequences":["x"],
      "responseMimeType":"application/json","responseSchema":{"anyOf":[{"type":"NUMBER"}]}}})"};
  std::mt19937 random(7);
  const std::string bytes =
      "{}[]\":,\\0-1eTtnu/ \x80"
      "a";
  for (int i = 0; i < 30'000; ++i) {
    std::string body = seeds[i % 2];
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      const size_t at = random() % body.size();
      const char byte = bytes[random() % bytes.size()];
      switch (random() % 3) {
        case 0:
          body[at] = byte;
          break;
        case 1:
          body.erase(at, 1 + random() % 8);
          break;
        default:
          body.insert(at, 1, byte);
      }
      if (body.empty()) body = "{";
    }
    for (const Dialect to : {Dialect::kChatCompletions, Dialect::kResponses, Dialect::kMessages}) {
      const auto made = FromGemini(body, to);
      if (made) {
        EXPECT_FALSE(json::parse(made->body, nullptr, false).is_discarded()) << body;
      } else {
        EXPECT_TRUE(made.error().code == ErrorCode::kInvalidArgument ||
                    made.error().code == ErrorCode::kUnsupported)
            << made.error().ToString();
      }
    }
  }
}

}  // namespace
}  // namespace kvgate::dialect::gemini
