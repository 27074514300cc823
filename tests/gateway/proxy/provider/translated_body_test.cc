#include "gateway/proxy/provider/translated_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/proxy/provider/asked_upstream.h"

namespace kvgate::proxy::provider {
namespace {

using test::AskedUpstream;
using test::ChatBody;
using test::Http;
using test::kOperatorKey;
using ::testing::HasSubstr;
using ::testing::Not;
using upstream::ExchangeOutcome;

constexpr std::string_view kMessage =
    R"({"id":"m1","type":"message","role":"assistant","model":"m","content":)"
    R"([{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,)"
    R"("usage":{"input_tokens":24,"output_tokens":2}})";
constexpr std::string_view kStart =
    "event: message_start\n"
    R"(data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant",)"
    R"("model":"m","content":[],"stop_reason":null,"stop_sequence":null,)"
    R"("usage":{"input_tokens":24,"output_tokens":1}}})"
    "\n\n"
    "event: content_block_start\n"
    R"(data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"
    "\n\n"
    "event: content_block_delta\n"
    R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}})"
    "\n\n";
constexpr std::string_view kEnd =
    "event: content_block_delta\n"
    R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}})"
    "\n\n"
    "event: content_block_stop\n"
    R"(data: {"type":"content_block_stop","index":0})"
    "\n\n"
    "event: message_delta\n"
    R"(data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},)"
    R"("usage":{"output_tokens":2}})"
    "\n\n"
    "event: message_stop\n"
    R"(data: {"type":"message_stop"})"
    "\n\n";

std::string EventsHead(size_t bytes) {
  return fmt::format(
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", bytes);
}

// A chat request that an upstream of Messages answers.
struct Asked : AskedUpstream {
  struct Options {
    std::vector<std::string> parts;
    bool stream = false;
    bool is_held = true;
    bool explains = false;
    bool has_key = false;
  };
  explicit Asked(Options options)
      : AskedUpstream({.parts = std::move(options.parts),
                       .is_held = options.is_held,
                       .request = {.body = ChatBody(options.stream),
                                   .fields = {{"x-kvgate-explain", options.explains ? "1" : "0"}}},
                       .dialect = "anthropic",
                       .has_key = options.has_key}) {
    const Result<void> asked = Ask();
    EXPECT_TRUE(asked) << asked.error().ToString();
    body.emplace(exchange, *outgoing->translation());
  }
  Begun Begin(std::function<void()> beside = {}) {
    return proxy.Run(body->Begin(), std::move(beside));
  }
  Result<Piece> Next(std::function<void()> beside = {}) {
    return proxy.Run(body->Next(), std::move(beside));
  }
  std::optional<TranslatedBody> body;
};

TEST(TranslatedBodyTest, AWholeAnswerIsSaidInTheCallersDialect) {
  Asked asked({.parts = {Http("200 OK", kMessage)}});
  const Begun begun = asked.Begin();
  ASSERT_EQ(begun.kind, Begun::Kind::kWhole);
  EXPECT_EQ(begun.response.status, 200);
  EXPECT_THAT(begun.response.body, HasSubstr(R"("object":"chat.completion")"));
  EXPECT_THAT(begun.response.body, HasSubstr("Hello"));
  EXPECT_EQ(asked.exchange.end().body_bytes, begun.response.body.size());
  EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kComplete);
  EXPECT_TRUE(asked.log.HasHeard("end_turn")) << "the account hears the upstream's own words";
}

TEST(TranslatedBodyTest, AStreamGoesOnAsItsEventsCome) {
  Asked asked(
      {.parts = {EventsHead(kStart.size() + kEnd.size()) + std::string(kStart), std::string(kEnd)},
       .stream = true});
  const Begun begun = asked.Begin();
  ASSERT_EQ(begun.kind, Begun::Kind::kPieces);
  EXPECT_EQ(begun.head.kind, request::AnswerHead::Kind::kEvents);
  std::string text(asked.Next()->bytes);
  EXPECT_THAT(text, HasSubstr("chat.completion.chunk"));
  asked.Go();
  bool is_last = false;
  while (!is_last) {
    const Result<Piece> piece = asked.Next();
    ASSERT_TRUE(piece) << piece.error().ToString();
    text += piece->bytes;
    is_last = piece->is_last;
  }
  EXPECT_THAT(text, HasSubstr(R"("content":"Hel")"));
  EXPECT_THAT(text, HasSubstr(R"("content":"lo")"));
  EXPECT_TRUE(text.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(asked.exchange.end().body_bytes, text.size());
}

TEST(TranslatedBodyTest, WhatIsCutBeforeTheFirstEventIsABadGateway) {
  for (const bool stream : {false, true}) {
    Asked asked(
        {.parts = {stream ? EventsHead(100) : "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"},
         .stream = stream,
         .is_held = false});
    const Begun begun = asked.Begin();
    ASSERT_EQ(begun.kind, Begun::Kind::kWhole);
    EXPECT_EQ(begun.response.status, 502);
    EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kUpstreamCut);
    EXPECT_EQ(asked.exchange.end().status, 502);
  }
}

