#include "gateway/proxy/provider/local_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "base/digest.h"
#include "tests/gateway/proxy/provider/asked_upstream.h"

namespace kvgate::proxy::provider {
namespace {

using std::chrono::milliseconds;
using test::TestProxy;
using test::TestRequest;
using test::TestSink;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Body(bool stream = false, std::string_view model = "local") {
  return fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"hi"}}]{}}})", model,
                     stream ? R"(,"stream":true)" : "");
}

// One request for the local engine.
struct Asked {
  explicit Asked(TestProxy::Setup setup = {}, TestRequest asked = {.body = Body()})
      : ask(std::move(asked)), proxy(std::move(setup)), request(proxy.Open(ask, sink)) {
    EXPECT_TRUE(request->body().lease().GrowTo(ask.body.size()));
  }
  bool Deliver(LocalAnswer::Options options = {}, std::function<void()> beside = {}) {
    LocalAnswer answer(*request, options);
    return proxy.Run(provider::Deliver(answer, *request), std::move(beside));
  }
  uint64_t Counted(std::string_view status) {
    return proxy.gateway.metrics.requests.With({"/v1/chat/completions", status}).value();
  }

  const TestRequest ask;
  TestProxy proxy;
  TestSink sink{proxy.io()};
  std::unique_ptr<request::RequestContext> request;
};

TEST(LocalAnswerTest, TheBodyIsNotHeldDuringItsAnswer) {
  for (const bool stream : {false, true}) {
    Asked asked({}, {.body = Body(stream)});
    LocalAnswer answer(*asked.request, {});
    const Begun begun = asked.proxy.Run(answer.Begin());
    EXPECT_EQ(begun.kind, stream ? Begun::Kind::kPieces : Begun::Kind::kWhole);
    EXPECT_EQ(asked.proxy.bodies().bytes(), 0u);
    EXPECT_EQ(asked.request->body().bytes(), "");
    answer.End(Answer::Fate::kClientLeft);
  }
}

TEST(LocalAnswerTest, AnErrorBeforeTheFirstPieceHasItsOwnStatus) {
  for (const bool stream : {false, true}) {
    Error error = MakeError(ErrorCode::kRateLimited, "engine", "no first token in time");
    error.retry_after_seconds = 7;
    Asked asked({.script = {.pieces = {}, .reason = engine::FinishReason::kError, .error = error}},
                {.body = Body(stream)});
    EXPECT_TRUE(asked.Deliver());
    EXPECT_EQ(asked.sink.status, 429);
    ASSERT_EQ(asked.sink.fields.size(), 1u);
    EXPECT_EQ(asked.sink.fields[0].second, "7");
    EXPECT_EQ(asked.Counted("429"), 1u);
  }
}

TEST(LocalAnswerTest, AnErrorBehindTheHeadIsTheLastEvent) {
  Asked asked({.script = {.pieces = {},
                          .first_delay = milliseconds(300),
                          .reason = engine::FinishReason::kError,
                          .error = MakeError(ErrorCode::kRateLimited, "engine", "too late")},
               .options = {.head_delay = milliseconds(10)}},
              {.body = Body(true)});
  EXPECT_TRUE(asked.Deliver());
  EXPECT_EQ(asked.sink.status, 200);
  EXPECT_TRUE(asked.sink.is_complete);
  EXPECT_THAT(asked.sink.body, HasSubstr("rate_limit_exceeded"));
  EXPECT_THAT(asked.sink.body, Not(HasSubstr("[DONE]")));
}

TEST(LocalAnswerTest, AnEndThatComesBeforeTheEngineIsAskedEndsTheAnswer) {
  for (const bool stream : {false, true}) {
    Asked asked({.script = {.piece_delay = milliseconds(5), .forever = true}},
                {.body = Body(stream)});
    asked.sink.End();
    EXPECT_TRUE(asked.Deliver());
    EXPECT_TRUE(asked.sink.is_complete);
    EXPECT_THAT(asked.sink.body, HasSubstr("the request was cancelled"));
  }
}

