// ToldAnswer: an answer as a test tells it, in the place of a provider's.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "gateway/proxy/provider/answer.h"

namespace kvgate::test {

class ToldAnswer final : public proxy::provider::Answer {
 public:
  proxy::provider::Begun begun = {};
  std::deque<std::string> pieces;
  bool is_cut = false;  // fails behind the last piece
  std::optional<Fate> fate;

  // A forwarded answer of these fields, which must outlive it.
  void Forward(int status, const upstream::wire::HeaderFields& fields) {
    begun = {.kind = proxy::provider::Begun::Kind::kPieces,
             .head = {.kind = proxy::request::AnswerHead::Kind::kForwarded,
                      .info = {},
                      .status = status,
                      .fields = &fields}};
  }

  proxy::provider::Task<proxy::provider::Begun> Begin() override { co_return begun; }
  proxy::provider::Task<Result<proxy::provider::Piece>> Next() override {
    if (pieces.empty()) co_return MakeError(ErrorCode::kUnavailable, "test", "the upstream left");
    text_ = std::move(pieces.front());
    pieces.pop_front();
    co_return proxy::provider::Piece{.bytes = text_, .is_last = pieces.empty() && !is_cut};
  }
  void End(Fate how) override { fate = how; }

 private:
  std::string text_;
};

}  // namespace kvgate::test
