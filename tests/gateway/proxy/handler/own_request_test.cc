#include "gateway/proxy/handler/own_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/gateway/proxy/session_proxy.h"

namespace kvgate::proxy::handler {
namespace {

using test::SessionProxy;
using test::TestSink;

test::TestRequest Sample(SessionProxy& session) {
  return session.Request("{}", {{"authorization", "Bearer sk-1"},
                                {"idempotency-key", "once"},
                                {"content-length", "2"},
                                {"anthropic-beta", "x"},
                                {"x-kvgate-private", "1"},
                                {"x-kvgate-session-wait", "5"}});
}

TEST(OwnRequestTest, InTheBackgroundTheyHaveTheFieldsOfTheConversationAndNoCredential) {
  SessionProxy session;
  TestSink sink(session.proxy.io());
  auto sample = std::make_unique<test::TestRequest>(Sample(session));
  auto received = session.proxy.Open(*sample, sink);
  OwnRequests requests(*received, /*is_background=*/true);
  const std::string tenant = received->caller().tenant();
  received.reset();
  sample.reset();
  requests.Add("x-kvgate-session-mode", "recognise");
  const auto own = requests.Open("/v1/messages", "summary");
  for (const char* gone : {"authorization", "idempotency-key", "content-length", "x-kvgate-session",
                           "x-kvgate-session-wait"}) {
    EXPECT_EQ(own->Header(gone), "") << gone;
  }
  EXPECT_EQ(own->Header("anthropic-beta"), "x");
  EXPECT_EQ(own->Header("x-kvgate-private"), "1");
  EXPECT_EQ(own->Header("x-kvgate-session-mode"), "recognise");
  EXPECT_EQ(own->caller().tenant(), tenant);
  EXPECT_EQ(own->caller().provider_credential(), "");
  EXPECT_EQ(own->place().route, request::Route::kMessages);
  EXPECT_EQ(own->head().purpose, "summary");
}

TEST(OwnRequestTest, AboutSomethingElseTheyHaveNoFieldsButThoseOfTheTrace) {
  SessionProxy session;
  TestSink sink(session.proxy.io());
  const test::TestRequest sample = session.Request(
      "{}", {{"authorization", "Bearer sk-1"},
             {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033-01"},
             {"x-kvgate-upstream", "other"},
             {"anthropic-beta", "x"}});
  const auto received = session.proxy.Open(sample, sink);
  OwnRequests requests(*received, /*is_background=*/true, OwnRequests::Fields::kTrace);
  const auto own = requests.Open("/v1/embeddings", "retrieval");
  ASSERT_EQ(own->head().fields.size(), 1u);
  EXPECT_EQ(own->head().fields[0].name, "traceparent");
  EXPECT_EQ(own->place().route, request::Route::kEmbeddings);
  EXPECT_EQ(own->caller().tenant(), received->caller().tenant());
}

TEST(OwnRequestTest, WithinARequestTheyHaveItsCredential) {
  SessionProxy session;
  TestSink sink(session.proxy.io());
  const test::TestRequest sample = Sample(session);
  const auto received = session.proxy.Open(sample, sink);
  OwnRequests requests(*received, /*is_background=*/false);
  const auto own = requests.Open("/v1/chat/completions", "summary");
  EXPECT_EQ(own->Header("authorization"), "Bearer sk-1");
  EXPECT_EQ(own->caller().provider_credential(), "sk-1");
}

TEST(OwnRequestTest, TheSinkKeepsTheAnswer) {
  SessionProxy session;
  TestSink sink(session.proxy.io());
  const test::TestRequest sample = session.Request("{}");
  const auto received = session.proxy.Open(sample, sink);
  OwnRequests requests(*received, /*is_background=*/true);
  const auto own = requests.Open("/v1/chat/completions", "summary");
  EXPECT_TRUE(own->ReplaceBody(R"({"model":"local","messages":[{"role":"user","content":"x"}]})"));
  session.proxy.Run(Generation().Serve(*own));
  EXPECT_EQ(requests.sink().status, 200);
  EXPECT_THAT(requests.sink().body, testing::HasSubstr("Hello world!"));
  requests.sink().Cancel();
  EXPECT_TRUE(requests.sink().is_gone());
}

}  // namespace
}  // namespace kvgate::proxy::handler