TEST(LocalAnswerTest, AnEngineWithoutRoomLeavesTheRequestToTheNextTarget) {
  for (const bool has_next : {true, false}) {
    Asked asked;
    asked.proxy.gateway.engine.RefuseWith(
        MakeError(ErrorCode::kOverloaded, "engine", "the queue is full"));
    EXPECT_EQ(asked.Deliver({.has_next = has_next}), !has_next);
    EXPECT_EQ(asked.sink.status, has_next ? 0 : 503);
    if (has_next) {
      EXPECT_EQ(asked.request->body().bytes(), Body()) << "the next target needs it";
    }
  }
  // What is wrong with the request is wrong with it everywhere.
  Asked wrong({}, {.body = R"({"model":"local"})"});
  EXPECT_TRUE(wrong.Deliver({.has_next = true}));
  EXPECT_EQ(wrong.sink.status, 400);
}

TEST(LocalAnswerTest, OnlyARouteMayAskForAnotherModelsName) {
  Asked direct({}, {.body = Body(false, "gpt-1")});
  EXPECT_TRUE(direct.Deliver());
  EXPECT_EQ(direct.sink.status, 404);
  Asked routed({}, {.body = Body(false, "gpt-1")});
  EXPECT_TRUE(routed.Deliver({.any_model = true}));
  EXPECT_EQ(routed.sink.status, 200);
}

TEST(LocalAnswerTest, AFullQueueOfThreadsIsSaid) {
  Asked asked({.pools = {.request_threads = 1, .queue_max = 2}});
  std::promise<void> release;
  const auto held = release.get_future().share();
  ASSERT_TRUE(asked.proxy.pools().request.Post("other", [held] { held.wait(); }));
  while (asked.proxy.pools().request.Post("", [held] { held.wait(); })) {
  }
  EXPECT_TRUE(asked.Deliver());
  EXPECT_EQ(asked.sink.status, 503);
  EXPECT_EQ(asked.proxy.gateway.engine.num_running(), 0);
  release.set_value();
}

TEST(LocalAnswerTest, AKeyPaysForTheTokensOfItsAnswer) {
  config::KeyConfig key;
  key.name = "team";
  key.sha256 = ToHex(ThreadSha256().Update("key").Finish().bytes);
  key.tokens_per_minute = 5;
  Asked asked({.targets = {.keys = {key}}}, {.body = Body(), .fields = {{"x-kvgate-key", "key"}}});
  EXPECT_TRUE(asked.request->Admit("local"));
  EXPECT_TRUE(asked.Deliver());
  EXPECT_EQ(asked.sink.status, 200);
  EXPECT_EQ(asked.request->Admit("local").error().code, ErrorCode::kRateLimited);
}

TEST(LocalAnswerTest, AClientThatLeavesCancelsTheEnginesWork) {
  for (const bool stream : {false, true}) {
    Asked asked({.script = {.first_delay = std::chrono::minutes(10)}}, {.body = Body(stream)});
    EXPECT_TRUE(asked.Deliver({}, [&] { asked.sink.Leave(); }));
    EXPECT_EQ(asked.sink.status, 0);
    EXPECT_EQ(asked.Counted("499"), 1u);
    EXPECT_EQ(asked.proxy.gateway.metrics.client_disconnects.value(), 1u);
    EXPECT_TRUE(test::WaitUntil([&] { return asked.proxy.gateway.engine.num_running() == 0; },
                                "the engine is idle"));
  }
  Asked cancelled({.script = {.first_delay = std::chrono::minutes(10)}});
  EXPECT_TRUE(cancelled.Deliver({}, [&] { cancelled.sink.Cancel(); }));
  EXPECT_EQ(cancelled.Counted("503"), 1u);
  EXPECT_EQ(cancelled.proxy.gateway.metrics.client_disconnects.value(), 0u);
}

TEST(LocalAnswerTest, ASlowClientHoldsNothingBackButItsOwnAnswer) {
  Asked asked({.script = {.pieces = {"a", "b", "c", "d", "e", "f"}}}, {.body = Body(true)});
  asked.sink.write_delay = milliseconds(5);
  EXPECT_TRUE(asked.Deliver());
  EXPECT_TRUE(asked.sink.is_complete);
  EXPECT_TRUE(asked.sink.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(asked.proxy.gateway.engine.num_running(), 0);
}

}  // namespace
}  // namespace kvgate::proxy::provider
