// These tests translate answers between the three dialects: whole ones and streams, in every
// combination.
#include "gateway/dialect/reply_translator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvgate::dialect {
namespace {

using dialect::form::Dialect;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using End = ReplyTranslator::End;

constexpr Dialect kChat = Dialect::kChatCompletions;
constexpr Dialect kResponses = Dialect::kResponses;
constexpr Dialect kMessages = Dialect::kMessages;
constexpr Dialect kAll[] = {kChat, kResponses, kMessages};

struct Told {
  std::string bytes;
  End end = End::kCut;
  Error error;
};

struct Way {
  Dialect from;
  Dialect to;
  bool events = true;  // the upstream sends events
  bool stream = true;  // the client gets events
};

Told Translate(const Way& way, const std::vector<std::string>& pieces) {
  auto translator = ReplyTranslator::Make({.from = way.from,
                                           .events = way.events,
                                           .reply = {.dialect = way.to,
                                                     .request_id = "7",
                                                     .created_unix = 1700000000,
                                                     .model = "asked",
                                                     .stream = way.stream,
                                                     .include_usage = true}});
  Told told;
  for (const std::string& piece : pieces) translator->Feed(piece, told.bytes);
  told.end = translator->Finish(told.bytes);
  if (told.end != End::kWhole) told.error = translator->error();
  return told;
}

Told Translate(const Way& way, const std::string& bytes) {
  return Translate(way, std::vector<std::string>{bytes});
}

// Returns the data of all events; [DONE] becomes a string.
std::vector<json> Events(const std::string& bytes) {
  std::vector<json> events;
  size_t at = 0;
  while ((at = bytes.find("data: ", at)) != std::string::npos) {
    at += 6;
    const std::string data = bytes.substr(at, bytes.find('\n', at) - at);
    events.push_back(data == "[DONE]" ? json(data) : json::parse(data));
  }
  return events;
}

std::string Sse(const std::vector<std::string>& events) {
  std::string bytes;
  for (const std::string& event : events) {
    const json data = json::parse(event, nullptr, false);
    if (data.is_object() && data.contains("type")) {
      bytes += "event: " + data["type"].get<std::string>() + "\n";
    }
    bytes += "data: " + event + "\n\n";
  }
  return bytes;
}

// --- one answer, in all three dialects -----------------------------------------------------------

std::string ChatStream() {
  return Sse(
      {R"({"id":"x","object":"chat.completion.chunk","model":"up","choices":[{"index":0,)"
       R"("delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null})",
       R"({"model":"up","choices":[{"index":0,"delta":{"reasoning_content":"Hm."},)"
       R"("finish_reason":null}]})",
       R"({"model":"up","choices":[{"index":0,"delta":{"content":"Hé"},"finish_reason":null}]})",
       R"({"model":"up","choices":[{"index":0,"delta":{"content":" you"},"finish_reason":null}]})",
       R"({"model":"up","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,)"
       R"("id":"call_1","type":"function","function":{"name":"f","arguments":""}}]},)"
       R"("finish_reason":null}]})",
       R"({"model":"up","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,)"
       R"("function":{"arguments":"{\"n\": 123456789"}}]},"finish_reason":null}]})",
       R"({"model":"up","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,)"
       R"("function":{"arguments":"01234567890}"}}]},"finish_reason":null}]})",
       R"({"model":"up","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,)"
       R"("id":"call_2","type":"function","function":{"name":"g","arguments":""}}]},)"
       R"("finish_reason":null}]})",
       R"({"model":"up","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]})",
       R"({"model":"up","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,)"
       R"("total_tokens":120,"prompt_tokens_details":{"cached_tokens":60,)"
       R"("cache_write_tokens":30},"completion_tokens_details":{"reasoning_tokens":5}}})",
       "[DONE]"});
}

