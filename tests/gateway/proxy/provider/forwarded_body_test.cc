#include "gateway/proxy/provider/forwarded_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/gateway/proxy/provider/asked_upstream.h"
#include "tests/gateway/upstream/encoders.h"

namespace kvgate::proxy::provider {
namespace {

using test::AskedUpstream;
using test::ChatBody;
using test::Http;
using test::kOperatorKey;
using test::TestRequest;
using ::testing::HasSubstr;
using ::testing::Not;
using upstream::ExchangeOutcome;

constexpr std::string_view kJson = "content-type: application/json\r\n";
constexpr std::string_view kGzip = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
constexpr std::string_view kEvents = "content-type: text/event-stream\r\n";

// All that came of an answer behind its head.
struct Read {
  std::string body;
  size_t num_pieces = 0;
  std::optional<Error> error = {};
};

Task<Read> ReadToTheEnd(ForwardedBody& body) {
  Read read;
  while (true) {
    const Result<Piece> piece = co_await body.Next();
    if (!piece) {
      read.error = piece.error();
      co_return read;
    }
    read.body += piece->bytes;
    ++read.num_pieces;
    if (piece->is_last) co_return read;
  }
}

TestRequest Explained(bool stream = false) {
  return {.body = ChatBody(stream), .fields = {{"x-kvgate-explain", "1"}}};
}

TEST(ForwardedBodyTest, BytesAreForwardedAsTheyAre) {
  std::mt19937 random(1);
  std::string bytes(100'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  AskedUpstream asked({.parts = {Http("203 Fine", bytes, kGzip)}});
  ASSERT_TRUE(asked.Ask());
  ForwardedBody body(asked.exchange);
  const Begun begun = asked.proxy.Run(body.Begin());
  EXPECT_EQ(begun.kind, Begun::Kind::kPieces);
  EXPECT_EQ(begun.head.kind, request::AnswerHead::Kind::kForwarded);
  EXPECT_EQ(begun.head.status, 203);
  EXPECT_EQ(begun.head.reason, "Fine");
  EXPECT_TRUE(begun.head.is_sized);
  const Read read = asked.proxy.Run(ReadToTheEnd(body));
  EXPECT_FALSE(read.error);
  EXPECT_EQ(read.body, bytes);
}

TEST(ForwardedBodyTest, PiecesGoOutAsTheyComeAndCountWhenTheyAreDelivered) {
  AskedUpstream asked(
      {.parts = {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n",
                 "3\r\ntwo\r\n", "0\r\n\r\n"}});
  ASSERT_TRUE(asked.Ask());
  ForwardedBody body(asked.exchange);
  EXPECT_FALSE(asked.proxy.Run(body.Begin()).head.is_sized);
  std::string got(asked.proxy.Run(body.Next())->bytes);
  if (got.empty()) got = asked.proxy.Run(body.Next())->bytes;  // the head came alone
  EXPECT_EQ(got, "one");
  EXPECT_EQ(asked.exchange.end().body_bytes, 0u) << "it has not been delivered yet";
  EXPECT_FALSE(asked.log.HasHeard("one"));
  asked.Go();
  const Result<Piece> two = asked.proxy.Run(body.Next());
  EXPECT_EQ(two->bytes, "two");
  EXPECT_FALSE(two->is_last);
  EXPECT_EQ(asked.exchange.end().body_bytes, 3u);
  EXPECT_TRUE(asked.log.HasHeard("one"));
  asked.Go();
  EXPECT_TRUE(asked.proxy.Run(body.Next())->is_last);
  body.Finish();
  EXPECT_EQ(asked.exchange.end().body_bytes, 6u);
  EXPECT_TRUE(asked.log.HasHeard("onetwo"));
}

TEST(ForwardedBodyTest, AnAnswerThatBreaksOffFailsBehindWhatCame) {
  AskedUpstream asked(
      {.parts = {"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"}, .is_held = false});
  ASSERT_TRUE(asked.Ask());
  ForwardedBody body(asked.exchange);
  asked.proxy.Run(body.Begin());
  const Read read = asked.proxy.Run(ReadToTheEnd(body));
  EXPECT_EQ(read.body, "half");
  ASSERT_TRUE(read.error);
  EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kUpstreamCut);
  EXPECT_THAT(asked.exchange.end().error, HasSubstr("broke off"));
}

TEST(ForwardedBodyTest, AClientThatLeavesIsNotTheUpstreamsFault) {
  AskedUpstream asked({.parts = {"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"}});
  ASSERT_TRUE(asked.Ask());
  ForwardedBody body(asked.exchange);
  asked.proxy.Run(body.Begin());
  const Read read = asked.proxy.Run(ReadToTheEnd(body), asked.Leaving());
  EXPECT_TRUE(read.error);
  EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kClientLeft);
}

TEST(ForwardedBodyTest, AServerThatGivesARequestUpIsNotTheUpstreamsFault) {
  AskedUpstream asked({.parts = {"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"}});
  ASSERT_TRUE(asked.Ask());
  ForwardedBody body(asked.exchange);
  asked.proxy.Run(body.Begin());
  EXPECT_TRUE(asked.proxy.Run(ReadToTheEnd(body), asked.GivingUp()).error);
  EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kClientLeft);
  AskedUpstream failure(
      {.parts = {"HTTP/1.1 500 No\r\ncontent-encoding: gzip\r\ncontent-length: 9\r\n\r\nhalf"},
       .has_key = true});
  ASSERT_TRUE(failure.Ask());
  ForwardedBody encoded(failure.exchange);
  EXPECT_EQ(failure.proxy.Run(encoded.Begin(), failure.GivingUp()).kind, Begun::Kind::kLeft);
  EXPECT_EQ(failure.exchange.end().outcome, ExchangeOutcome::kClientLeft);
}