TEST(TranslatedBodyTest, AWholeAnswerThatIsNoneIsABadGateway) {
  Asked asked({.parts = {Http("200 OK", "<html>")}});
  const Begun begun = asked.Begin();
  ASSERT_EQ(begun.kind, Begun::Kind::kWhole);
  EXPECT_EQ(begun.response.status, 502);
  EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kUpstreamCut);
}

TEST(TranslatedBodyTest, AStreamThatBreaksOffFailsBehindWhatCame) {
  Asked asked({.parts = {EventsHead(kStart.size() + kEnd.size()) + std::string(kStart)},
               .stream = true,
               .is_held = false});
  ASSERT_EQ(asked.Begin().kind, Begun::Kind::kPieces);
  std::string text;
  Result<Piece> piece = asked.Next();
  for (; piece && !piece->is_last; piece = asked.Next()) text += piece->bytes;
  ASSERT_FALSE(piece);
  EXPECT_THAT(text, HasSubstr("Hel"));
  EXPECT_THAT(text, Not(HasSubstr("[DONE]")));
  EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kUpstreamCut);
}

TEST(TranslatedBodyTest, ARefusalIsTranslatedWithoutTheOperatorsKey) {
  const std::string refusal = fmt::format(
      R"({{"type":"error","error":{{"type":"authentication_error","message":"bad key {}"}}}})",
      kOperatorKey);
  Asked asked({.parts = {Http("401 No", refusal, "retry-after: 7\r\n")}, .has_key = true});
  const Begun begun = asked.Begin();
  ASSERT_EQ(begun.kind, Begun::Kind::kWhole);
  EXPECT_EQ(begun.response.status, 401);
  EXPECT_TRUE(begun.response.body.starts_with(R"({"error":{)")) << begun.response.body;
  EXPECT_THAT(begun.response.body, HasSubstr("bad key ****"));
  EXPECT_THAT(begun.response.body, Not(HasSubstr(kOperatorKey)));
  ASSERT_EQ(begun.response.headers.size(), 1u);
  EXPECT_EQ(begun.response.headers[0].second, "7");
  EXPECT_EQ(asked.exchange.end().status, 401);
}

TEST(TranslatedBodyTest, AClientThatLeavesGetsNothingMore) {
  Asked whole({.parts = {"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"}});
  EXPECT_EQ(whole.Begin(whole.Leaving()).kind, Begun::Kind::kLeft);
  EXPECT_EQ(whole.exchange.end().outcome, ExchangeOutcome::kClientLeft);
  Asked refused({.parts = {"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\n{"}});
  EXPECT_EQ(refused.Begin(refused.Leaving()).kind, Begun::Kind::kLeft);
  EXPECT_EQ(refused.exchange.end().outcome, ExchangeOutcome::kClientLeft);
  Asked stream({.parts = {EventsHead(10'000) + std::string(kStart)}, .stream = true});
  ASSERT_EQ(stream.Begin().kind, Begun::Kind::kPieces);
  Result<Piece> piece = stream.Next();
  while (piece) piece = stream.Next(stream.Leaving());
  EXPECT_EQ(stream.exchange.end().outcome, ExchangeOutcome::kClientLeft);
}

TEST(TranslatedBodyTest, AServerThatGivesARequestUpIsNotTheUpstreamsFault) {
  Asked whole({.parts = {"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"}});
  EXPECT_EQ(whole.Begin(whole.GivingUp()).kind, Begun::Kind::kLeft);
  EXPECT_EQ(whole.exchange.end().outcome, ExchangeOutcome::kClientLeft);
  Asked refused({.parts = {"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\n{"}});
  EXPECT_EQ(refused.Begin(refused.GivingUp()).kind, Begun::Kind::kLeft);
  EXPECT_EQ(refused.exchange.end().outcome, ExchangeOutcome::kClientLeft);
}

TEST(TranslatedBodyTest, AnExplanationIsAddedToBothForms) {
  Asked whole({.parts = {Http("200 OK", kMessage)}, .explains = true});
  EXPECT_THAT(whole.Begin().response.body, HasSubstr(R"("kvgate":{"explained":true})"));
  Asked stream(
      {.parts = {EventsHead(kStart.size() + kEnd.size()) + std::string(kStart) + std::string(kEnd)},
       .stream = true,
       .explains = true});
  ASSERT_EQ(stream.Begin().kind, Begun::Kind::kPieces);
  std::string text;
  bool is_last = false;
  while (!is_last) {
    const Result<Piece> piece = stream.Next();
    ASSERT_TRUE(piece);
    text += piece->bytes;
    is_last = piece->is_last;
  }
  EXPECT_THAT(text, HasSubstr(R"("kvgate":{"explained":true})"));
  EXPECT_TRUE(text.ends_with("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace kvgate::proxy::provider
