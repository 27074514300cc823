// AnswerReader reads an answer in its caller's dialect, and gives it in the form in which later
// requests of that dialect carry it: texts, calls, thinking with its signatures, reasoning items.
// Nothing that a later request may need is lost. Not thread-safe.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/transcript/message.h"
#include "store/meta/turn_format.h"

namespace kvgate::session::answer {

using transcript::Dialect;
using transcript::Message;

struct RecordedAnswer {
  std::vector<Message> messages = {};   // the assistant's; empty if it said nothing
  store::meta::TurnTokens tokens = {};  // zeros: the provider did not say
};

class AnswerReader {
 public:
  virtual ~AnswerReader() = default;

  // The state of a stream after an event.
  enum class State : uint8_t {
    kOpen,      // more will come
    kEnding,    // the model has ended; this event and those that follow only say so
    kComplete,  // as kEnding, and no event need follow
    kBroken,    // it failed or was refused: it is no answer
  };
  // Takes the data of one event.
  virtual State OnEvent(std::string_view data) = 0;
  // Takes a whole body. Returns false if it is no complete answer.
  virtual bool OnBody(std::string_view body) = 0;
  // REQUIRES: the state is kEnding or kComplete, or OnBody returned true. Called once.
  virtual RecordedAnswer Take() = 0;
};

// REQUIRES: the dialect has messages, so not kCompletions.
std::unique_ptr<AnswerReader> MakeAnswerReader(Dialect dialect);

// One for each dialect.
std::unique_ptr<AnswerReader> MakeChatReader();
std::unique_ptr<AnswerReader> MakeMessagesReader();
std::unique_ptr<AnswerReader> MakeResponsesReader();

}  // namespace kvgate::session::answer
