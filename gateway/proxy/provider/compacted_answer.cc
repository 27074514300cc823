#include "gateway/proxy/provider/compacted_answer.h"

#include <utility>

#include "gateway/session/answer/answer_recorder.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::proxy::provider {

using request::AnswerHead;

Task<Begun> CompactedAnswer::Begin() {
  Begun begun = co_await inner_.Begin();
  if (begun.kind == Begun::Kind::kWhole && begun.response.status == 200) {
    begun.response.body = inserter_.TakeBody(begun.response.body);
  }
  if (begun.kind != Begun::Kind::kPieces || begun.head.status != 200) co_return begun;
  const bool is_forwarded = begun.head.kind == AnswerHead::Kind::kForwarded;
  const std::string_view type = is_forwarded
                                    ? upstream::wire::FindHeader(*begun.head.fields, "content-type")
                                    : std::string_view("text/event-stream");
  if (type.starts_with("text/event-stream")) {
    has_events_ = true;
    co_return begun;
  }
  Begun body = co_await BeginBody();
  co_return body;
}

Task<Begun> CompactedAnswer::BeginBody() {
  std::string body;
  while (true) {
    const Result<Piece> piece = co_await inner_.Next();
    if (request_.sink().is_gone()) {
      request_.Count(request_.sink().has_left() ? 499 : 503);
      co_return Begun{.kind = Begun::Kind::kLeft};
    }
    const bool is_large = piece && body.size() > session::answer::kAnswerBytesMax;
    if (!piece || is_large) {
      const std::string why = piece ? "The upstream's answer is too large." : piece.error().detail;
      co_return Begun{
          .kind = Begun::Kind::kWhole, .head = {}, .response = request::StatusResponse(502, why)};
    }
    body += piece->bytes;
    if (piece->is_last) break;
  }
  co_return Begun{
      .kind = Begun::Kind::kWhole, .head = {}, .response = {.body = inserter_.TakeBody(body)}};
}

Task<Result<Piece>> CompactedAnswer::Next() {
  Result<Piece> piece = co_await inner_.Next();
  if (!piece || !has_events_) co_return piece;
  text_ = inserter_.TakePiece(piece->bytes);
  if (piece->is_last) text_ += inserter_.Finish();
  co_return Piece{.bytes = text_, .is_last = piece->is_last};
}

}  // namespace kvgate::proxy::provider
