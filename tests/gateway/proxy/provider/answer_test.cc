#include "gateway/proxy/provider/answer.h"

#include <gtest/gtest.h>

#include "tests/gateway/proxy/test_proxy.h"

namespace kvgate::proxy::provider {
namespace {

using test::TestProxy;
using test::TestSink;

// An answer of these pieces, that then breaks off if it is to, and what became of it.
class ScriptedAnswer final : public Answer {
 public:
  ScriptedAnswer(Begun::Kind kind, std::vector<std::string> pieces, bool breaks = false)
      : kind_(kind), pieces_(std::move(pieces)), breaks_(breaks) {}

  Task<Begun> Begin() override {
    ++num_begun;
    co_return Begun{.kind = kind_,
                    .head = {.info = {.request_id = {}}, .status = 201},
                    .response = {.status = 202, .body = "whole"}};
  }
  Task<Result<Piece>> Next() override {
    if (before_next) before_next(num_given);
    if (num_given == pieces_.size()) {
      co_return MakeError(ErrorCode::kUnavailable, "test", "It broke off.");
    }
    const std::string& piece = pieces_[num_given++];
    co_return Piece{.bytes = piece, .is_last = num_given == pieces_.size() && !breaks_};
  }
  void End(Fate fate) override { fates.push_back(fate); }

  int num_begun = 0;
  size_t num_given = 0;
  std::vector<Fate> fates;
  std::function<void(size_t)> before_next;

 private:
  const Begun::Kind kind_;
  const std::vector<std::string> pieces_;
  const bool breaks_;
};

struct Delivery {
  bool Deliver(ScriptedAnswer& answer) { return proxy.Run(provider::Deliver(answer, *request)); }
  uint64_t Counted(std::string_view status) {
    return proxy.gateway.metrics.requests.With({"/v1/chat/completions", status}).value();
  }
  TestProxy proxy;
  TestSink sink{proxy.io()};
  const test::TestRequest ask = {};
  std::unique_ptr<request::RequestContext> request = proxy.Open(ask, sink);
};

using Fates = std::vector<Answer::Fate>;

TEST(AnswerTest, AProviderThatHasNoneLeavesTheSinkToTheNext) {
  Delivery delivery;
  ScriptedAnswer answer(Begun::Kind::kNext, {});
  EXPECT_FALSE(delivery.Deliver(answer));
  EXPECT_EQ(answer.fates, Fates());
  EXPECT_EQ(delivery.sink.status, 0);
  EXPECT_EQ(delivery.Counted("201"), 0u);
}

TEST(AnswerTest, AClientThatLeftBeforeGetsNothing) {
  Delivery delivery;
  ScriptedAnswer answer(Begun::Kind::kLeft, {});
  EXPECT_TRUE(delivery.Deliver(answer));
  EXPECT_EQ(answer.fates, Fates{Answer::Fate::kClientLeft});
  EXPECT_EQ(delivery.sink.status, 0);
}

TEST(AnswerTest, AWholeAnswerIsSentAndCounted) {
  Delivery delivery;
  ScriptedAnswer answer(Begun::Kind::kWhole, {});
  EXPECT_TRUE(delivery.Deliver(answer));
  EXPECT_EQ(answer.fates, Fates{Answer::Fate::kDelivered});
  EXPECT_EQ(delivery.sink.status, 202);
  EXPECT_EQ(delivery.sink.body, "whole");
  EXPECT_EQ(delivery.Counted("202"), 1u);
  Delivery left;
  left.sink.Leave();
  ScriptedAnswer late(Begun::Kind::kWhole, {});
  EXPECT_TRUE(left.Deliver(late));
  EXPECT_EQ(late.fates, Fates{Answer::Fate::kClientLeft});
}

TEST(AnswerTest, PiecesComeInOrderAndOnlyWhenTheClientHasTakenTheLast) {
  Delivery delivery;
  delivery.sink.write_delay = std::chrono::milliseconds(2);
  ScriptedAnswer answer(Begun::Kind::kPieces, {"a", "", "b", "c"});
  answer.before_next = [&](size_t num_given) {
    EXPECT_EQ(delivery.sink.num_pieces, num_given) << "the provider is held back";
  };
  EXPECT_TRUE(delivery.Deliver(answer));
  EXPECT_EQ(delivery.sink.body, "abc");
  EXPECT_EQ(delivery.sink.num_pieces, 4u) << "an empty piece brings the head";
  EXPECT_TRUE(delivery.sink.is_complete);
  EXPECT_FALSE(delivery.sink.is_cut);
  EXPECT_EQ(delivery.sink.status, 201);
  EXPECT_EQ(delivery.Counted("201"), 1u);
  EXPECT_EQ(answer.fates, Fates{Answer::Fate::kDelivered});
}

TEST(AnswerTest, AnAnswerThatBreaksOffIsCutWhereItDid) {
  Delivery delivery;
  ScriptedAnswer answer(Begun::Kind::kPieces, {"a", "b"}, /*breaks=*/true);
  EXPECT_TRUE(delivery.Deliver(answer));
  EXPECT_EQ(delivery.sink.body, "ab");
  EXPECT_TRUE(delivery.sink.is_cut);
  EXPECT_FALSE(delivery.sink.is_complete);
  EXPECT_EQ(answer.fates, Fates{Answer::Fate::kCut});
}

TEST(AnswerTest, NothingMoreIsAskedForAClientThatHasLeft) {
  Delivery delivery;
  delivery.sink.leaves_at = 1;
  ScriptedAnswer answer(Begun::Kind::kPieces, {"a", "b", "c"});
  EXPECT_TRUE(delivery.Deliver(answer));
  EXPECT_EQ(answer.num_given, 2u);
  EXPECT_EQ(delivery.sink.body, "a");
  EXPECT_EQ(answer.fates, Fates{Answer::Fate::kClientLeft});
}

TEST(AnswerTest, AnAnswerThatBreaksOffBecauseItsClientLeftIsNotTheProvidersFault) {
  for (const bool is_cancelled : {false, true}) {
    Delivery delivery;
    ScriptedAnswer answer(Begun::Kind::kPieces, {"a"}, /*breaks=*/true);
    answer.before_next = [&](size_t num_given) {
      if (num_given == 0) return;
      is_cancelled ? delivery.sink.Cancel() : delivery.sink.Leave();
    };
    EXPECT_TRUE(delivery.Deliver(answer));
    EXPECT_EQ(answer.fates, Fates{Answer::Fate::kClientLeft});
  }
}

}  // namespace
}  // namespace kvgate::proxy::provider
