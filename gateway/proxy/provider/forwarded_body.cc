#include "gateway/proxy/provider/forwarded_body.h"

#include <fmt/format.h>

#include <utility>

#include "gateway/upstream/body_scan.h"
#include "gateway/upstream/wire/content_decoder.h"

namespace kvgate::proxy::provider {

using upstream::ExchangeOutcome;
using upstream::wire::IsIdentity;

namespace {

// An encoded error up to this size is buffered, so that it can be searched for the operator's key.
constexpr size_t kFailureBytesMax = size_t{1} << 20;

}  // namespace

Task<Begun> ForwardedBody::Begin() {
  mask_ = FailureMask();
  if (mask_ && !IsIdentity(exchange_.Field("content-encoding"))) {
    Begun begun = co_await BeginEncodedFailure();
    co_return begun;
  }
  const std::string_view type = exchange_.Field("content-type");
  if (IsExtended(type)) extension_.emplace(type.starts_with("text/event-stream"));
  reason_ = exchange_.Mask().Whole(exchange_.wire()->reason());
  co_return Begun{.kind = Begun::Kind::kPieces,
                  .head = {.kind = request::AnswerHead::Kind::kForwarded,
                           .info = exchange_.request().Info(),
                           .status = exchange_.status(),
                           .reason = reason_,
                           .fields = &exchange_.fields(),
                           .is_sized = !exchange_.wire()->length_unknown() && !extension_}};
}

// Only failures are searched for the operator's key, because only they repeat the request; a
// successful answer is passed on unchanged.
std::optional<upstream::SecretMask> ForwardedBody::FailureMask() const {
  const int status = exchange_.status();
  upstream::SecretMask mask = exchange_.Mask();
  const bool is_success = status >= 200 && status <= 299;
  if (is_success || exchange_.request().head().is_head || mask.is_empty()) return std::nullopt;
  return mask;
}

bool ForwardedBody::IsExtended(std::string_view content_type) const {
  const request::RequestContext& request = exchange_.request();
  return request::Explains(request) && exchange_.account() != nullptr && request.head().is_framed &&
         !request.head().is_head && exchange_.status() == 200 &&
         IsIdentity(exchange_.Field("content-encoding")) &&
         (content_type.starts_with("text/event-stream") ||
          content_type.starts_with("application/json"));
}

// It is passed on unchanged, or decoded if it contains the key.
Task<Begun> ForwardedBody::BeginEncodedFailure() {
  std::string body = co_await exchange_.ReadAll(kFailureBytesMax);
  if (exchange_.request().sink().is_gone()) {
    exchange_.end().outcome = ExchangeOutcome::kClientLeft;
    co_return Begun{.kind = Begun::Kind::kLeft};
  }
  if (!exchange_.wire()->finished()) {
    exchange_.end().outcome = ExchangeOutcome::kUpstreamCut;
    exchange_.end().error =
        fmt::format("The upstream's error {} was cut, or is larger than {} bytes.",
                    exchange_.status(), kFailureBytesMax);
    exchange_.end().status = 502;
    co_return Begun{.kind = Begun::Kind::kWhole,
                    .head = {},
                    .response = request::StatusResponse(502, exchange_.end().error)};
  }
  exchange_.Observe(body);
  const upstream::SecretMask mask = exchange_.Mask();
  const auto decoded =
      upstream::DecodeBody(exchange_.Field("content-encoding"), body, kFailureBytesMax);
  if (decoded && mask.IsIn(*decoded)) {
    body = mask.Whole(*decoded);
    exchange_.DropField("content-encoding");
  }
  exchange_.ReplaceField("content-length", std::to_string(body.size()));
  reason_ = mask.Whole(exchange_.wire()->reason());
  piece_ = std::move(body);
  is_whole_ = true;
  co_return Begun{.kind = Begun::Kind::kPieces,
                  .head = {.kind = request::AnswerHead::Kind::kForwarded,
                           .info = exchange_.request().Info(),
                           .status = exchange_.status(),
                           .reason = reason_,
                           .fields = &exchange_.fields(),
                           .is_sized = true}};
}

Task<Result<Piece>> ForwardedBody::Next() {
  upstream::Exchange& wire = *exchange_.wire();
  upstream::ExchangeEnd& end = exchange_.end();
  if (is_whole_) {
    exchange_.NoteBody();
    end.body_bytes = piece_.size();
    co_return Piece{.bytes = piece_, .is_last = true};
  }
  Account();
  if (is_broken_) co_return MakeError(ErrorCode::kUnavailable, "proxy", end.error);
  if (std::exchange(is_first_, false)) {
    piece_ = wire.TakeReady();
  } else {
    Result<std::string> next = co_await wire.Read();
    if (!next) {
      const bool is_gone = exchange_.request().sink().is_gone();
      end.outcome = is_gone ? ExchangeOutcome::kClientLeft : ExchangeOutcome::kUpstreamCut;
      end.error = next.error().detail;
      if (!extension_ || is_gone) co_return std::move(next).error();
      // The bytes that were held back for the explanation still go out.
      is_broken_ = true;
      piece_ = extension_->Finish("kvgate", "");
      co_return Piece{.bytes = piece_};
    }
    piece_ = std::move(*next);
  }
  const bool is_last = wire.finished();
  if (mask_) piece_ = mask_->Feed(piece_);
  if (mask_ && is_last) piece_ += mask_->Finish();
  if (!piece_.empty()) exchange_.NoteBody();
  if (extension_) {
    exchange_.Observe(piece_);
    piece_ = extension_->Feed(piece_);
    if (is_last) piece_ += extension_->Finish("kvgate", exchange_.Explain());
  }
  is_due_ = true;
  co_return Piece{.bytes = piece_, .is_last = is_last};
}

// Usage is read from a piece after it has gone out, so that the client need not wait for that.
void ForwardedBody::Account() {
  if (!std::exchange(is_due_, false)) return;
  exchange_.end().body_bytes += piece_.size();
  if (!extension_) exchange_.Observe(piece_);
}

}  // namespace kvgate::proxy::provider
