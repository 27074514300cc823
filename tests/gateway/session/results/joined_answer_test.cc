#include "gateway/session/results/joined_answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvgate::session::results {
namespace {

using Json = nlohmann::json;

const std::string kArguments = R"({"id":"res_1"})";

// The data of a stream's events, "[DONE]" left out.
std::vector<Json> EventsOf(const std::string& stream) {
  std::vector<Json> events;
  answer::EventCutter cutter;
  cutter.Add(stream);
  while (const auto event = cutter.Next()) {
    const std::string data = answer::DataOf(*event);
    if (data != "[DONE]") events.push_back(Json::parse(data));
  }
  return events;
}

std::string Event(const Json& data, bool is_named) {
  const std::string name = is_named ? "event: " + data["type"].get<std::string>() + "\n" : "";
  return name + "data: " + data.dump() + "\n\n";
}

std::string Chunk(const Json& delta, const Json& finish = nullptr) {
  return Event(
      {{"id", "first"},
       {"object", "chat.completion.chunk"},
       {"choices", Json::array({{{"index", 0}, {"delta", delta}, {"finish_reason", finish}}})}},
      false);
}
std::string Usage(int input, int output) {
  return Event({{"id", "first"},
                {"choices", Json::array()},
                {"usage",
                 {{"prompt_tokens", input},
                  {"completion_tokens", output},
                  {"prompt_tokens_details", {{"cached_tokens", input - 1}}}}}},
               false) +
         "data: [DONE]\n\n";
}
Json CallDelta(int index, const std::string& id, const std::string& name) {
  return {{"tool_calls", Json::array({{{"index", index},
                                       {"id", id},
                                       {"type", "function"},
                                       {"function", {{"name", name}, {"arguments", ""}}}}})}};
}
Json ArgumentsDelta(int index, const std::string& text) {
  return {{"tool_calls", Json::array({{{"index", index}, {"function", {{"arguments", text}}}}})}};
}

// Feeds a stream in pieces of this size.
std::string Feed(JoinedAnswer& joined, const std::string& stream, size_t piece) {
  std::string out;
  for (size_t at = 0; at < stream.size(); at += piece)
    out += joined.TakePiece(stream.substr(at, piece));
  return out;
}

TEST(JoinedAnswerTest, AnAnswerWithoutReadsIsTheSame) {
  JoinedAnswer joined(Dialect::kChatCompletions);
  const std::string stream = Chunk({{"role", "assistant"}, {"content", ""}}) +
                             Chunk({{"content", "Hi"}}) + Chunk(CallDelta(0, "c", "f")) +
                             Chunk(Json::object(), "tool_calls") + Usage(5, 2);
  std::string out = Feed(joined, stream, 7);
  const auto round = joined.EndRound();
  ASSERT_TRUE(round);
  EXPECT_TRUE(round->reads.empty());
  EXPECT_FALSE(round->goes_on);
  out += joined.Finish(false);
  EXPECT_EQ(EventsOf(out), EventsOf(stream));
  EXPECT_TRUE(out.ends_with("data: [DONE]\n\n"));
}

TEST(JoinedAnswerTest, ChatGoesOnInOneStream) {
  JoinedAnswer joined(Dialect::kChatCompletions);
  std::string out = Feed(joined,
                         Chunk({{"role", "assistant"}, {"content", "I look. "}}) +
                             Chunk(CallDelta(0, "r1", std::string(kReadTool))) +
                             Chunk(ArgumentsDelta(0, kArguments)) +
                             Chunk(Json::object(), "tool_calls") + Usage(100, 10),
                         11);
  auto round = joined.EndRound();
  ASSERT_TRUE(round);
  EXPECT_TRUE(round->goes_on);
  ASSERT_EQ(round->reads.size(), 1u);
  EXPECT_EQ(round->reads[0].arguments, kArguments);
  EXPECT_EQ(round->said.messages.size(), 1u);
  EXPECT_EQ(round->said.tokens.input, 100);
  joined.BeginRound();
  std::string second = Chunk({{"role", "assistant"}, {"content", ""}}) +
                       Chunk({{"content", "It says 7."}}) + Chunk(CallDelta(0, "c2", "own")) +
                       Chunk(CallDelta(1, "r2", std::string(kReadTool))) +
                       Chunk(ArgumentsDelta(1, kArguments)) + Chunk(CallDelta(2, "c3", "own")) +
                       Chunk(Json::object(), "tool_calls") + Usage(120, 5);
  for (size_t at = second.find("first"); at != std::string::npos; at = second.find("first", at)) {
    second.replace(at, 5, "other");
  }
  out += Feed(joined, second, 13);
  round = joined.EndRound();
  ASSERT_TRUE(round);
  EXPECT_FALSE(round->goes_on);
  EXPECT_EQ(round->reads.size(), 1u);
  out += joined.Finish(false);
  std::string text;
  std::vector<std::string> calls;
  Json usage;
  int num_roles = 0;
  for (const Json& event : EventsOf(out)) {
    EXPECT_EQ(event["id"], "first");
    EXPECT_EQ(event.dump().find(kReadTool), std::string::npos);
    if (event.contains("usage")) usage = event["usage"];
    for (const Json& choice : event["choices"]) {
      const Json& delta = choice["delta"];
      num_roles += static_cast<int>(delta.count("role"));
      text += delta.value("content", "");
      if (!delta.contains("tool_calls")) continue;
      for (const Json& call : delta["tool_calls"]) {
        EXPECT_EQ(call["index"], calls.size());
        calls.push_back(call["id"]);
      }
    }
  }
  EXPECT_EQ(num_roles, 1);
  EXPECT_EQ(text, "I look. It says 7.");
  EXPECT_EQ(calls, (std::vector<std::string>{"c2", "c3"}));
  EXPECT_EQ(usage["prompt_tokens"], 220);
  EXPECT_EQ(usage["completion_tokens"], 15);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 218);
}

