#include "gateway/proxy/provider/answer.h"

#include <utility>

#include "gateway/session/answer/answer_recorder.h"

namespace kvgate::proxy::provider {

Task<Result<std::string>> ReadWhole(Answer& answer) {
  std::string body;
  while (true) {
    const Result<Piece> piece = co_await answer.Next();
    if (!piece) co_return piece.error();
    body += piece->bytes;
    if (piece->is_last) co_return body;
    if (body.size() > session::answer::kAnswerBytesMax) {
      co_return MakeError(ErrorCode::kTooLarge, "proxy", "The upstream's answer is too large.");
    }
  }
}

Task<bool> Deliver(Answer& answer, request::RequestContext& request) {
  Begun begun = co_await answer.Begin();
  if (begun.kind == Begun::Kind::kNext) co_return false;
  if (begun.kind == Begun::Kind::kLeft) {
    answer.End(Answer::Fate::kClientLeft);
    co_return true;
  }
  if (begun.kind == Begun::Kind::kWhole) {
    const bool sent = co_await request.Reply(std::move(begun.response));
    answer.End(sent ? Answer::Fate::kDelivered : Answer::Fate::kClientLeft);
    co_return true;
  }
  request::ResponseSink& sink = request.sink();
  request.Count(begun.head.status);
  sink.Begin(begun.head);
  while (true) {
    const Result<Piece> piece = co_await answer.Next();
    if (!piece) {
      sink.Cut();
      answer.End(sink.is_gone() ? Answer::Fate::kClientLeft : Answer::Fate::kCut);
      co_return true;
    }
    const bool written = co_await sink.Write(piece->bytes, piece->is_last);
    if (!written || piece->is_last) {
      answer.End(written ? Answer::Fate::kDelivered : Answer::Fate::kClientLeft);
      co_return true;
    }
  }
}

}  // namespace kvgate::proxy::provider