std::string ChatBody() {
  return R"({"id":"x","model":"up","choices":[{"index":0,"message":{"role":"assistant",)"
         R"("content":"Hé you","reasoning_content":"Hm.","tool_calls":[{"id":"call_1",)"
         R"("type":"function","function":{"name":"f","arguments":"{\"n\": 12345678901234567890}"}})"
         R"(,{"id":"call_2","type":"function","function":{"name":"g","arguments":""}}]},)"
         R"("finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":20,)"
         R"("prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},)"
         R"("completion_tokens_details":{"reasoning_tokens":5}}})";
}

std::string MessagesStream() {
  return Sse(
      {R"({"type":"message_start","message":{"id":"msg_1","type":"message",)"
       R"("role":"assistant","model":"up","content":[],"usage":{"input_tokens":10,)"
       R"("cache_read_input_tokens":60,"cache_creation_input_tokens":30,"output_tokens":1}}})",
       R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking",)"
       R"("thinking":"","signature":""}})",
       R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta",)"
       R"("thinking":"Hm."}})",
       R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta",)"
       R"("signature":"SIG"}})",
       R"({"type":"content_block_stop","index":0})", R"({"type":"ping"})",
       R"({"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}})",
       R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hé"}})",
       R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" you"}})",
       R"({"type":"content_block_stop","index":1})",
       R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use",)"
       R"("id":"call_1","name":"f","input":{}}})",
       R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta",)"
       R"("partial_json":""}})",
       R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta",)"
       R"("partial_json":"{\"n\": 12345678901234567890}"}})",
       R"({"type":"content_block_stop","index":2})",
       R"({"type":"content_block_start","index":3,"content_block":{"type":"tool_use",)"
       R"("id":"call_2","name":"g","input":{}}})",
       R"({"type":"content_block_stop","index":3})", R"({"type":"something_new","x":{"y":1}})",
       R"({"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},)"
       R"("usage":{"output_tokens":20}})",
       R"({"type":"message_stop"})"});
}

std::string MessagesBody() {
  return R"({"id":"msg_1","type":"message","role":"assistant","model":"up",)"
         R"("content":[{"type":"thinking","thinking":"Hm.","signature":"SIG"},{"type":"text",)"
         R"("text":"Hé you"},{"type":"tool_use","id":"call_1","name":"f",)"
         R"("input":{"n": 12345678901234567890}},{"type":"tool_use","id":"call_2","name":"g",)"
         R"("input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":10,)"
         R"("cache_read_input_tokens":60,"cache_creation_input_tokens":30,"output_tokens":20}})";
}

constexpr std::string_view kResponseOutput =
    R"([{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],)"
    R"("encrypted_content":"ENC"},{"id":"msg_1","type":"message","status":"completed",)"
    R"("role":"assistant","content":[{"type":"output_text","text":"Hé you",)"
    R"("annotations":[]}]},{"id":"fc_1","type":"function_call","call_id":"call_1",)"
    R"("name":"f","arguments":"{\"n\": 12345678901234567890}"},{"id":"fc_2",)"
    R"("type":"function_call","call_id":"call_2","name":"g","arguments":""}])";

std::string ResponsesBody() {
  return R"({"id":"resp_1","object":"response","status":"completed","model":"up","output":)" +
         std::string(kResponseOutput) +
         R"(,"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,)"
         R"("cache_write_tokens":30},"output_tokens":20,)"
         R"("output_tokens_details":{"reasoning_tokens":5}}})";
}

