#include "gateway/proxy/provider/session_answer.h"

#include <functional>
#include <utility>

#include "base/log.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/upstream/wire/content_decoder.h"

namespace kvgate::proxy::provider {

using dialect::form::Dialect;
using request::AnswerHead;
using upstream::wire::FindHeader;

namespace {

Begun Whole(request::Response response) {
  return {.kind = Begun::Kind::kWhole, .head = {}, .response = std::move(response)};
}

// The last event of a stream whose answer could not be stored.
std::string ErrorEvent(Dialect dialect, const Error& error, std::string_view request_id) {
  std::string out;
  if (dialect == Dialect::kMessages) {
    const std::string message = dialect::form::PublicMessage(error);
    dialect::reply::AppendNamedSseEvent(
        "error",
        dialect::form::EncodeMessagesError({.status = dialect::form::HttpStatus(error),
                                            .message = message,
                                            .request_id = request_id}),
        out);
    return out;
  }
  if (dialect == Dialect::kChatCompletions) {
    dialect::reply::AppendSseEvent(dialect::form::EncodeError(error), out);
    return out;
  }
  std::string json;
  dialect::form::JsonWriter writer(json);
  writer.BeginObject().Key("type").String("error").Key("code").String("server_error");
  writer.Key("message").String(dialect::form::PublicMessage(error)).Key("param").Null();
  writer.Key("sequence_number").Integer(0).EndObject();
  dialect::reply::AppendNamedSseEvent("error", json, out);
  return out;
}

}  // namespace

SessionAnswer::SessionAnswer(request::RequestContext& request, session::Sessions& sessions,
                             Answer& inner, std::shared_ptr<session::SessionTurn> turn)
    : request_(request),
      sessions_(sessions),
      inner_(inner),
      turn_(std::move(turn)),
      recorder_(turn_->request.dialect) {}

Task<Begun> SessionAnswer::Begin() {
  Begun begun = co_await inner_.Begin();
  if (begun.kind == Begun::Kind::kWhole && begun.response.status == 200) {
    text_ = std::move(begun.response.body);
    recorder_.TakeBody(text_);
    const Result<void> stored = co_await Store();
    if (!stored) co_return Whole(request::ErrorResponse(stored.error()));
    begun.response.body = std::move(text_);
    co_return begun;
  }
  if (begun.kind == Begun::Kind::kWhole) LetGo();
  if (begun.kind != Begun::Kind::kPieces) co_return begun;
  if (begun.head.status != 200) {
    LetGo();
    co_return begun;
  }
  const bool is_forwarded = begun.head.kind == AnswerHead::Kind::kForwarded;
  const auto field = [&](std::string_view name) {
    return is_forwarded ? FindHeader(*begun.head.fields, name) : std::string_view();
  };
  if (!upstream::wire::IsIdentity(field("content-encoding"))) {
    LetGo();
    co_return Whole(request::StatusResponse(
        502,
        "The upstream encodes its answer, which it was not asked to, so that the session "
        "cannot keep it."));
  }
  if (is_forwarded && !field("content-type").starts_with("text/event-stream")) {
    Begun body = co_await BeginBody(std::move(begun));
    co_return body;
  }
  form_ = Form::kEvents;
  co_return begun;
}

Task<Begun> SessionAnswer::BeginBody(Begun begun) {
  form_ = Form::kBody;
  Result<std::string> read = co_await ReadWhole(inner_);
  if (request_.sink().is_gone()) {
    request_.Count(request_.sink().has_left() ? 499 : 503);
    co_return Begun{.kind = Begun::Kind::kLeft};
  }
  if (!read) {
    LetGo();
    co_return Whole(request::StatusResponse(502, read.error().detail));
  }
  text_ = *std::move(read);
  recorder_.TakeBody(text_);
  const Result<void> stored = co_await Store();
  if (!stored) co_return Whole(request::ErrorResponse(stored.error()));
  co_return begun;
}

Task<Result<Piece>> SessionAnswer::Next() {
  if (form_ == Form::kAsItIs) {
    Result<Piece> piece = co_await inner_.Next();
    co_return piece;
  }
  if (form_ == Form::kBody) co_return Piece{.bytes = text_, .is_last = true};
  text_.clear();
  while (true) {
    const bool is_due = recorder_.is_complete() && !is_stored_;
    if (is_due) {
      const Result<void> stored = co_await Store();
      if (!stored) {
        text_ = ErrorEvent(turn_->request.dialect, stored.error(), request_.head().request_id);
        co_return Piece{.bytes = text_, .is_last = true};
      }
    }
    if (is_due || has_ended_) text_ += recorder_.Release();
    if (has_ended_) LetGo();
    if (!text_.empty() || has_ended_) co_return Piece{.bytes = text_, .is_last = has_ended_};
    const Result<Piece> piece = co_await inner_.Next();
    if (!piece) co_return piece.error();
    recorder_.Feed(piece->bytes, text_);
    has_ended_ = piece->is_last;
    if (has_ended_) recorder_.Finish();
    // What was said before the end does not wait for the disk.
    if (!text_.empty()) co_return Piece{.bytes = text_};
  }
}

// What is no complete answer is passed on and not stored.
Task<Result<void>> SessionAnswer::Store() {
  if (!recorder_.is_complete()) {
    KVGATE_LOG(kInfo, "proxy",
               "request {}: its answer is not complete, so session '{}' does not "
               "keep it",
               request_.head().request_id, turn_->ask.key);
    LetGo();
    co_return Result<void>();
  }
  is_stored_ = true;
  auto kept = std::make_shared<Result<void>>();
  std::function<void()> work = [&sessions = sessions_, turn = turn_, kept,
                                kv_block = request_.notes().kv_block,
                                answer = recorder_.Take()]() mutable {
    *kept = sessions.Commit(*turn, std::move(answer), kv_block);
  };
  const Result<void> ran =
      co_await request_.work().RunOnDisk(request_.work().pools().store, std::move(work));
  // A disk that has not answered may still store it, and holds the session until then.
  if (!ran) co_return ran.error();
  LetGo();
  if (!*kept) {
    KVGATE_LOG(kError, "proxy", "request {}: its turn is not stored: {}",
               request_.head().request_id, kept->error().ToString());
  }
  co_return *kept;
}

}  // namespace kvgate::proxy::provider
