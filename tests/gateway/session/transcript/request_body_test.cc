#include "gateway/session/transcript/request_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvgate::session::transcript {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kUser = R"({"role":"user","content":"u"})";

RequestBody Read(Dialect dialect, const std::string& text) {
  auto body = ReadBody(dialect, text);
  EXPECT_TRUE(body) << body.error().ToString();
  return body ? *body : RequestBody();
}

TEST(RequestBodyTest, ChatHasItsSystemInTheList) {
  const RequestBody body = Read(Dialect::kChatCompletions,
                                R"({"model":"m","max_tokens":7,"tools":[{"type":"function"}],
          "messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},
                      {"role":"system","content":"later"}]})");
  EXPECT_EQ(body.model, "m");
  EXPECT_EQ(body.output_tokens, 7);
  EXPECT_EQ(body.frame.tools, R"([{"type":"function"}])");
  EXPECT_THAT(body.frame.head, SizeIs(1));
  EXPECT_THAT(body.messages, SizeIs(2));
  EXPECT_FALSE(body.is_transcript());
}

TEST(RequestBodyTest, OtherDialectsHaveItBesideTheList) {
  const RequestBody messages =
      Read(Dialect::kMessages, R"({"system":[{"type":"text","text":"s"}],"messages":[)" +
                                   std::string(kUser) + R"(,{"role":"assistant","content":"a"}]})");
  EXPECT_EQ(messages.frame.system, R"([{"type":"text","text":"s"}])");
  EXPECT_TRUE(messages.is_transcript());
  const RequestBody responses =
      Read(Dialect::kResponses, R"({"instructions":"i","input":"text","max_output_tokens":9})");
  EXPECT_EQ(responses.frame.system, R"("i")");
  EXPECT_EQ(responses.output_tokens, 9);
  ASSERT_THAT(responses.messages, SizeIs(1));
  EXPECT_EQ(responses.messages.front().json, R"({"role":"user","content":"text"})");
}

TEST(RequestBodyTest, WhatASessionCannotKeepIsRefusedByName) {
  const std::string list = R"("messages":[)" + std::string(kUser) + "]";
  const auto several = ReadBody(Dialect::kChatCompletions, "{" + list + R"(,"n":2})");
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().field, "n");
  for (const char* name : {"previous_response_id", "conversation"}) {
    const auto elsewhere =
        ReadBody(Dialect::kResponses, R"({"input":"u",")" + std::string(name) + R"(":"x"})");
    ASSERT_FALSE(elsewhere);
    EXPECT_EQ(elsewhere.error().field, name);
    EXPECT_TRUE(
        ReadBody(Dialect::kResponses, R"({"input":"u",")" + std::string(name) + R"(":null})"));
  }
  EXPECT_FALSE(ReadBody(Dialect::kChatCompletions, R"({"model":"m"})"));
  EXPECT_FALSE(ReadBody(Dialect::kChatCompletions, "[]"));
  EXPECT_FALSE(ReadBody(Dialect::kChatCompletions,
                        R"({"messages":)" + std::string(1000, '[') + std::string(1000, ']') + "}"));
}

TEST(RequestBodyTest, AllElseStaysAsItIsWritten) {
  const std::string text =
      R"({ "temperature" : 0.70, "messages" : [{"role":"user","content":"new"}], "x":[ 1 ] })";
  const Message old{.kind = Kind::kUser, .json = kUser};
  const Message fresh{.kind = Kind::kUser, .json = R"({"role":"user","content":"new"})"};
  const std::vector<Message> all = {old, fresh};
  const Frame frame{
      .system = {},
      .tools = "[ {} ]",
      .head = {{.kind = Kind::kSystem, .json = R"({"role":"system","content":"s"})"}}};
  EXPECT_EQ(WriteBody(Dialect::kChatCompletions, text, {.frame = frame, .messages = all}),
            R"({"temperature":0.70,"messages":[{"role":"system","content":"s"},)"
            R"({"role":"user","content":"u"},{"role":"user","content":"new"}],"x":[ 1 ],)"
            R"("tools":[ {} ]})");
}

TEST(RequestBodyTest, MembersAreReplacedRemovedOrAddedAndAllElseStays) {
  const std::string text = R"({ "stop" : "x", "max\u005ftokens":9, "a": 0.70, "messages":[ ] })";
  const std::vector<Member> members = {{.name = "max_tokens", .value = "5"},
                                       {.name = "stop"},
                                       {.name = "stream", .value = "false"},
                                       {.name = "none"}};
  EXPECT_EQ(WithMembers(text, members),
            R"({"max\u005ftokens":5,"a":0.70,"messages":[ ],"stream":false})");
  EXPECT_EQ(WithMembers("{}", {}), "{}");
}

TEST(RequestBodyTest, WhatTheBodySaysItselfIsNotReplaced) {
  const Frame frame{.system = R"("stored")", .tools = R"(["stored"])", .head = {}};
  const std::vector<Message> all = {{.kind = Kind::kUser, .json = kUser}};
  const std::string own =
      WriteBody(Dialect::kMessages, R"({"system":"own","tools":[],"messages":[]})",
                {.frame = frame, .messages = all});
  EXPECT_THAT(own, HasSubstr(R"("system":"own","tools":[])"));
  const std::string absent = WriteBody(Dialect::kMessages, R"({"system":null,"messages":[]})",
                                       {.frame = frame, .messages = all});
  EXPECT_EQ(absent,
            R"({"system":"stored","messages":[)" + std::string(kUser) + R"(],"tools":["stored"]})");
}

TEST(RequestBodyTest, ASkeletonBecomesTheBodyAgainByteForByte) {
  const std::string body =
      R"({"effort":"high","messages":[{"role":"user","content":"a"}],"tool_choice":{},)"
      R"("system":"s","tools":[{"name":"t"}],"thinking":{"type":"enabled","budget_tokens":9},)"
      R"("model":"m","max_tokens":5})";
  const RequestBody read = ReadBody(Dialect::kMessages, body).value();
  const std::string skeleton = SkeletonOf(Dialect::kMessages, body);
  EXPECT_EQ(skeleton.find("\"a\""), std::string::npos);
  EXPECT_TRUE(ReadBody(Dialect::kMessages, skeleton));
  EXPECT_EQ(
      WriteBody(Dialect::kMessages, skeleton, {.frame = read.frame, .messages = read.messages}),
      body);
  EXPECT_EQ(SkeletonOf(Dialect::kMessages,
                       R"({"messages":[],"metadata":")" + std::string(70'000, 'x') + "\"}"),
            "");
}

}  // namespace
}  // namespace kvgate::session::transcript