std::string ResponsesStream() {
  const json output = json::parse(kResponseOutput);
  const auto done = [&](size_t index) {
    return json({{"type", "response.output_item.done"}, {"item", output[index]}}).dump();
  };
  return Sse(
      {R"({"type":"response.created","response":{"id":"resp_1","model":"up",)"
       R"("status":"in_progress"}})",
       R"({"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1",)"
       R"("type":"reasoning","summary":[]}})",
       R"({"type":"response.reasoning_summary_part.added","summary_index":0})",
       R"({"type":"response.reasoning_summary_text.delta","delta":"Hm."})", done(0),
       R"({"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1",)"
       R"("type":"message","content":[]}})",
       R"({"type":"response.output_text.delta","item_id":"msg_1","delta":"Hé"})",
       R"({"type":"response.output_text.delta","item_id":"msg_1","delta":" you"})", done(1),
       R"({"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1",)"
       R"("type":"function_call","call_id":"call_1","name":"f","arguments":""}})",
       R"({"type":"response.function_call_arguments.delta","delta":"{\"n\": 123456789"})",
       R"({"type":"response.function_call_arguments.delta","delta":"01234567890}"})",
       R"({"type":"response.function_call_arguments.done",)"
       R"("arguments":"{\"n\": 12345678901234567890}"})",
       done(2),
       R"({"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2",)"
       R"("type":"function_call","call_id":"call_2","name":"g","arguments":""}})",
       done(3),
       json({{"type", "response.completed"}, {"response", json::parse(ResponsesBody())}}).dump()});
}

std::string StreamOf(Dialect dialect) {
  return dialect == kChat       ? ChatStream()
         : dialect == kMessages ? MessagesStream()
                                : ResponsesStream();
}
std::string BodyOf(Dialect dialect) {
  return dialect == kChat ? ChatBody() : dialect == kMessages ? MessagesBody() : ResponsesBody();
}

constexpr std::string_view kArguments = R"({"n": 12345678901234567890})";

void CheckChat(const json& message) {
  EXPECT_EQ(message["content"], "Hé you");
  EXPECT_EQ(message["reasoning_content"], "Hm.");
  ASSERT_EQ(message["tool_calls"].size(), 2);
  EXPECT_EQ(message["tool_calls"][0]["id"], "call_1");
  EXPECT_EQ(message["tool_calls"][0]["type"], "function");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], kArguments);
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], "{}");
}

void CheckMessages(const json& content) {
  ASSERT_EQ(content.size(), 4);
  EXPECT_EQ(content[0]["thinking"], "Hm.");
  EXPECT_EQ(content[1]["text"], "Hé you");
  EXPECT_EQ(content[2]["id"], "call_1");
  EXPECT_EQ(content[3]["input"], json::object());
}

void CheckResponses(const json& output) {
  ASSERT_EQ(output.size(), 4);
  EXPECT_EQ(output[0]["content"][0]["text"], "Hm.");
  EXPECT_EQ(output[1]["content"][0]["text"], "Hé you");
  EXPECT_EQ(output[2]["call_id"], "call_1");
  EXPECT_EQ(output[2]["arguments"], kArguments);
  EXPECT_EQ(output[3]["arguments"], "{}");
}

void CheckChatUsage(const json& usage) {
  EXPECT_EQ(usage["prompt_tokens"], 100);
  EXPECT_EQ(usage["completion_tokens"], 20);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 60);
  EXPECT_EQ(usage["prompt_tokens_details"]["cache_write_tokens"], 30);
}
void CheckMessagesUsage(const json& usage) {
  EXPECT_EQ(usage["input_tokens"], 10);
  EXPECT_EQ(usage["cache_read_input_tokens"], 60);
  EXPECT_EQ(usage["cache_creation_input_tokens"], 30);
  EXPECT_EQ(usage["cache_creation"]["ephemeral_5m_input_tokens"], 30);
  EXPECT_EQ(usage["output_tokens"], 20);
}
void CheckResponsesUsage(const json& usage) {
  EXPECT_EQ(usage["input_tokens"], 100);
  EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], 60);
  EXPECT_EQ(usage["input_tokens_details"]["cache_write_tokens"], 30);
  EXPECT_EQ(usage["output_tokens"], 20);
}

