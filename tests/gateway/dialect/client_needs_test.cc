// These tests list the fields without which real clients break: each row was found by taking one
// field or event out of a right reply. An answer with reasoning, text and two calls has all of
// them, in every place where they are read.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "gateway/dialect/reply/reply_encoder.h"

namespace kvgate::dialect {

using form::DeltaKind;
using form::Dialect;

namespace {

using Json = nlohmann::json;

std::vector<form::DeltaEvent> Deltas() {
  const auto delta = [](DeltaKind kind, const char* text, int call = 0) {
    form::DeltaEvent event{.kind = kind, .text = text, .call = call};
    if (kind == DeltaKind::kCall) event.call_id = call == 0 ? "call_a" : "call_b";
    return event;
  };
  return {delta(DeltaKind::kReasoning, "why"),     delta(DeltaKind::kText, "so "),
          delta(DeltaKind::kText, "it is"),        delta(DeltaKind::kCall, "look"),
          delta(DeltaKind::kArguments, "{\"a\":"), delta(DeltaKind::kArguments, "1}"),
          delta(DeltaKind::kCallEnd, ""),          delta(DeltaKind::kCall, "stop", 1),
          delta(DeltaKind::kArguments, "{}", 1),   delta(DeltaKind::kCallEnd, "", 1)};
}

std::string Encode(Dialect dialect, bool stream) {
  const auto encoder = MakeReplyEncoder({.dialect = dialect,
                                         .request_id = "1",
                                         .created_unix = 7,
                                         .model = "m",
                                         .stream = stream,
                                         .include_usage = true});
  std::string out;
  encoder->OnStart({.num_prompt_tokens = 5}, out);
  for (const form::DeltaEvent& event : Deltas()) encoder->OnDelta(event, out);
  encoder->OnFinish({.reason = form::FinishReason::kToolCalls,
                     .stats = {.num_prompt_tokens = 5,
                               .num_output_tokens = 9,
                               .num_cached_tokens = 2,
                               .num_reasoning_tokens = 3}},
                    out);
  return out;
}

struct Event {
  std::string name;  // from its "event:" line
  Json data;
};

std::vector<Event> EventsOf(const std::string& stream) {
  std::vector<Event> events;
  std::istringstream lines(stream);
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("event: ")) name = line.substr(7);
    if (!line.starts_with("data: ") || line == "data: [DONE]") continue;
    events.push_back({name, Json::parse(line.substr(6))});
    name.clear();
  }
  return events;
}

// Expects a value that is not null and, for a text that must say something, not empty.
void ExpectAt(const Json& json, const std::string& pointer) {
  const Json::json_pointer at(pointer);
  ASSERT_TRUE(json.contains(at)) << pointer << " in " << json.dump();
  EXPECT_FALSE(json.at(at).is_null()) << pointer << " in " << json.dump();
}

TEST(ClientNeedsTest, AChatReply) {
  const Json reply = Json::parse(Encode(Dialect::kChatCompletions, false));
  for (const char* pointer :
       {"/id", "/object", "/created", "/model", "/choices/0/index", "/choices/0/message/role",
        "/choices/0/message/content", "/choices/0/message/reasoning_content",
        "/choices/0/message/tool_calls/0/id", "/choices/0/message/tool_calls/0/type",
        "/choices/0/message/tool_calls/1/id", "/choices/0/message/tool_calls/1/type",
        "/choices/0/message/tool_calls/1/function/name", "/choices/0/finish_reason",
        "/usage/prompt_tokens", "/usage/completion_tokens", "/usage/total_tokens",
        "/usage/prompt_tokens_details/cached_tokens",
        "/usage/completion_tokens_details/reasoning_tokens"}) {
    ExpectAt(reply, pointer);
  }
  const Json& message = reply["choices"][0]["message"];
  EXPECT_TRUE(message["tool_calls"][0]["function"]["arguments"].is_string());
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "tool_calls");
}