TEST(ForwardedBodyTest, TheOperatorsKeyIsMaskedInFailuresWhereverItIsSplit) {
  const std::string text = fmt::format("you sent {0} and {0}!", kOperatorKey);
  const std::string stars(std::string_view(kOperatorKey).size(), '*');
  for (size_t split = 1; split < text.size(); split += 7) {
    AskedUpstream asked({.parts = {fmt::format("HTTP/1.1 401 No {}\r\ncontent-length: {}\r\n\r\n{}",
                                               kOperatorKey, text.size(), text.substr(0, split)),
                                   text.substr(split)},
                         .has_key = true});
    ASSERT_TRUE(asked.Ask());
    ForwardedBody body(asked.exchange);
    const Begun begun = asked.proxy.Run(body.Begin());
    EXPECT_EQ(begun.head.reason, "No " + stars);
    EXPECT_TRUE(begun.head.is_sized);
    asked.Go();
    const Read read = asked.proxy.Run(ReadToTheEnd(body));
    EXPECT_EQ(read.body, fmt::format("you sent {0} and {0}!", stars)) << split;
  }
}

TEST(ForwardedBodyTest, ASuccessfulAnswerIsNotSearched) {
  AskedUpstream asked({.parts = {Http("200 OK", kOperatorKey)}, .has_key = true});
  ASSERT_TRUE(asked.Ask());
  ForwardedBody body(asked.exchange);
  asked.proxy.Run(body.Begin());
  EXPECT_EQ(asked.proxy.Run(ReadToTheEnd(body)).body, kOperatorKey);
}

TEST(ForwardedBodyTest, AnEncodedFailureIsDecodedOnlyIfItHasTheKey) {
  for (const bool has_key : {true, false}) {
    const std::string text = has_key ? fmt::format("not {}", kOperatorKey) : "no such model";
    const std::string encoded = upstream::Encode("gzip", text);
    AskedUpstream asked({.parts = {Http("400 No", encoded, kGzip)}, .has_key = true});
    ASSERT_TRUE(asked.Ask());
    ForwardedBody body(asked.exchange);
    const Begun begun = asked.proxy.Run(body.Begin());
    ASSERT_EQ(begun.kind, Begun::Kind::kPieces);
    const Read read = asked.proxy.Run(ReadToTheEnd(body));
    EXPECT_EQ(read.num_pieces, 1u);
    EXPECT_THAT(read.body, Not(HasSubstr(kOperatorKey)));
    EXPECT_EQ(asked.exchange.Field("content-encoding"), has_key ? "" : "gzip");
    EXPECT_EQ(asked.exchange.Field("content-length"), std::to_string(read.body.size()));
    if (has_key) {
      EXPECT_EQ(read.body, "not " + std::string(std::string_view(kOperatorKey).size(), '*'));
    } else {
      EXPECT_EQ(read.body, encoded);
    }
    EXPECT_EQ(asked.exchange.end().body_bytes, read.body.size());
  }
}

