#include "gateway/proxy/provider/compacted_answer.h"

#include <utility>

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
  const Result<std::string> body = co_await ReadWhole(inner_);
  if (request_.sink().is_gone()) {
    request_.Count(request_.sink().has_left() ? 499 : 503);
    co_return Begun{.kind = Begun::Kind::kLeft};
  }
  request::Response response;
  if (body) {
    response.body = inserter_.TakeBody(*body);
  } else {
    response = request::StatusResponse(502, body.error().detail);
  }
  co_return Begun{.kind = Begun::Kind::kWhole, .head = {}, .response = std::move(response)};
}

Task<Result<Piece>> CompactedAnswer::Next() {
  Result<Piece> piece = co_await inner_.Next();
  if (!piece || !has_events_) co_return piece;
  text_ = inserter_.TakePiece(piece->bytes);
  if (piece->is_last) text_ += inserter_.Finish();
  co_return Piece{.bytes = text_, .is_last = piece->is_last};
}

}  // namespace kvgate::proxy::provider
