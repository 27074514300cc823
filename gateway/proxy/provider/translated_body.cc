#include "gateway/proxy/provider/translated_body.h"

#include <utility>

namespace kvgate::proxy::provider {

using request::Response;
using upstream::ExchangeOutcome;
using ReplyEnd = dialect::ReplyTranslator::End;

namespace {

constexpr size_t kErrorBytesMax = size_t{1} << 20;

}  // namespace

Task<Begun> TranslatedBody::Begin() {
  if (exchange_.status() < 200 || exchange_.status() > 299) {
    Begun refused = co_await BeginRefusal();
    co_return refused;
  }
  const request::RequestContext& request = exchange_.request();
  translation_.BeginReply(exchange_.fields(), request.head().request_id);
  const bool is_stream = translation_.stream();
  if (request::Explains(request) && exchange_.account() != nullptr) extension_.emplace(is_stream);
  co_await Advance();
  if (state_ == State::kBroken && (text_.empty() || !is_stream)) {
    if (exchange_.request().sink().is_gone()) co_return Begun{.kind = Begun::Kind::kLeft};
    Begun cut = Whole(request::StatusResponse(502, exchange_.end().error));
    co_return cut;
  }
  if (is_stream) {
    co_return Begun{.kind = Begun::Kind::kPieces,
                    .head = {.kind = request::AnswerHead::Kind::kEvents, .info = request.Info()}};
  }
  exchange_.NoteBody();
  exchange_.end().body_bytes = text_.size();
  co_return Begun{
      .kind = Begun::Kind::kWhole, .head = {}, .response = Response{.body = std::move(text_)}};
}

Task<Result<Piece>> TranslatedBody::Next() {
  if (!std::exchange(is_first_due_, false)) {
    if (state_ == State::kBroken) {
      co_return MakeError(ErrorCode::kUnavailable, "proxy", exchange_.end().error);
    }
    co_await Advance();
    if (state_ == State::kBroken && text_.empty()) {
      co_return MakeError(ErrorCode::kUnavailable, "proxy", exchange_.end().error);
    }
  }
  exchange_.NoteBody();
  exchange_.end().body_bytes += text_.size();
  co_return Piece{.bytes = text_, .is_last = state_ == State::kLast};
}

Task<void> TranslatedBody::Advance() {
  upstream::Exchange& wire = *exchange_.wire();
  text_.clear();
  std::string piece;
  if (is_first_) piece = wire.TakeReady();
  bool has_piece = std::exchange(is_first_, false);
  while (true) {
    if (!has_piece) {
      Result<std::string> next = co_await wire.Read();
      if (!next) {
        if (extension_) text_ = extension_->Feed(text_) + extension_->Finish("kvgate", "");
        Break(next.error().detail);
        co_return;
      }
      piece = std::move(*next);
    }
    has_piece = false;
    exchange_.Observe(piece);
    translation_.Feed(piece, text_);
    if (wire.finished()) {
      Finish();
      co_return;
    }
    if (!translation_.stream() || text_.empty()) continue;
    if (extension_) text_ = extension_->Feed(text_);
    if (!text_.empty()) co_return;
  }
}

void TranslatedBody::Finish() {
  const ReplyEnd end = translation_.Finish(text_);
  if (extension_) {
    const bool whole = end != ReplyEnd::kCut && end != ReplyEnd::kFailed;
    text_ = extension_->Feed(text_);
    text_ += extension_->Finish("kvgate", whole ? exchange_.Explain() : "");
  }
  state_ = State::kLast;
  if (end == ReplyEnd::kCut || (end == ReplyEnd::kFailed && !translation_.stream())) {
    Break(translation_.error().detail);
  }
}

void TranslatedBody::Break(std::string why) {
  const bool is_gone = exchange_.request().sink().is_gone();
  state_ = State::kBroken;
  exchange_.end().outcome = is_gone ? ExchangeOutcome::kClientLeft : ExchangeOutcome::kUpstreamCut;
  exchange_.end().error = std::move(why);
  if (is_gone) text_.clear();
}

Task<Begun> TranslatedBody::BeginRefusal() {
  const std::string body = co_await exchange_.ReadAll(kErrorBytesMax);
  if (exchange_.request().sink().is_gone()) {
    exchange_.end().outcome = ExchangeOutcome::kClientLeft;
    co_return Begun{.kind = Begun::Kind::kLeft};
  }
  exchange_.Observe(body);
  Response response = translation_.RefusalOf(exchange_.status(), exchange_.fields(), body,
                                             exchange_.request().head().request_id);
  const upstream::SecretMask mask = exchange_.Mask();
  response.body = mask.Whole(response.body);
  response.error_message = mask.Whole(response.error_message);
  exchange_.end().body_bytes = response.body.size();
  Begun refused = Whole(std::move(response));
  co_return refused;
}

Begun TranslatedBody::Whole(Response response) {
  exchange_.end().status = response.status;
  return {.kind = Begun::Kind::kWhole, .head = {}, .response = std::move(response)};
}

}  // namespace kvgate::proxy::provider