TEST(ClientNeedsTest, AChatStream) {
  const std::string stream = Encode(Dialect::kChatCompletions, true);
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n"));
  const std::vector<Event> events = EventsOf(stream);
  std::set<int> begun;
  std::string finish;
  for (size_t i = 0; i < events.size(); ++i) {
    const Json& chunk = events[i].data;
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_FALSE(chunk.contains("error"));
    ASSERT_TRUE(chunk["choices"].is_array());  // also in the chunk with the usage
    if (i + 1 == events.size()) {
      EXPECT_TRUE(chunk["choices"].empty());
      ExpectAt(chunk, "/usage/prompt_tokens_details/cached_tokens");
      continue;
    }
    const Json& choice = chunk["choices"][0];
    EXPECT_EQ(choice["index"], 0);
    ASSERT_TRUE(choice["delta"].is_object());
    ASSERT_TRUE(choice.contains("finish_reason"));
    if (i == 0) {
      EXPECT_EQ(choice["delta"]["role"], "assistant");
    }
    if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
    if (!choice["delta"].contains("tool_calls")) continue;
    const Json& call = choice["delta"]["tool_calls"][0];
    ASSERT_TRUE(call["index"].is_number());
    EXPECT_TRUE(call["function"]["arguments"].is_string());
    if (!begun.insert(call["index"].get<int>()).second) continue;
    EXPECT_EQ(call["type"], "function");
    EXPECT_FALSE(call["id"].get<std::string>().empty());
    EXPECT_FALSE(call["function"]["name"].get<std::string>().empty());
  }
  EXPECT_EQ(begun, (std::set<int>{0, 1}));
  EXPECT_EQ(finish, "tool_calls");
}

TEST(ClientNeedsTest, AMessage) {
  const Json reply = Json::parse(Encode(Dialect::kMessages, false));
  for (const char* pointer :
       {"/id", "/type", "/role", "/model", "/stop_reason", "/usage/input_tokens",
        "/usage/output_tokens", "/usage/cache_read_input_tokens",
        "/usage/cache_creation_input_tokens", "/content/0/type", "/content/0/thinking",
        "/content/0/signature", "/content/1/text", "/content/2/id", "/content/2/name",
        "/content/2/input", "/content/3/input"}) {
    ExpectAt(reply, pointer);
  }
  EXPECT_TRUE(reply.contains("stop_sequence"));
  EXPECT_EQ(reply["content"][2]["input"], Json({{"a", 1}}));
  EXPECT_EQ(reply["content"][3]["input"], Json::object());
  EXPECT_EQ(reply["stop_reason"], "tool_use");
}

TEST(ClientNeedsTest, AMessageStream) {
  const std::vector<Event> events = EventsOf(Encode(Dialect::kMessages, true));
  ASSERT_GT(events.size(), 4u);
  for (const Event& event : events) EXPECT_EQ(event.name, event.data["type"]);
  const Json& message = events.front().data["message"];
  EXPECT_EQ(events.front().name, "message_start");
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["content"], Json::array());
  EXPECT_LE(message["usage"]["output_tokens"], 1);  // LangChain adds it to the last one
  EXPECT_EQ(events.back().name, "message_stop");
  const Json& last = events[events.size() - 2].data;
  EXPECT_EQ(last["type"], "message_delta");
  EXPECT_EQ(last["delta"]["stop_reason"], "tool_use");
  EXPECT_TRUE(last["delta"].contains("stop_sequence"));
  EXPECT_EQ(last["usage"]["output_tokens"], 9);
  int open = -1;
  int next = 0;
  for (const auto& [name, data] : events) {
    if (!name.starts_with("content_block")) continue;
    ASSERT_TRUE(data["index"].is_number());
    if (name == "content_block_start") {
      EXPECT_EQ(open, -1);
      open = data["index"];
      EXPECT_EQ(open, next++);
      const Json& block = data["content_block"];
      const std::string type = block["type"];
      if (type == "text") {
        EXPECT_EQ(block["text"], "");
      }
      if (type == "tool_use") {
        ExpectAt(block, "/id");
        ExpectAt(block, "/name");
        EXPECT_EQ(block["input"], Json::object());  // inputs come in deltas alone
      }
    } else {
      EXPECT_EQ(data["index"], open);
      if (name == "content_block_delta") {
        ExpectAt(data, "/delta/type");
      } else {
        open = -1;
      }
    }
  }
  EXPECT_EQ(open, -1);
  EXPECT_EQ(next, 4);
}

}  // namespace
}  // namespace kvgate::dialect
