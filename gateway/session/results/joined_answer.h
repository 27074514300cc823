// JoinedAnswer: the answers of several rounds as the one answer that a caller gets. Calls of the
// tool that the gateway answers itself are taken out; what follows in the next round goes on in the
// same answer, with its parts numbered on and its usage added. It reads bodies, or the events of
// streams as they pass. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/session/answer/answer_reader.h"
#include "gateway/session/answer/event_cutter.h"
#include "gateway/session/results/joined_form.h"
#include "gateway/session/results/read_tool.h"

namespace kvgate::session::results {

class JoinedAnswer {
 public:
  // REQUIRES: the dialect has messages, so not kCompletions.
  explicit JoinedAnswer(Dialect dialect);

  // Takes a piece of the round's stream; returns what goes to the caller. The end of a round is
  // held back.
  std::string TakePiece(std::string_view piece);
  // Takes the round's answer as a whole body.
  void TakeBody(std::string_view body);

  struct Round {
    answer::RecordedAnswer said = {};  // with all its calls
    std::vector<Call> reads = {};      // those that the gateway answers
    bool goes_on = false;              // there are such, and no others
  };
  // The round has ended. Returns nullopt if it was no complete answer. Called once for each.
  std::optional<Round> EndRound();
  // Another round follows.
  void BeginRound();
  // No other round follows. Returns the end of the stream, or the whole body. `is_cut`: the model
  // wanted another one.
  std::string Finish(bool is_cut);

 private:
  const Dialect dialect_;
  const std::unique_ptr<JoinedForm> form_;
  answer::EventCutter events_;
  std::unique_ptr<answer::AnswerReader> reader_;  // of the round
  answer::AnswerReader::State state_ = answer::AnswerReader::State::kOpen;
  bool has_body_ = false;
  bool is_answer_ = false;  // the body is one
  std::string body_;        // of the round, as it is
};

}  // namespace kvgate::session::results
