#include "gateway/proxy/provider/upstream_exchange.h"

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
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using upstream::ExchangeOutcome;

TEST(UpstreamExchangeTest, TheUpstreamGetsTheOperatorsKeyAndNobodySeesItInTheHead) {
  AskedUpstream asked(
      {.parts = {Http("200 OK", "{}",
                      fmt::format("x-echo: Bearer {0}, {0}\r\nx-other: 1\r\n", kOperatorKey))},
       .request = {.body = ChatBody(), .fields = {{"authorization", "Bearer sk-caller"}}},
       .has_key = true});
  ASSERT_TRUE(asked.Ask());
  ASSERT_THAT(asked.received(), SizeIs(1));
  EXPECT_THAT(asked.received()[0], HasSubstr(kOperatorKey));
  EXPECT_THAT(asked.received()[0], Not(HasSubstr("sk-caller")));
  const std::string stars(std::string_view(kOperatorKey).size(), '*');
  EXPECT_EQ(asked.exchange.Field("X-Echo"), "Bearer " + stars + ", " + stars);
  EXPECT_EQ(asked.exchange.Field("x-other"), "1");
  EXPECT_EQ(asked.exchange.status(), 200);
}

TEST(UpstreamExchangeTest, FieldsAreReplacedAndDroppedByNameWithoutCase) {
  AskedUpstream asked({.parts = {Http("200 OK", "{}", "x-a: 1\r\nX-A: 2\r\nx-b: 3\r\n")}});
  ASSERT_TRUE(asked.Ask());
  asked.exchange.ReplaceField("X-a", "new");
  EXPECT_EQ(asked.exchange.Field("x-a"), "new");
  asked.exchange.DropField("X-A");
  EXPECT_EQ(asked.exchange.Field("x-a"), "");
  EXPECT_EQ(asked.exchange.Field("x-b"), "3");
}

TEST(UpstreamExchangeTest, TheRestIsReadToItsLimitOrToWhereItBreaksOff) {
  AskedUpstream whole({.parts = {Http("200 OK", std::string(200'000, 'x'))}});
  ASSERT_TRUE(whole.Ask());
  EXPECT_EQ(whole.proxy.Run(whole.exchange.ReadAll(1 << 20)).size(), 200'000u);
  EXPECT_TRUE(whole.exchange.wire()->finished());
  AskedUpstream large({.parts = {Http("200 OK", std::string(2'000'000, 'x'))}});
  ASSERT_TRUE(large.Ask());
  const size_t size = large.proxy.Run(large.exchange.ReadAll(100'000)).size();
  EXPECT_GT(size, 100'000u);
  EXPECT_LT(size, 300'000u);
  EXPECT_FALSE(large.exchange.wire()->finished());
  AskedUpstream cut(
      {.parts = {"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"}, .is_held = false});
  ASSERT_TRUE(cut.Ask());
  EXPECT_EQ(cut.proxy.Run(cut.exchange.ReadAll(1000)), "half");
  EXPECT_FALSE(cut.exchange.wire()->finished());
}

TEST(UpstreamExchangeTest, TheAccountIsToldInOrderAndOnce) {
  AskedUpstream asked(
      {.parts = {Http("200 OK", "{}", "x-request-id: up-7\r\ncontent-type: application/json\r\n")},
       .request = {.path = "/v1/chat/completions?a=b", .body = ChatBody(true)}});
  ASSERT_TRUE(asked.Ask());
  asked.exchange.Observe("bo");
  asked.exchange.Observe("");
  asked.exchange.Observe("dy");
  asked.exchange.NoteBody();
  asked.exchange.end().body_bytes = 4;
  EXPECT_THAT(asked.log.Take(), IsEmpty());
  asked.exchange.Close();
  const size_t size = ChatBody(true).size();
  EXPECT_THAT(asked.log.Take(),
              ::testing::ElementsAre(fmt::format(
                  "POST /v1/chat/completions for m-1 by up stream true (0 fields) sent {} of {} "
                  "head 200 up-7 body body end 0 200 4  false",
                  size, size)));
  const upstream::ExchangeEnd end = asked.log.last_end();
  EXPECT_EQ(end.num_attempts, 1);
  EXPECT_GE(end.connected.count(), 0);
  EXPECT_GE(end.sent, end.connected);
  EXPECT_GE(end.first_byte, end.connected);
  EXPECT_GE(end.first_body, end.first_byte);
  EXPECT_GE(end.ended, end.first_body);
}

TEST(UpstreamExchangeTest, WithoutALogThereIsNoAccount) {
  AskedUpstream asked({.has_log = false});
  ASSERT_TRUE(asked.Ask());
  EXPECT_EQ(asked.exchange.account(), nullptr);
  asked.exchange.Observe("x");
  asked.exchange.Close();
  EXPECT_THAT(asked.log.Take(), IsEmpty());
}

TEST(UpstreamExchangeTest, ARequestForNobodyHasAnAccountToo) {
  AskedUpstream asked({});
  asked.exchange.Open(nullptr, "m-2");
  EXPECT_TRUE(asked.exchange.Mask().is_empty());
  asked.exchange.end().outcome = ExchangeOutcome::kRefused;
  asked.exchange.Close();
  ASSERT_THAT(asked.log.Take(), ::testing::ElementsAre(HasSubstr("for m-2 by  stream false")));
  EXPECT_EQ(asked.log.last_end().num_attempts, 0);
  EXPECT_LT(asked.log.last_end().connected.count(), 0);
}

TEST(UpstreamExchangeTest, AnUpstreamThatGivesNoAnswerIsAnErrorWithItsAttempts) {
  AskedUpstream asked({.parts = {}, .is_held = false});
  const Result<void> sent = asked.Ask();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kUnavailable);
  asked.exchange.Close();
  EXPECT_EQ(asked.log.last_end().num_attempts, 1);
  EXPECT_LT(asked.log.last_end().first_byte.count(), 0);
}

TEST(UpstreamExchangeTest, ALargeBodyIsHashedByAWorkerAndBothBodiesAreToldOf) {
  std::string body = ChatBody();
  body.insert(body.size() - 1, R"(,"user":")" + std::string(300'000, 'u') + '"');
  AskedUpstream asked({.request = {.body = body}});
  ASSERT_TRUE(asked.Ask());
  EXPECT_NE(asked.outgoing->shared(), nullptr);
  EXPECT_EQ(asked.outgoing->received(), body);
  asked.exchange.Close();
  std::vector<std::string> told;
  ASSERT_TRUE(test::WaitUntil(
      [&] {
        told = asked.log.Take();
        return !told.empty();
      },
      "the account is closed behind the hash"));
  EXPECT_THAT(told[0], HasSubstr(fmt::format("sent {} of {}", body.size(), body.size())));
}

TEST(UpstreamExchangeTest, TheExplanationComesFromTheAccount) {
  AskedUpstream asked({});
  ASSERT_TRUE(asked.Ask());
  EXPECT_EQ(asked.exchange.Explain(), R"({"explained":true})");
}

}  // namespace
}  // namespace kvgate::proxy::provider