TEST(ForwardedBodyTest, AnEncodedFailureThatCannotBeSearchedIsNotPassedOn) {
  std::mt19937 random(1);
  std::string noise(size_t{3} << 20, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  const std::string cut =
      "HTTP/1.1 500 No\r\ncontent-encoding: gzip\r\ncontent-length: 9\r\n\r\nhalf";
  for (const std::string& answer : {Http("500 No", noise, kGzip), cut}) {
    AskedUpstream asked({.parts = {answer}, .is_held = false, .has_key = true});
    ASSERT_TRUE(asked.Ask());
    ForwardedBody body(asked.exchange);
    const Begun begun = asked.proxy.Run(body.Begin());
    ASSERT_EQ(begun.kind, Begun::Kind::kWhole);
    EXPECT_EQ(begun.response.status, 502);
    EXPECT_THAT(begun.response.body, HasSubstr("500 was cut, or is larger"));
    EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kUpstreamCut);
    EXPECT_EQ(asked.exchange.end().status, 502);
  }
}

TEST(ForwardedBodyTest, AClientThatLeavesAnEncodedFailureGetsNone) {
  AskedUpstream asked(
      {.parts = {"HTTP/1.1 500 No\r\ncontent-encoding: gzip\r\ncontent-length: 9\r\n\r\nhalf"},
       .has_key = true});
  ASSERT_TRUE(asked.Ask());
  ForwardedBody body(asked.exchange);
  EXPECT_EQ(asked.proxy.Run(body.Begin(), asked.Leaving()).kind, Begun::Kind::kLeft);
  EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kClientLeft);
}

TEST(ForwardedBodyTest, AnExplanationIsTheLastMemberOfAnAnswer) {
  AskedUpstream json({.parts = {Http("200 OK", R"({"id":"1"})", kJson)}, .request = Explained()});
  ASSERT_TRUE(json.Ask());
  ForwardedBody whole(json.exchange);
  EXPECT_FALSE(json.proxy.Run(whole.Begin()).head.is_sized) << "it has become longer";
  EXPECT_EQ(json.proxy.Run(ReadToTheEnd(whole)).body, R"({"id":"1","kvgate":{"explained":true}})");
  AskedUpstream events({.parts = {Http("200 OK", "data: {\"a\":1}\n\ndata: [DONE]\n\n", kEvents)},
                        .request = Explained(true)});
  ASSERT_TRUE(events.Ask());
  ForwardedBody stream(events.exchange);
  events.proxy.Run(stream.Begin());
  EXPECT_EQ(events.proxy.Run(ReadToTheEnd(stream)).body,
            "data: {\"a\":1,\"kvgate\":{\"explained\":true}}\n\ndata: [DONE]\n\n");
}

TEST(ForwardedBodyTest, WhatHasNoPlaceForAnExplanationStaysAsItIs) {
  const std::string gzip = upstream::Encode("gzip", "{}");
  const std::string answers[] = {Http("200 OK", gzip, kGzip), Http("400 No", "{}", kJson),
                                 Http("200 OK", "{}", "content-type: text/plain\r\n")};
  for (const std::string& answer : answers) {
    AskedUpstream asked({.parts = {answer}, .request = Explained()});
    ASSERT_TRUE(asked.Ask());
    ForwardedBody body(asked.exchange);
    EXPECT_TRUE(asked.proxy.Run(body.Begin()).head.is_sized);
    EXPECT_THAT(asked.proxy.Run(ReadToTheEnd(body)).body, Not(HasSubstr("explained")));
  }
  AskedUpstream unknown({.request = Explained(), .has_log = false});
  ASSERT_TRUE(unknown.Ask());
  ForwardedBody body(unknown.exchange);
  unknown.proxy.Run(body.Begin());
  EXPECT_EQ(unknown.proxy.Run(ReadToTheEnd(body)).body, "{}") << "nobody keeps an account";
}

TEST(ForwardedBodyTest, WhatWasHeldBackForAnExplanationGoesOutWhereAnAnswerBreaksOff) {
  constexpr std::string_view kEvent = "data: {\"a\":1}\n\n";
  AskedUpstream asked({.parts = {fmt::format("HTTP/1.1 200 OK\r\n{}content-length: 100\r\n\r\n{}",
                                             kEvents, kEvent)},
                       .is_held = false,
                       .request = Explained(true)});
  ASSERT_TRUE(asked.Ask());
  ForwardedBody body(asked.exchange);
  asked.proxy.Run(body.Begin());
  const Read read = asked.proxy.Run(ReadToTheEnd(body));
  EXPECT_EQ(read.body, kEvent);
  EXPECT_TRUE(read.error);
  EXPECT_EQ(asked.exchange.end().outcome, ExchangeOutcome::kUpstreamCut);
}

}  // namespace
}  // namespace kvgate::proxy::provider