TEST(JoinedAnswerTest, ARoundTooManyEndsTheAnswer) {
  JoinedAnswer joined(Dialect::kChatCompletions);
  std::string out = Feed(joined,
                         Chunk({{"role", "assistant"}, {"content", "So far."}}) +
                             Chunk(CallDelta(0, "r1", std::string(kReadTool))) +
                             Chunk(Json::object(), "tool_calls") + Usage(100, 10),
                         64);
  ASSERT_TRUE(joined.EndRound());
  out += joined.Finish(true);
  const std::vector<Json> events = EventsOf(out);
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(out.find("tool_calls"), std::string::npos);
}

TEST(JoinedAnswerTest, AStreamThatBreaksOffIsNoRound) {
  JoinedAnswer joined(Dialect::kChatCompletions);
  Feed(joined, Chunk({{"role", "assistant"}, {"content", "I"}}), 64);
  EXPECT_FALSE(joined.EndRound());
}

Json ChatBody(const std::string& id, const Json& message, int input) {
  return {
      {"id", id},
      {"choices", Json::array({{{"index", 0}, {"message", message}, {"finish_reason", "stop"}}})},
      {"usage", {{"prompt_tokens", input}, {"completion_tokens", 1}}}};
}

TEST(JoinedAnswerTest, BodiesOfChatBecomeOne) {
  JoinedAnswer joined(Dialect::kChatCompletions);
  const Json call = {{"id", "r"},
                     {"type", "function"},
                     {"function", {{"name", kReadTool}, {"arguments", kArguments}}}};
  joined.TakeBody(
      ChatBody(
          "first",
          {{"role", "assistant"}, {"content", "I look. "}, {"tool_calls", Json::array({call})}}, 10)
          .dump());
  ASSERT_TRUE(joined.EndRound()->goes_on);
  joined.BeginRound();
  joined.TakeBody(
      ChatBody("second", {{"role", "assistant"}, {"content", "It says 7."}}, 20).dump());
  ASSERT_TRUE(joined.EndRound());
  const Json body = Json::parse(joined.Finish(false));
  EXPECT_EQ(body["id"], "first");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "I look. It says 7.");
  EXPECT_FALSE(body["choices"][0]["message"].contains("tool_calls"));
  EXPECT_EQ(body["usage"]["prompt_tokens"], 30);
}

