// ReadingAnswer: the answer of a session whose model can read results of tools that are kept
// (gateway/session/results). Where it calls that tool, the gateway answers the call and asks again,
// by a request of its own that goes the way of all others; the caller gets all rounds as one
// answer, which streams on as they come.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/proxy/provider/answer.h"
#include "gateway/session/results/joined_answer.h"
#include "gateway/session/sessions.h"

namespace kvgate::proxy::provider {

// How the request for a round was answered.
struct RoundReply {
  int status = 0;
  std::string body = {};  // what did not go to `pass`
  bool is_gone = false;   // the client left, or the server ends
};
// Takes a piece of an answer; false if no more are wanted.
using PassPiece = std::function<Task<bool>(std::string_view piece)>;
// Asks for a round by a request of the gateway's own. The pieces of its answer go to `pass`; it
// comes as a whole where that is empty.
using AskRound = std::function<Task<RoundReply>(std::string body, PassPiece pass)>;

// Rounds that one answer takes at most; after that it ends with what it has.
inline constexpr int kRoundsMax = 8;

class ReadingAnswer final : public Answer {
 public:
  // `inner` must outlive it, and is ended by it. REQUIRES: the turn's model has the tool.
  ReadingAnswer(request::RequestContext& request, session::Sessions& sessions, Answer& inner,
                std::shared_ptr<session::SessionTurn> turn, AskRound ask);

  Task<Begun> Begin() override;
  Task<Result<Piece>> Next() override;
  void End(Fate fate) override;

 private:
  enum class Form : uint8_t { kAsItIs, kEvents };
  Task<Begun> BeginBody(std::string body);
  // The first round has ended. Makes those that follow, and returns what is left to be sent: the
  // end of the stream, or the whole body. What comes before the end goes to the caller's sink.
  Task<Result<std::string>> Continue();
  // Notes what a round said and what its calls got.
  Task<Result<void>> Take(session::results::JoinedAnswer::Round round);
  Task<Result<std::vector<session::results::CallResult>>> Read(
      std::vector<session::results::Call> calls);
  // Asks the next round, with all that was said so far.
  Task<Result<void>> Ask();
  Result<void> TakeReply(const RoundReply& reply);

  request::RequestContext& request_;
  session::Sessions& sessions_;
  Answer& inner_;
  const std::shared_ptr<session::SessionTurn> turn_;
  const AskRound ask_;
  session::results::JoinedAnswer joined_;
  session::answer::RecordedAnswer said_;
  std::vector<session::transcript::Message> newest_;  // what the last round said and got
  std::string body_;                                  // of the request of the round
  Form form_ = Form::kAsItIs;
  bool has_ended_ = false;  // the first round has
  bool is_over_ = false;    // inner_ was ended
  std::string text_;        // the piece under way
};

}  // namespace kvgate::proxy::provider
