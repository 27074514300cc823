#include "sdk/src/chat_reader.h"

#include <gtest/gtest.h>

namespace kvgate::sdk {
namespace {

std::vector<ChatEvent> Events(ChatReader& reader) {
  std::vector<ChatEvent> events;
  while (auto event = reader.Next()) events.push_back(*std::move(event));
  return events;
}

constexpr std::string_view kStream =
    ": ping\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"Hm\"}}]}\r\n\r\n"
    "data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"H\\u00e9\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"c1\","
    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":"
    "{\"arguments\":\":1}\"}}]}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,"
    "\"prompt_tokens_details\":{\"cached_tokens\":8},"
    "\"completion_tokens_details\":{\"reasoning_tokens\":1}}}\n\n"
    "data: [DONE]\n\n";

void ExpectTheWholeStream(const std::vector<ChatEvent>& events) {
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[0].kind, KVGATE_EVENT_REASONING);
  EXPECT_EQ(events[0].text, "Hm");
  EXPECT_EQ(events[1].kind, KVGATE_EVENT_TEXT);
  EXPECT_EQ(events[1].text, "H\xc3\xa9");
  EXPECT_EQ(events[2].kind, KVGATE_EVENT_TOOL_DELTA);
  EXPECT_EQ(events[3].text, ":1}");
  EXPECT_EQ(events[3].tool_id, "c1");
  EXPECT_EQ(events[4].kind, KVGATE_EVENT_TOOL_CALL);
  EXPECT_EQ(events[4].text, "{\"a\":1}");
  EXPECT_EQ(events[4].tool_name, "f");
  EXPECT_EQ(events[4].tool_index, 1);
  EXPECT_EQ(events[5].kind, KVGATE_EVENT_FINISH);
  EXPECT_EQ(events[5].text, "tool_calls");
  EXPECT_EQ(events[6].kind, KVGATE_EVENT_USAGE);
  EXPECT_EQ(events[6].prompt_tokens, 9);
  EXPECT_EQ(events[6].cached_tokens, 8);
  EXPECT_EQ(events[6].cache_write_tokens, -1);
  EXPECT_EQ(events[6].output_tokens, 4);
  EXPECT_EQ(events[6].reasoning_tokens, 1);
}

TEST(ChatReaderTest, AStreamIsTheSameHoweverItIsCut) {
  for (const size_t size : {size_t{1}, size_t{2}, size_t{7}, size_t{64}, kStream.size()}) {
    ChatReader reader;
    for (size_t at = 0; at < kStream.size(); at += size) {
      ASSERT_FALSE(reader.Push(kStream.substr(at, size)));
    }
    EXPECT_FALSE(reader.End());
    ExpectTheWholeStream(Events(reader));
  }
}

TEST(ChatReaderTest, AWholeAnswerHasTheSameEvents) {
  ChatReader reader;
  ASSERT_FALSE(reader.ReadWhole(
      R"({"choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"text",)"
      R"("text":"a"},{"type":"text","text":"b"}],"tool_calls":[{"id":"x","function":)"
      R"({"name":"f","arguments":""}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}})"));
  const std::vector<ChatEvent> events = Events(reader);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].text, "ab");
  EXPECT_EQ(events[2].kind, KVGATE_EVENT_TOOL_CALL);
  EXPECT_EQ(events[2].text, "{}");
  EXPECT_EQ(events[3].text, "stop");
  EXPECT_EQ(events[4].prompt_tokens, 1);
}

TEST(ChatReaderTest, ChoicesAreKeptApart) {
  ChatReader reader;
  ASSERT_FALSE(
      reader.Push("data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}},"
                  "{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n"));
  const std::vector<ChatEvent> events = Events(reader);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].choice, 1);
  EXPECT_EQ(events[1].choice, 0);
}

TEST(ChatReaderTest, WhatEndsEarlyOrIsNoJsonFails) {
  ChatReader cut;
  ASSERT_FALSE(cut.Push("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n"));
  ASSERT_TRUE(cut.End());
  EXPECT_EQ(cut.End()->status, KVGATE_UNAVAILABLE);
  EXPECT_EQ(Events(cut).size(), 1u);
  ChatReader broken;
  EXPECT_EQ(broken.Push("data: {\"choices\n")->status, KVGATE_UNAVAILABLE);
}

TEST(ChatReaderTest, AnErrorComesBehindTheEventsBeforeIt) {
  ChatReader reader;
  const auto failure = reader.Push(
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
      "data: {\"error\":{\"message\":\"no KV blocks left\",\"code\":\"overloaded\"}}\n\n");
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->status, KVGATE_OVERLOADED);
  EXPECT_EQ(failure->message, "no KV blocks left");
  EXPECT_EQ(Events(reader).size(), 1u);
}

TEST(ChatReaderTest, TheExplanationComesAsItsJson) {
  ChatReader reader;
  ASSERT_FALSE(reader.Push("data: {\"choices\":[],\"kvgate\":{\"cached_tokens\": 3}}\n"));
  const std::vector<ChatEvent> events = Events(reader);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, KVGATE_EVENT_EXPLAIN);
  EXPECT_EQ(events[0].text, "{\"cached_tokens\":3}");
}

}  // namespace
}  // namespace kvgate::sdk