void CheckBody(Dialect to, const std::string& bytes) {
  const json body = json::parse(bytes);
  EXPECT_EQ(body["model"], "up");
  if (to == kChat) {
    CheckChat(body["choices"][0]["message"]);
    EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
    CheckChatUsage(body["usage"]);
  } else if (to == kMessages) {
    CheckMessages(body["content"]);
    EXPECT_EQ(body["stop_reason"], "tool_use");
    EXPECT_THAT(bytes, HasSubstr(std::string("\"input\":") + std::string(kArguments)));
    CheckMessagesUsage(body["usage"]);
  } else {
    CheckResponses(body["output"]);
    EXPECT_EQ(body["status"], "completed");
    CheckResponsesUsage(body["usage"]);
  }
}

TEST(ReplyTranslatorTest, A1WholeAnswersInAllPairs) {
  for (const Dialect from : kAll) {
    for (const Dialect to : kAll) {
      if (from == to) continue;
      const Told told =
          Translate({.from = from, .to = to, .events = false, .stream = false}, BodyOf(from));
      EXPECT_EQ(told.end, End::kWhole);
      CheckBody(to, told.bytes);
      // An upstream may send events although it was asked for one body.
      const Told collected =
          Translate({.from = from, .to = to, .events = true, .stream = false}, StreamOf(from));
      EXPECT_EQ(collected.end, End::kWhole);
      CheckBody(to, collected.bytes);
    }
  }
}

// Returns the message that a client assembles from a stream of chunks.
json Collected(const std::vector<json>& events) {
  json message = {{"content", ""}, {"reasoning_content", ""}, {"tool_calls", json::array()}};
  for (const json& event : events) {
    if (!event.is_object() || event["choices"].empty()) continue;
    const json& delta = event["choices"][0]["delta"];
    for (const char* name : {"content", "reasoning_content"}) {
      if (delta.contains(name)) {
        message[name] = message[name].get<std::string>() + delta[name].get<std::string>();
      }
    }
    if (!delta.contains("tool_calls")) continue;
    const json& call = delta["tool_calls"][0];
    const size_t index = call["index"];
    if (index >= message["tool_calls"].size()) {
      message["tool_calls"].push_back(call);
      continue;
    }
    json& function = message["tool_calls"][index]["function"];
    function["arguments"] =
        function["arguments"].get<std::string>() + call["function"]["arguments"].get<std::string>();
  }
  return message;
}

TEST(ReplyTranslatorTest, A3StreamsToChatCompletions) {
  for (const Dialect from : {kMessages, kResponses}) {
    for (const bool events : {true, false}) {
      const Told told = Translate({.from = from, .to = kChat, .events = events},
                                  events ? StreamOf(from) : BodyOf(from));
      EXPECT_EQ(told.end, End::kWhole);
      const std::vector<json> sent = Events(told.bytes);
      CheckChat(Collected(sent));
      EXPECT_EQ(sent.front()["choices"][0]["delta"]["role"], "assistant");
      EXPECT_EQ(sent.back(), "[DONE]");
      EXPECT_EQ(sent[sent.size() - 3]["choices"][0]["finish_reason"], "tool_calls");
      CheckChatUsage(sent[sent.size() - 2]["usage"]);
    }
  }
}

TEST(ReplyTranslatorTest, A3StreamsToMessages) {
  for (const Dialect from : {kChat, kResponses}) {
    const Told told = Translate({.from = from, .to = kMessages}, StreamOf(from));
    EXPECT_EQ(told.end, End::kWhole);
    const std::vector<json> sent = Events(told.bytes);
    EXPECT_EQ(sent.front()["type"], "message_start");
    // All keys are there, although no count is known yet (litellm#24176).
    const json& first = sent.front()["message"]["usage"];
    EXPECT_EQ(first["input_tokens"], 0);
    EXPECT_EQ(first["cache_creation"]["ephemeral_1h_input_tokens"], 0);
    EXPECT_EQ(sent.front()["message"]["model"], "up");
    EXPECT_EQ(sent.back()["type"], "message_stop");
    const json& last = sent[sent.size() - 2];
    EXPECT_EQ(last["delta"]["stop_reason"], "tool_use");
    CheckMessagesUsage(last["usage"]);
    int index = -1;
    std::vector<std::string> texts;
    for (const json& event : sent) {
      if (event["type"] == "content_block_start") {
        EXPECT_EQ(event["index"], ++index);
        texts.emplace_back();
      }
      if (event["type"] == "content_block_delta") {
        EXPECT_EQ(event["index"], index);
        for (const char* name : {"text", "thinking", "partial_json"}) {
          if (event["delta"].contains(name))
            texts.back() += event["delta"][name].get<std::string>();
        }
      }
    }
    EXPECT_THAT(texts, testing::ElementsAre("Hm.", "Hé you", kArguments, "{}"));
  }
}

