#include "gateway/session/answer/answer_recorder.h"

#include <algorithm>
#include <utility>

#include "gateway/ledger/reply/sse_reader.h"

namespace kvgate::session::answer {
namespace {

// Returns the size of the first event with the empty line behind it; 0 if that has not come. A CR
// at the very end may be half of a line break.
size_t EventSize(std::string_view text, size_t from) {
  const auto break_at = [&](size_t at) -> size_t {
    if (at >= text.size()) return 0;
    if (text[at] == '\n') return 1;
    if (text[at] != '\r' || at + 1 == text.size()) return 0;
    return text[at + 1] == '\n' ? 2 : 1;
  };
  for (size_t at = from; at < text.size(); ++at) {
    const size_t first = break_at(at);
    if (first == 0) continue;
    const size_t second = break_at(at + first);
    if (second > 0) return at + first + second;
    at += first - 1;
  }
  return 0;
}

// Joins the data of the events in a text.
class DataOfEvent final : private ledger::reply::SseSink {
 public:
  explicit DataOfEvent(std::string_view event) {
    ledger::reply::SseReader reader(*this);
    reader.Feed(event);
    reader.Feed("\n\n");
  }
  const std::string& data() const { return data_; }

 private:
  void OnData(std::string_view piece) override { data_ += piece; }
  void OnEventEnd() override {}

  std::string data_;
};

}  // namespace

void AnswerRecorder::Feed(std::string_view piece, std::string& out) {
  if (is_released_) {
    out += piece;
    return;
  }
  pending_ += piece;
  num_fed_ += piece.size();
  if (num_fed_ > kAnswerBytesMax && !is_complete_) {
    out += Release();
    return;
  }
  size_t begin = 0;
  size_t from = scanned_;
  while (const size_t size = EventSize(std::string_view(pending_).substr(begin), from)) {
    TakeEvent(std::string_view(pending_).substr(begin, size), out);
    begin += size;
    from = 0;
  }
  pending_.erase(0, begin);
  // A line break at the end may be the first of two.
  scanned_ = pending_.size() - std::min<size_t>(pending_.size(), 3);
}

void AnswerRecorder::Finish() {
  if (is_released_) return;
  std::string passed;
  if (!pending_.empty()) TakeEvent(std::exchange(pending_, {}), passed);
  held_.insert(0, passed);
  is_complete_ = is_complete_ || state_ == AnswerReader::State::kEnding;
}

void AnswerRecorder::TakeEvent(std::string_view event, std::string& out) {
  using State = AnswerReader::State;
  const DataOfEvent read(event);
  if (!read.data().empty() && !is_complete_) state_ = reader_->OnEvent(read.data());
  is_complete_ = is_complete_ || state_ == State::kComplete;
  const bool holds = state_ == State::kEnding || state_ == State::kComplete;
  (holds ? held_ : out) += event;
}

std::string AnswerRecorder::Release() {
  is_released_ = true;
  std::string rest = std::move(held_);
  rest += pending_;
  pending_.clear();
  held_.clear();
  return rest;
}

}  // namespace kvgate::session::answer
