#include "gateway/session/answer/answer_recorder.h"

#include <optional>
#include <utility>

namespace kvgate::session::answer {

void AnswerRecorder::Feed(std::string_view piece, std::string& out) {
  if (is_released_) {
    out += piece;
    return;
  }
  events_.Add(piece);
  num_fed_ += piece.size();
  if (num_fed_ > kAnswerBytesMax && !is_complete_) {
    out += Release();
    return;
  }
  while (const std::optional<std::string> event = events_.Next()) TakeEvent(*event, out);
}

void AnswerRecorder::Finish() {
  if (is_released_) return;
  std::string passed;
  if (const std::string rest = events_.TakeRest(); !rest.empty()) TakeEvent(rest, passed);
  held_.insert(0, passed);
  is_complete_ = is_complete_ || state_ == AnswerReader::State::kEnding;
}

void AnswerRecorder::TakeEvent(std::string_view event, std::string& out) {
  using State = AnswerReader::State;
  const std::string data = DataOf(event);
  if (!data.empty() && !is_complete_) state_ = reader_->OnEvent(data);
  is_complete_ = is_complete_ || state_ == State::kComplete;
  const bool holds = state_ == State::kEnding || state_ == State::kComplete;
  (holds ? held_ : out) += event;
}

std::string AnswerRecorder::Release() {
  is_released_ = true;
  std::string rest = std::exchange(held_, {});
  rest += events_.TakeRest();
  return rest;
}

}  // namespace kvgate::session::answer