TEST(ReplyTranslatorTest, A3StreamsToResponses) {
  for (const Dialect from : {kChat, kMessages}) {
    const Told told = Translate({.from = from, .to = kResponses}, StreamOf(from));
    EXPECT_EQ(told.end, End::kWhole);
    const std::vector<json> sent = Events(told.bytes);
    std::vector<std::string> ids;
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(sent[i]["sequence_number"], i);
      if (sent[i]["type"] == "response.output_item.done") ids.push_back(sent[i]["item"]["id"]);
    }
    EXPECT_EQ(sent.front()["type"], "response.created");
    const json& last = sent.back();
    EXPECT_EQ(last["type"], "response.completed");
    CheckResponses(last["response"]["output"]);
    CheckResponsesUsage(last["response"]["usage"]);
    ASSERT_EQ(ids.size(), 4);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(last["response"]["output"][i]["id"], ids[i]);
  }
}

TEST(ReplyTranslatorTest, WhereverAStreamIsDividedTheOutputIsTheSame) {
  for (const Dialect from : kAll) {
    const std::string bytes = StreamOf(from);
    for (const Dialect to : kAll) {
      if (from == to) continue;
      const std::string whole = Translate({.from = from, .to = to}, bytes).bytes;
      for (size_t at = 1; at < bytes.size(); ++at) {
        const Told told =
            Translate({.from = from, .to = to}, {bytes.substr(0, at), bytes.substr(at)});
        ASSERT_EQ(told.bytes, whole) << at;
      }
      std::vector<std::string> single;
      for (const char byte : bytes) single.emplace_back(1, byte);
      EXPECT_EQ(Translate({.from = from, .to = to}, single).bytes, whole);
    }
  }
}

TEST(ReplyTranslatorTest, AStreamThatBreaksOffHasNoEnd) {
  for (const Dialect from : kAll) {
    const std::string bytes = StreamOf(from);
    for (const Dialect to : kAll) {
      if (from == to) continue;
      for (size_t at = 0; at < bytes.size(); at += 7) {
        const Told told = Translate({.from = from, .to = to}, bytes.substr(0, at));
        if (told.end == End::kWhole) {
          // In Chat Completions, the finish reason is the end.
          EXPECT_EQ(from, kChat);
          EXPECT_GT(at, bytes.find(R"("finish_reason":"tool_calls")"));
          continue;
        }
        EXPECT_EQ(told.end, End::kCut);
        EXPECT_THAT(told.bytes, Not(HasSubstr("[DONE]")));
        EXPECT_THAT(told.bytes, Not(HasSubstr("message_stop")));
        EXPECT_THAT(told.bytes, Not(HasSubstr("response.completed")));
        EXPECT_EQ(told.error.code, ErrorCode::kUnavailable);
      }
    }
  }
}

// --- how answers end ----------------------------------------------------------------------------

