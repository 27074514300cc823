#include "gateway/proxy/provider/reading_answer.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "gateway/session/results/turn_results.h"
#include "gateway/upstream/wire/content_decoder.h"

namespace kvgate::proxy::provider {

using request::AnswerHead;
using session::results::Call;
using session::results::CallResult;
using session::results::JoinedAnswer;
using session::transcript::Message;
using upstream::wire::FindHeader;

namespace {

Begun Whole(request::Response response) {
  return {.kind = Begun::Kind::kWhole, .head = {}, .response = std::move(response)};
}

// The request of a round, and what was said since.
Result<std::string> WithMessages(session::transcript::Dialect dialect, std::string_view body,
                                 const std::vector<Message>& more) {
  KVGATE_TRY(session::transcript::RequestBody request,
             session::transcript::ReadBody(dialect, body));
  request.messages.insert(request.messages.end(), more.begin(), more.end());
  return session::transcript::WriteBody(dialect, body,
                                        {.frame = request.frame, .messages = request.messages});
}

}  // namespace

ReadingAnswer::ReadingAnswer(request::RequestContext& request, session::Sessions& sessions,
                             Answer& inner, std::shared_ptr<session::SessionTurn> turn,
                             AskRound ask)
    : request_(request),
      sessions_(sessions),
      inner_(inner),
      turn_(std::move(turn)),
      ask_(std::move(ask)),
      joined_(turn_->request.dialect) {}

void ReadingAnswer::End(Fate fate) {
  if (!std::exchange(is_over_, true)) inner_.End(fate);
}

Task<Begun> ReadingAnswer::Begin() {
  // Whoever answers may take it.
  body_ = request_.body().text();
  Begun begun = co_await inner_.Begin();
  if (begun.kind == Begun::Kind::kWhole && begun.response.status == 200) {
    Begun body = co_await BeginBody(std::move(begun.response.body));
    co_return body;
  }
  if (begun.kind != Begun::Kind::kPieces || begun.head.status != 200) co_return begun;
  const bool is_forwarded = begun.head.kind == AnswerHead::Kind::kForwarded;
  const auto field = [&](std::string_view name) {
    return is_forwarded ? FindHeader(*begun.head.fields, name) : std::string_view();
  };
  // What is encoded although it was not asked to be, the session refuses.
  if (!upstream::wire::IsIdentity(field("content-encoding"))) co_return begun;
  if (is_forwarded && !field("content-type").starts_with("text/event-stream")) {
    Result<std::string> body = co_await ReadWhole(inner_);
    if (request_.sink().is_gone()) {
      request_.Count(request_.sink().has_left() ? 499 : 503);
      co_return Begun{.kind = Begun::Kind::kLeft};
    }
    if (!body) co_return Whole(request::StatusResponse(502, body.error().detail));
    Begun answer = co_await BeginBody(*std::move(body));
    co_return answer;
  }
  form_ = Form::kEvents;
  co_return begun;
}

Task<Begun> ReadingAnswer::BeginBody(std::string body) {
  joined_.TakeBody(body);
  Result<std::string> whole = co_await Continue();
  if (request_.sink().is_gone()) co_return Begun{.kind = Begun::Kind::kLeft};
  if (!whole) co_return Whole(request::ErrorResponse(whole.error()));
  co_return Whole({.body = *std::move(whole)});
}

Task<Result<Piece>> ReadingAnswer::Next() {
  if (form_ == Form::kAsItIs) {
    Result<Piece> piece = co_await inner_.Next();
    co_return piece;
  }
  if (!has_ended_) {
    const Result<Piece> piece = co_await inner_.Next();
    if (!piece) co_return piece.error();
    text_ = joined_.TakePiece(piece->bytes);
    has_ended_ = piece->is_last;
    // What was said before the round's end goes out before the next one is asked.
    co_return Piece{.bytes = text_};
  }
  Result<std::string> rest = co_await Continue();
  if (!rest) co_return rest.error();
  text_ = *std::move(rest);
  co_return Piece{.bytes = text_, .is_last = true};
}

Task<Result<std::string>> ReadingAnswer::Continue() {
  for (int round = 1;; ++round) {
    std::optional<JoinedAnswer::Round> ended = joined_.EndRound();
    if (!ended) co_return joined_.Finish(/*is_cut=*/false);
    const bool goes_on = ended->goes_on;
    const bool is_last = !goes_on || round == kRoundsMax;
    if (round == 1 && ended->reads.empty()) co_return joined_.Finish(/*is_cut=*/false);
    const Result<void> taken = co_await Take(*std::move(ended));
    if (!taken) co_return taken.error();
    if (is_last) {
      turn_->said = std::move(said_);
      co_return joined_.Finish(/*is_cut=*/goes_on);
    }
    joined_.BeginRound();
    const Result<void> asked = co_await Ask();
    if (!asked) co_return asked.error();
  }
}

Task<Result<void>> ReadingAnswer::Take(JoinedAnswer::Round round) {
  Result<std::vector<CallResult>> results = co_await Read(std::move(round.reads));
  if (!results) co_return results.error();
  newest_ = std::move(round.said.messages);
  for (Message& message : session::results::ToMessages(turn_->request.dialect, *results)) {
    newest_.push_back(std::move(message));
  }
  said_.messages.insert(said_.messages.end(), newest_.begin(), newest_.end());
  // The prompt of the next turn goes on from that of the last round.
  const int64_t output = said_.tokens.output + round.said.tokens.output;
  said_.tokens = round.said.tokens;
  said_.tokens.output = output;
  co_return Result<void>();
}

Task<Result<std::vector<CallResult>>> ReadingAnswer::Read(std::vector<Call> calls) {
  // The disk may answer when this has given up, so the work shares what it needs.
  auto results = std::make_shared<Result<std::vector<CallResult>>>();
  std::function<void()> work = [&sessions = sessions_, turn = turn_, results,
                                calls = std::move(calls)] {
    std::vector<CallResult> read;
    for (const Call& call : calls) {
      Result<void> found;
      const auto find = [&](std::string_view id) -> std::optional<std::string> {
        auto text =
            session::results::FindResult(sessions.session_log(), turn->place(), turn->turn, id);
        if (text) return *std::move(text);
        found = text.error();
        return std::nullopt;
      };
      std::string text = session::results::AnswerCall(call.arguments, find, turn->read_bytes);
      if (!found) {
        *results = found.error();
        return;
      }
      read.push_back({.call_id = call.id, .text = std::move(text)});
    }
    *results = std::move(read);
  };
  const Result<void> ran =
      co_await request_.work().RunOnDisk(request_.work().pools().store, std::move(work));
  if (!ran) co_return ran.error();
  co_return std::move(*results);
}

Task<Result<void>> ReadingAnswer::Ask() {
  End(Fate::kDelivered);
  const session::transcript::Dialect dialect = turn_->request.dialect;
  Result<std::string> body = std::string();
  std::function<void()> write = [&] { body = WithMessages(dialect, body_, newest_); };
  const Result<void> ran =
      co_await request_.work().RunOn(request_.work().pools().request, std::move(write));
  if (!ran) co_return ran.error();
  if (!body) co_return body.error();
  body_ = *body;
  turn_->turn.prompt_bytes = body_.size();

  PassPiece pass;
  if (form_ == Form::kEvents) {
    pass = [this](std::string_view piece) -> Task<bool> {
      text_ = joined_.TakePiece(piece);
      if (text_.empty()) co_return !request_.sink().is_gone();
      const bool goes_on = co_await request_.sink().Write(text_, /*is_last=*/false);
      co_return goes_on;
    };
  }
  const RoundReply reply = co_await ask_(*std::move(body), std::move(pass));
  co_return TakeReply(reply);
}

Result<void> ReadingAnswer::TakeReply(const RoundReply& reply) {
  if (reply.is_gone) {
    return MakeError(ErrorCode::kUnavailable, "proxy", "The server ends; try again.");
  }
  if (reply.status != 200) {
    return MakeError(ErrorCode::kUnavailable, "proxy",
                     fmt::format("The model read a kept result, and the request that went on with "
                                 "it was answered with status {}.",
                                 reply.status));
  }
  if (form_ == Form::kAsItIs) joined_.TakeBody(reply.body);
  return {};
}

}  // namespace kvgate::proxy::provider
