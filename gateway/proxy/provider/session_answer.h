// SessionAnswer: an answer that becomes a turn of a session. It passes the answer of any provider
// on as it is, but for its end, which is held back until the turn is stored. What is broken,
// refused or left by its client is not stored.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gateway/proxy/provider/answer.h"
#include "gateway/session/answer/answer_recorder.h"
#include "gateway/session/sessions.h"

namespace kvgate::proxy::provider {

class SessionAnswer final : public Answer {
 public:
  // `inner` must outlive it, and is ended by it.
  SessionAnswer(request::RequestContext& request, session::Sessions& sessions, Answer& inner,
                std::shared_ptr<session::SessionTurn> turn);

  Task<Begun> Begin() override;
  Task<Result<Piece>> Next() override;
  void End(Fate fate) override { inner_.End(fate); }

 private:
  enum class Form : uint8_t { kAsItIs, kEvents, kBody };
  // Reads a body as a whole, so that an answer that cannot be stored keeps a status of its own.
  Task<Begun> BeginBody(Begun begun);
  Task<Result<void>> Store();
  // The session can be taken by others; called before its client can know that the answer ended.
  void LetGo() { turn_->lock.reset(); }

  request::RequestContext& request_;
  session::Sessions& sessions_;
  Answer& inner_;
  const std::shared_ptr<session::SessionTurn> turn_;
  session::answer::AnswerRecorder recorder_;
  Form form_ = Form::kAsItIs;
  bool is_stored_ = false;
  bool has_ended_ = false;  // the last piece of the inner answer has come
  std::string text_;        // the piece under way, or the whole body
};

}  // namespace kvgate::proxy::provider