TEST(ReplyTranslatorTest, ReasonsOfTheEnd) {
  const auto messages = [](const std::string& reason) {
    return R"({"model":"m","content":[{"type":"text","text":"x"}],"stop_reason":")" + reason +
           R"(","stop_sequence":"END","usage":{"input_tokens":1,"output_tokens":1}})";
  };
  const auto to_chat = [&](const std::string& reason) -> std::string {
    const Told told = Translate({.from = kMessages, .to = kChat, .events = false, .stream = false},
                                messages(reason));
    return json::parse(told.bytes)["choices"][0]["finish_reason"];
  };
  EXPECT_EQ(to_chat("end_turn"), "stop");
  EXPECT_EQ(to_chat("stop_sequence"), "stop");
  EXPECT_EQ(to_chat("max_tokens"), "length");
  EXPECT_EQ(to_chat("model_context_window_exceeded"), "length");
  EXPECT_EQ(to_chat("refusal"), "content_filter");
  EXPECT_EQ(to_chat("pause_turn"), "stop");

  const auto to_messages = [](const std::string& reason) -> json {
    return json::parse(
        Translate({.from = kChat, .to = kMessages, .events = false, .stream = false},
                  R"({"choices":[{"message":{"content":"x"},"finish_reason":")" + reason + "\"}]}")
            .bytes);
  };
  EXPECT_EQ(to_messages("stop")["stop_reason"], "end_turn");
  EXPECT_EQ(to_messages("length")["stop_reason"], "max_tokens");
  EXPECT_EQ(to_messages("content_filter")["stop_reason"], "refusal");
  EXPECT_EQ(to_messages("stop")["model"], "asked");

  const json cut =
      json::parse(Translate({.from = kMessages, .to = kResponses, .events = false, .stream = false},
                            messages("max_tokens"))
                      .bytes);
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
  const json refused =
      json::parse(Translate({.from = kMessages, .to = kResponses, .events = false, .stream = false},
                            messages("refusal"))
                      .bytes);
  EXPECT_EQ(refused["incomplete_details"]["reason"], "content_filter");
}

TEST(ReplyTranslatorTest, ARefusalIsToldAsTextAndAsTheReason) {
  const json made = json::parse(
      Translate(
          {.from = kChat, .to = kMessages, .events = false, .stream = false},
          R"({"choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]})")
          .bytes);
  EXPECT_EQ(made["content"][0]["text"], "No.");
  EXPECT_EQ(made["stop_reason"], "refusal");
}

TEST(ReplyTranslatorTest, A3CountsMayComeInAnyEvent) {
  const std::string stream =
      Sse({R"({"type":"message_start","message":{"model":"m","usage":{"input_tokens":3,)"
           R"("cache_read_input_tokens":7}}})",
           R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},)"
           R"("usage":{"input_tokens":0,"cache_creation_input_tokens":12304,)"
           R"("output_tokens":550}})",
           R"({"type":"message_stop"})"});
  const std::vector<json> sent = Events(Translate({.from = kMessages, .to = kChat}, stream).bytes);
  const json& usage = sent[sent.size() - 2]["usage"];
  EXPECT_EQ(usage["prompt_tokens"], 3 + 7 + 12304);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 7);
  EXPECT_EQ(usage["prompt_tokens_details"]["cache_write_tokens"], 12304);
}

TEST(ReplyTranslatorTest, A1PartsAreNeverMoreThanTheWhole) {
  const json made = json::parse(
      Translate({.from = kChat, .to = kMessages, .events = false, .stream = false},
                R"({"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],)"
                R"("usage":{"prompt_tokens":10,"completion_tokens":1,)"
                R"("prompt_tokens_details":{"cached_tokens":50,"cache_write_tokens":9}}})")
          .bytes);
  EXPECT_EQ(made["usage"]["input_tokens"], 0);
  EXPECT_EQ(made["usage"]["cache_read_input_tokens"], 10);
  EXPECT_EQ(made["usage"]["cache_creation_input_tokens"], 0);
}

// --- reasoning ----------------------------------------------------------------------------------

