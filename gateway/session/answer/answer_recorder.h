// AnswerRecorder stands between an answer and its caller: it reads what passes, and holds back the
// end of it until its user has stored the answer. Events pass whole, as they were written. A stream
// of more than kAnswerBytesMax passes on and is no complete answer. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/session/answer/answer_reader.h"
#include "gateway/session/answer/event_cutter.h"

namespace kvgate::session::answer {

// No turn of a session is as large; an upstream that never ends takes no more memory than this.
inline constexpr size_t kAnswerBytesMax = size_t{64} << 20;

class AnswerRecorder {
 public:
  explicit AnswerRecorder(Dialect dialect) : reader_(MakeAnswerReader(dialect)) {}

  // Takes a piece of a stream of events, and appends to `out` what may go on to the caller.
  void Feed(std::string_view piece, std::string& out);
  // The stream has ended: what was its last event may lack the empty line behind it.
  void Finish();
  // Takes a whole body; is_complete() says if it is an answer.
  void TakeBody(std::string_view body) { is_complete_ = reader_->OnBody(body); }

  // True once the answer is complete, so that it can be stored.
  bool is_complete() const { return is_complete_; }
  // REQUIRES: is_complete(). Called once.
  RecordedAnswer Take() { return reader_->Take(); }
  // Returns what was held back; all that follows passes unread.
  std::string Release();

 private:
  void TakeEvent(std::string_view event, std::string& out);

  const std::unique_ptr<AnswerReader> reader_;
  EventCutter events_;
  std::string held_;
  size_t num_fed_ = 0;  // bytes of the stream so far
  AnswerReader::State state_ = AnswerReader::State::kOpen;
  bool is_complete_ = false;
  bool is_released_ = false;
};

}  // namespace kvgate::session::answer
