#include "gateway/proxy/provider/translation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/upstream/encoders.h"

namespace kvgate::proxy::provider {
namespace {

using dialect::form::Endpoint;
using ::testing::HasSubstr;
using upstream::wire::FindHeader;
using upstream::wire::HeaderFields;
using End = dialect::ReplyTranslator::End;

constexpr std::string_view kChat = R"({"model":"m","messages":[{"role":"user","content":"hi"}]})";
constexpr std::string_view kMessage =
    R"({"id":"m1","type":"message","role":"assistant","model":"m","content":)"
    R"([{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,)"
    R"("usage":{"input_tokens":24,"output_tokens":2}})";

std::unique_ptr<upstream::Upstream> Open(std::string dialect, std::vector<std::string> endpoints) {
  config::UpstreamConfig config;
  config.name = "up";
  config.dialect = std::move(dialect);
  config.base_url = "http://127.0.0.1:1";
  if (!endpoints.empty()) config.endpoints = std::move(endpoints);
  auto opened = upstream::Upstream::Open(config, [](const char*) { return ""; });
  EXPECT_TRUE(opened) << opened.error().ToString();
  return std::move(*opened);
}

// A chat request for an upstream of Messages.
struct Chat {
  explicit Chat(std::string_view body = kChat, std::string_view credential = {})
      : made(Translation::Make({.endpoint = Endpoint::kChatCompletions,
                                .upstream = *upstream,
                                .model = "m",
                                .body = body,
                                .credential = credential})) {}
  Translation& operator*() { return **made; }
  Translation* operator->() { return made->get(); }

  std::unique_ptr<upstream::Upstream> upstream = Open("anthropic", {});
  Result<std::unique_ptr<Translation>> made;
};

TEST(TranslationTest, TheEndpointIsOneThatTheUpstreamHas) {
  Chat chat;
  ASSERT_TRUE(chat.made);
  EXPECT_EQ(chat->sent_endpoint(), Endpoint::kMessages);
  EXPECT_EQ(chat->path(), "/v1/messages");
  EXPECT_FALSE(chat->stream());
  EXPECT_THAT(chat->TakeBody(), HasSubstr(R"("max_tokens")"));
  const auto only_chat = Open("openai", {"chat"});
  const auto responses = Translation::Make({.endpoint = Endpoint::kResponses,
                                            .upstream = *only_chat,
                                            .model = "m",
                                            .body = R"({"model":"m","input":"hi","stream":true})"});
  ASSERT_TRUE(responses);
  EXPECT_EQ((*responses)->path(), "/v1/chat/completions");
  EXPECT_TRUE((*responses)->stream());
}

TEST(TranslationTest, WhatCannotBeSaidIsAnErrorThatNamesItsField) {
  EXPECT_FALSE(Chat("garbage").made);
  const Chat several(R"({"model":"m","n":2,"messages":[{"role":"user","content":"hi"}]})");
  ASSERT_FALSE(several.made);
  EXPECT_EQ(several.made.error().field, "n");
}

TEST(TranslationTest, HeadersOfOneDialectStayBehind) {
  Chat chat(kChat, "sk-caller");
  const HeaderFields fields = {
      {.name = "Authorization", .value = "1"},  {.name = "X-API-Key", .value = "2"},
      {.name = "OpenAI-Beta", .value = "3"},    {.name = "X-Stainless-Lang", .value = "4"},
      {.name = "anthropic-beta", .value = "5"}, {.name = "Content-Type", .value = "6"},
      {.name = "User-Agent", .value = "7"},     {.name = "openaix", .value = "8"}};
  const HeaderFields kept = chat->FieldsOf(fields);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].name, "User-Agent");
  EXPECT_EQ(kept[1].name, "openaix");
  EXPECT_EQ(FindHeader(chat->added(), "anthropic-version"), "2023-06-01");
  EXPECT_EQ(FindHeader(chat->added(), "content-type"), "application/json");
  EXPECT_EQ(chat->credential(), "sk-caller");
}

TEST(TranslationTest, AnAnswerIsTranslatedHoweverItIsEncodedAndSplit) {
  for (const char* const coding : {"identity", "gzip", "zstd", "br"}) {
    const std::string bytes = std::string_view(coding) == "identity"
                                  ? std::string(kMessage)
                                  : upstream::Encode(coding, kMessage);
    for (const size_t piece : {size_t{1}, size_t{7}, bytes.size()}) {
      Chat chat;
      chat->BeginReply({{.name = "content-type", .value = "application/json"},
                        {.name = "Content-Encoding", .value = coding}},
                       "0123456789abcdef01234567");
      std::string out;
      for (size_t at = 0; at < bytes.size(); at += piece) {
        chat->Feed(std::string_view(bytes).substr(at, piece), out);
      }
      EXPECT_EQ(chat->Finish(out), End::kWhole) << coding;
      EXPECT_THAT(out, HasSubstr(R"("content":"Hello")")) << coding;
    }
  }
}

TEST(TranslationTest, AnAnswerThatIsCutSaysWhy) {
  Chat chat;
  chat->BeginReply({}, "0123456789abcdef01234567");
  std::string out;
  chat->Feed(kMessage.substr(0, kMessage.size() / 2), out);
  EXPECT_NE(chat->Finish(out), End::kWhole);
  EXPECT_NE(chat->error().detail, "");
}

TEST(TranslationTest, ARefusalKeepsItsStatusAndItsAdviceToRetry) {
  Chat chat;
  constexpr std::string_view kBusy =
      R"({"type":"error","error":{"type":"overloaded_error","message":"busy"}})";
  const HeaderFields fields = {{.name = "Retry-After", .value = "3"},
                               {.name = "retry-after-ms", .value = "2500"},
                               {.name = "x-should-retry", .value = "true"},
                               {.name = "x-other", .value = "1"}};
  const request::Response limited = chat->RefusalOf(429, fields, kBusy, "r1");
  EXPECT_EQ(limited.status, 429);
  EXPECT_TRUE(limited.body.starts_with(R"({"error":{)")) << limited.body;
  EXPECT_THAT(limited.body, HasSubstr("busy"));
  EXPECT_EQ(limited.headers.size(), 3u);
  EXPECT_EQ(chat->RefusalOf(529, {}, kBusy, "r1").status, 503) << "which only Anthropic uses";
  EXPECT_EQ(chat->RefusalOf(302, {}, "", "r1").status, 502);
}

TEST(TranslationTest, ARefusalIsReadInItsEncodingIfItCanBe) {
  Chat chat;
  constexpr std::string_view kBusy =
      R"({"type":"error","error":{"type":"api_error","message":"very busy"}})";
  const HeaderFields gzip = {{.name = "content-encoding", .value = "gzip"}};
  EXPECT_THAT(chat->RefusalOf(500, gzip, upstream::Encode("gzip", kBusy), "r1").body,
              HasSubstr("very busy"));
  const std::string bomb = upstream::Encode("gzip", std::string(size_t{8} << 20, 'x'));
  for (const std::string& unreadable : {std::string("not gzip"), bomb}) {
    const request::Response refusal = chat->RefusalOf(500, gzip, unreadable, "r1");
    EXPECT_EQ(refusal.status, 500);
    EXPECT_LT(refusal.body.size(), 1000u);
    EXPECT_TRUE(refusal.body.starts_with(R"({"error":{)"));
  }
}

}  // namespace
}  // namespace kvgate::proxy::provider