TEST(ReplyTranslatorTest, WhatAProviderWantsBackIsSealedForTheClient) {
  const json responses =
      json::parse(Translate({.from = kMessages, .to = kResponses, .events = false, .stream = false},
                            MessagesBody())
                      .bytes);
  EXPECT_EQ(responses["output"][0]["encrypted_content"], "kvgate-thinking:SIG:Hm.");
  const json messages =
      json::parse(Translate({.from = kResponses, .to = kMessages, .events = false, .stream = false},
                            ResponsesBody())
                      .bytes);
  EXPECT_EQ(messages["content"][0]["signature"], "kvgate-item:rs_1:ENC");
  const std::string streamed =
      Translate({.from = kResponses, .to = kMessages}, ResponsesStream()).bytes;
  EXPECT_THAT(streamed,
              HasSubstr(R"("type":"signature_delta","signature":"kvgate-item:rs_1:ENC")"));
}

TEST(ReplyTranslatorTest, ReasoningWithoutTextIsARedactedBlock) {
  const std::string body =
      R"({"status":"completed","output":[{"id":"rs_1","type":"reasoning","summary":[],)"
      R"("encrypted_content":"E"},)"
      R"({"type":"message","content":[{"type":"output_text","text":"x"}]}]})";
  const json whole = json::parse(
      Translate({.from = kResponses, .to = kMessages, .events = false, .stream = false}, body)
          .bytes);
  EXPECT_EQ(whole["content"][0],
            json::parse(R"({"type":"redacted_thinking","data":"kvgate-item:rs_1:E"})"));
  const std::vector<json> sent =
      Events(Translate({.from = kResponses, .to = kMessages, .events = false}, body).bytes);
  EXPECT_EQ(sent[1]["content_block"]["type"], "redacted_thinking");
  EXPECT_EQ(sent[2]["type"], "content_block_stop");
  EXPECT_EQ(sent[3]["index"], 1);
}

// --- errors -------------------------------------------------------------------------------------

TEST(ReplyTranslatorTest, AnErrorAmongEventsIsInTheClientsDialect) {
  const std::string begun =
      Sse({R"({"type":"message_start","message":{"model":"m","usage":{}}})",
           R"({"type":"error","error":{"type":"overloaded_error","message":"Busy"}})"});
  const Told chat = Translate({.from = kMessages, .to = kChat}, begun);
  EXPECT_EQ(chat.end, End::kFailed);
  const json error = Events(chat.bytes).back()["error"];
  EXPECT_EQ(error["message"], "Busy");
  EXPECT_EQ(error["code"], "overloaded");
  EXPECT_THAT(chat.bytes, Not(HasSubstr("[DONE]")));
  const std::vector<json> responses =
      Events(Translate({.from = kMessages, .to = kResponses}, begun).bytes);
  EXPECT_EQ(responses.back()["type"], "response.failed");
  EXPECT_EQ(responses[responses.size() - 2]["type"], "error");

  const std::string openai =
      Sse({R"({"choices":[{"index":0,"delta":{"content":"x"}}]})",
           R"({"error":{"message":"Too many","type":"requests","code":"rate_limit_exceeded"}})"});
  const Told messages = Translate({.from = kChat, .to = kMessages}, openai);
  EXPECT_EQ(messages.end, End::kFailed);
  EXPECT_THAT(messages.bytes, HasSubstr("event: error\n"));
  EXPECT_EQ(Events(messages.bytes).back()["error"]["type"], "rate_limit_error");
  EXPECT_EQ(messages.error.code, ErrorCode::kRateLimited);

  const std::string failed = Sse({R"({"type":"response.created","response":{"model":"m"}})",
                                  R"({"type":"response.failed","response":{"status":"failed",)"
                                  R"("error":{"code":"server_error","message":"Oh"}}})"});
  EXPECT_EQ(Events(Translate({.from = kResponses, .to = kMessages}, failed).bytes)
                .back()["error"]["message"],
            "Oh");
}

