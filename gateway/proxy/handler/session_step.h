// SessionStep: the part of a request's life that is its session's. It stands in front of the
// router: it holds the session, puts what the session has into the request's body, and what is
// behind it sees an ordinary transcript. It knows no provider.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "gateway/proxy/handler/handler.h"
#include "gateway/session/sessions.h"

namespace kvgate::proxy::handler {

class SessionStep {
 public:
  explicit SessionStep(RequestContext& request) : request_(request) {}

  // True if the request names a session, so that Begin is to be called.
  static bool IsWanted(const RequestContext& request);

  // Says whether the local engine will answer; called once the body has been scanned.
  using AsksLocal = std::function<bool()>;
  // Returns false if the request has been refused, and answered so.
  Task<bool> Begin(AsksLocal asks_local);
  // The turn that the answer makes; null if it makes none.
  const std::shared_ptr<session::SessionTurn>& turn() const { return turn_; }
  // The request is answered without a turn: its session is free again.
  void LetGo() { turn_.reset(); }

 private:
  // Reads the headers; nullopt if the session is only to be recognised.
  Result<std::optional<session::SessionAsk>> Ask() const;
  Task<Result<void>> Expand(session::SessionAsk ask, AsksLocal asks_local);
  // Waits until this request holds the session.
  Task<Result<void>> Hold();
  Task<Result<void>> Load();
  Task<Result<void>> Compose(bool is_local);

  RequestContext& request_;
  std::shared_ptr<session::SessionTurn> turn_;
};

}  // namespace kvgate::proxy::handler