std::string MessagesStream(const std::string& id, const std::vector<Json>& blocks,
                           const std::string& reason, int input, int output) {
  std::string out = Event({{"type", "message_start"},
                           {"message",
                            {{"id", id},
                             {"type", "message"},
                             {"role", "assistant"},
                             {"content", Json::array()},
                             {"usage", {{"input_tokens", input}, {"output_tokens", 1}}}}}},
                          true);
  for (size_t i = 0; i < blocks.size(); ++i) {
    Json begin = blocks[i];
    const bool is_text = begin["type"] == "text";
    const Json delta =
        is_text ? Json{{"type", "text_delta"}, {"text", begin["text"]}}
                : Json{{"type", "input_json_delta"}, {"partial_json", begin["input"].dump()}};
    if (is_text) {
      begin["text"] = "";
    } else {
      begin["input"] = Json::object();
    }
    out += Event({{"type", "content_block_start"}, {"index", i}, {"content_block", begin}}, true);
    out += Event({{"type", "content_block_delta"}, {"index", i}, {"delta", delta}}, true);
    out += Event({{"type", "content_block_stop"}, {"index", i}}, true);
  }
  out += Event({{"type", "message_delta"},
                {"delta", {{"stop_reason", reason}}},
                {"usage", {{"output_tokens", output}}}},
               true);
  return out + Event({{"type", "message_stop"}}, true);
}
Json Text(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
Json Use(const std::string& id, std::string_view name) {
  return {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", {{"id", "res_1"}}}};
}

TEST(JoinedAnswerTest, MessagesGoOnInOneStream) {
  JoinedAnswer joined(Dialect::kMessages);
  std::string out =
      Feed(joined,
           MessagesStream("msg_1", {Text("I look."), Use("r", kReadTool)}, "tool_use", 100, 9), 17);
  auto round = joined.EndRound();
  ASSERT_TRUE(round);
  EXPECT_TRUE(round->goes_on);
  EXPECT_EQ(round->reads[0].arguments, kArguments);
  joined.BeginRound();
  out += Feed(joined,
              MessagesStream("msg_2", {Use("r2", kReadTool), Text("It says 7."), Use("c", "own")},
                             "tool_use", 130, 6),
              19);
  round = joined.EndRound();
  ASSERT_TRUE(round);
  EXPECT_FALSE(round->goes_on);
  out += joined.Finish(false);
  std::vector<std::string> kinds;
  int num_starts = 0;
  for (const Json& event : EventsOf(out)) {
    num_starts += event["type"] == "message_start";
    if (event["type"] == "content_block_start") {
      EXPECT_EQ(event["index"], kinds.size());
      kinds.push_back(event["content_block"]["type"]);
    }
    if (event["type"] == "message_delta") {
      EXPECT_EQ(event["usage"]["output_tokens"], 15);
      EXPECT_EQ(event["usage"]["input_tokens"], 230);
      EXPECT_EQ(event["delta"]["stop_reason"], "tool_use");
    }
  }
  EXPECT_EQ(num_starts, 1);
  EXPECT_EQ(kinds, (std::vector<std::string>{"text", "text", "tool_use"}));
  EXPECT_EQ(out.find(kReadTool), std::string::npos);
  EXPECT_EQ(out.find("msg_2"), std::string::npos);
}

Json Item(const std::string& id, const std::string& text) {
  return {{"type", "message"},
          {"id", id},
          {"role", "assistant"},
          {"content", Json::array({{{"type", "output_text"}, {"text", text}}})}};
}
Json CallItem(const std::string& id, std::string_view name) {
  return {{"type", "function_call"},
          {"id", id},
          {"call_id", id},
          {"name", name},
          {"arguments", kArguments}};
}

std::string ResponsesStream(const std::string& id, const std::vector<Json>& items, int input) {
  int number = 0;
  std::string out = Event({{"type", "response.created"},
                           {"sequence_number", number++},
                           {"response", {{"id", id}, {"status", "in_progress"}}}},
                          true);
  for (size_t i = 0; i < items.size(); ++i) {
    for (const char* type : {"response.output_item.added", "response.output_item.done"}) {
      out += Event(
          {{"type", type}, {"sequence_number", number++}, {"output_index", i}, {"item", items[i]}},
          true);
    }
  }
  return out + Event({{"type", "response.completed"},
                      {"sequence_number", number},
                      {"response",
                       {{"id", id},
                        {"status", "completed"},
                        {"output", items},
                        {"usage", {{"input_tokens", input}, {"output_tokens", 1}}}}}},
                     true);
}

TEST(JoinedAnswerTest, ResponsesGoOnInOneStream) {
  JoinedAnswer joined(Dialect::kResponses);
  std::string out = Feed(
      joined, ResponsesStream("resp_1", {Item("m1", "I look."), CallItem("r", kReadTool)}, 10), 23);
  ASSERT_TRUE(joined.EndRound()->goes_on);
  joined.BeginRound();
  out += Feed(joined,
              ResponsesStream("resp_2", {CallItem("c", "own"), Item("m2", "It says 7.")}, 20), 29);
  ASSERT_TRUE(joined.EndRound());
  out += joined.Finish(false);
  int number = 0;
  std::vector<int> indices;
  Json last;
  for (const Json& event : EventsOf(out)) {
    EXPECT_EQ(event["sequence_number"], number++);
    if (event["type"] == "response.output_item.added") indices.push_back(event["output_index"]);
    last = event;
  }
  EXPECT_EQ(indices, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(last["type"], "response.completed");
  EXPECT_EQ(last["response"]["id"], "resp_1");
  ASSERT_EQ(last["response"]["output"].size(), 3u);
  EXPECT_EQ(last["response"]["output"][2]["id"], "m2");
  EXPECT_EQ(last["response"]["usage"]["input_tokens"], 30);
  EXPECT_EQ(out.find(kReadTool), std::string::npos);
}

TEST(JoinedAnswerTest, BodiesOfTheOthersBecomeOne) {
  JoinedAnswer messages(Dialect::kMessages);
  const auto message = [](const std::string& id, const Json& content) {
    return Json{{"id", id},
                {"type", "message"},
                {"role", "assistant"},
                {"content", content},
                {"stop_reason", "end_turn"},
                {"usage", {{"input_tokens", 10}, {"output_tokens", 2}}}}
        .dump();
  };
  messages.TakeBody(message("msg_1", Json::array({Text("I look."), Use("r", kReadTool)})));
  ASSERT_TRUE(messages.EndRound()->goes_on);
  messages.BeginRound();
  messages.TakeBody(message("msg_2", Json::array({Text("It says 7.")})));
  ASSERT_TRUE(messages.EndRound());
  Json body = Json::parse(messages.Finish(false));
  EXPECT_EQ(body["id"], "msg_1");
  EXPECT_EQ(body["content"], Json::array({Text("I look."), Text("It says 7.")}));
  EXPECT_EQ(body["usage"]["input_tokens"], 20);
  EXPECT_EQ(body["usage"]["output_tokens"], 4);

  JoinedAnswer responses(Dialect::kResponses);
  const auto response = [](const std::string& id, const Json& output) {
    return Json{{"id", id},
                {"status", "completed"},
                {"tools", Json::array({{{"name", "own"}}, {{"name", kReadTool}}})},
                {"output", output},
                {"usage", {{"input_tokens", 10}, {"output_tokens", 2}}}}
        .dump();
  };
  responses.TakeBody(response("resp_1", Json::array({CallItem("r", kReadTool)})));
  ASSERT_TRUE(responses.EndRound()->goes_on);
  responses.BeginRound();
  responses.TakeBody(response("resp_2", Json::array({Item("m", "It says 7.")})));
  ASSERT_TRUE(responses.EndRound());
  body = Json::parse(responses.Finish(false));
  EXPECT_EQ(body["id"], "resp_1");
  EXPECT_EQ(body["output"].size(), 1u);
  EXPECT_EQ(body["tools"], Json::array({{{"name", "own"}}}));  // the caller's own
  EXPECT_EQ(body["usage"]["input_tokens"], 20);
}

TEST(JoinedAnswerTest, WhatIsNoAnswerPasses) {
  JoinedAnswer joined(Dialect::kMessages);
  joined.TakeBody(R"({"type":"other"})");
  EXPECT_FALSE(joined.EndRound());
  EXPECT_EQ(joined.Finish(false), R"({"type":"other"})");
}

}  // namespace
}  // namespace kvgate::session::results