TEST(ReplyTranslatorTest, WhatIsNotJsonIsAnErrorOfTheUpstream) {
  for (const Dialect from : kAll) {
    const Dialect to = from == kChat ? kMessages : kChat;
    const Told stream = Translate({.from = from, .to = to}, "data: {\"oops\n\n");
    EXPECT_EQ(stream.end, End::kFailed);
    EXPECT_THAT(stream.bytes, HasSubstr("not JSON"));
    const Told whole =
        Translate({.from = from, .to = to, .events = false, .stream = false}, "<html>");
    EXPECT_EQ(whole.end, End::kFailed);
    EXPECT_EQ(whole.bytes, "");
    const Told other = Translate({.from = from, .to = to, .events = false, .stream = false}, "{}");
    EXPECT_EQ(other.end, End::kFailed);
  }
}

TEST(ReplyTranslatorTest, AnAnswerIsBounded) {
  auto translator = ReplyTranslator::Make({.from = kChat,
                                           .events = true,
                                           .reply = {.dialect = kMessages, .stream = true},
                                           .event_bytes_max = 1000,
                                           .answer_bytes_max = 100});
  std::string out;
  for (int i = 0; i < 20; ++i) {
    translator->Feed("data: {\"choices\":[{\"delta\":{\"content\":\"0123456789\"}}]}\n\n", out);
  }
  EXPECT_EQ(translator->Finish(out), End::kFailed);
  EXPECT_THAT(out, HasSubstr("too long"));

  auto endless = ReplyTranslator::Make({.from = kChat,
                                        .events = true,
                                        .reply = {.dialect = kMessages, .stream = true},
                                        .event_bytes_max = 1000});
  endless->Feed("data: {\"a\":\"" + std::string(2000, 'x'), out);
  EXPECT_EQ(endless->Finish(out), End::kFailed);
}

TEST(ReplyTranslatorTest, CallsWithoutAnIdOrAnIndexAreUnderstood) {
  const json made = json::parse(
      Translate(
          {.from = kChat, .to = kMessages, .events = true, .stream = false},
          Sse({R"({"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a",)"
               R"("function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g",)"
               R"("arguments":"{}"}}]},"finish_reason":"stop"}]})",
               "[DONE]"}))
          .bytes);
  ASSERT_EQ(made["content"].size(), 2);
  EXPECT_EQ(made["content"][1]["id"], "b");
  EXPECT_EQ(made["stop_reason"], "tool_use");
  const json without = json::parse(
      Translate({.from = kChat, .to = kMessages, .events = false, .stream = false},
                R"({"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{})"
                R"("}}]}}]})")
          .bytes);
  EXPECT_EQ(without["content"].size(), 1);
}

TEST(ReplyTranslatorTest, APingIsPassedOn) {
  const std::string stream =
      Sse({R"({"type":"message_start","message":{"model":"m"}})", R"({"type":"ping"})"});
  EXPECT_THAT(Translate({.from = kMessages, .to = kChat}, stream).bytes, HasSubstr(": ping\n\n"));
}

TEST(ReplyTranslatorTest, CallsOfCustomToolsComeBackAsTheirInput) {
  const std::vector<dialect::form::Tool> tools = {
      {.name = "functions__exec", .is_custom = true, .space = "functions"}};
  auto translator = ReplyTranslator::Make({.from = kMessages,
                                           .events = false,
                                           .reply = {.dialect = kResponses, .request_id = "7"},
                                           .tools = tools});
  std::string out;
  translator->Feed(
      R"({"model":"m","role":"assistant","type":"message","content":[{"type":"tool_use",)"
      R"("id":"c1","name":"functions__exec","input":{"input":"say \"hi\"\n"}}],)"
      R"("stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}})",
      out);
  ASSERT_EQ(translator->Finish(out), End::kWhole);
  const json item = json::parse(out)["output"][0];
  EXPECT_EQ(item["type"], "custom_tool_call");
  EXPECT_EQ(item["name"], "exec");
  EXPECT_EQ(item["namespace"], "functions");
  EXPECT_EQ(item["input"], "say \"hi\"\n");
}

}  // namespace
}  // namespace kvgate::dialect
