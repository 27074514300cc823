#include "gateway/session/results/joined_answer.h"

#include <utility>

#include "gateway/session/answer/answer_recorder.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::results {

using answer::AnswerReader;
using transcript::Json;

JoinedAnswer::JoinedAnswer(Dialect dialect)
    : dialect_(dialect),
      form_(MakeJoinedForm(dialect)),
      reader_(answer::MakeAnswerReader(dialect)) {}

std::string JoinedAnswer::TakePiece(std::string_view piece) {
  std::string out;
  events_.Add(piece);
  // An upstream whose event never ends takes no more memory than this.
  if (events_.num_pending() > answer::kAnswerBytesMax) return events_.TakeRest();
  while (const std::optional<std::string> event = events_.Next()) {
    const std::string data = answer::DataOf(*event);
    if (!data.empty()) state_ = reader_->OnEvent(data);
    std::optional<Json> json = transcript::ParseJson(data);
    if (json && json->is_object()) {
      form_->TakeEvent(*std::move(json), out);
    } else {
      form_->TakeOther(*event, out);
    }
  }
  return out;
}

void JoinedAnswer::TakeBody(std::string_view body) {
  has_body_ = true;
  body_ = body;
  is_answer_ = reader_->OnBody(body);
  if (!is_answer_) return;
  if (std::optional<Json> json = transcript::ParseJson(body)) form_->TakeBody(*std::move(json));
}

std::optional<JoinedAnswer::Round> JoinedAnswer::EndRound() {
  using State = AnswerReader::State;
  const bool is_complete =
      has_body_ ? is_answer_ : state_ == State::kEnding || state_ == State::kComplete;
  if (!is_complete) return std::nullopt;
  Round round{.said = reader_->Take()};
  const std::vector<Call> calls = CallsOf(dialect_, round.said.messages);
  for (const Call& call : calls) {
    if (call.name == kReadTool) round.reads.push_back(call);
  }
  round.goes_on = !calls.empty() && round.reads.size() == calls.size();
  return round;
}

void JoinedAnswer::BeginRound() {
  form_->BeginRound();
  events_ = answer::EventCutter();
  reader_ = answer::MakeAnswerReader(dialect_);
  state_ = AnswerReader::State::kOpen;
  is_answer_ = false;
}

std::string JoinedAnswer::Finish(bool is_cut) {
  if (has_body_) return is_answer_ ? transcript::Dump(form_->JoinBodies(is_cut)) : body_;
  std::string out = form_->Finish(is_cut);
  out += events_.TakeRest();
  return out;
}

}  // namespace kvgate::session::results
