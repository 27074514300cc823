// SessionStep: the part of a request's life that is its session's. It stands in front of the
// router: it holds the session, puts what the session has into the request's body, and what is
// behind it sees an ordinary transcript. Where the session is to be folded, it begins that once the
// turn has been answered. It knows no provider.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gateway/proxy/handler/fold_runner.h"
#include "gateway/proxy/handler/handler.h"
#include "gateway/session/sessions.h"

namespace kvgate::proxy::handler {

// The dialect of a route whose requests have messages; nullopt for others.
std::optional<dialect::form::Dialect> DialectWithTurns(request::Route route);

// Prompts are counted with the local model, and fit its context. The request must outlive `args`.
void CountWithLocalModel(const RequestContext& request, dialect::form::Dialect dialect,
                         session::Sessions::ComposeArgs& args);
// Prompts fit the context of the upstream's model, where that is known; their tokens are estimated.
void FitUpstreamModel(const RequestContext& request, dialect::form::Dialect dialect,
                      const std::string& model, session::Sessions::ComposeArgs& args);

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
  // The turn has been answered: what is due to be folded is, in the background. A request that
  // names no session may have answered one of stored responses.
  void AfterAnswer();

 private:
  // Reads the headers; nullopt if the session is only to be recognised.
  Result<std::optional<session::SessionAsk>> Ask() const;
  Task<Result<void>> Expand(session::SessionAsk ask, AsksLocal asks_local);
  // Holds and composes, and once more if a summary came meanwhile.
  Task<Result<void>> Prepare(bool may_wait);
  // Waits until this request holds the session.
  Task<Result<void>> Hold();
  // Reads what the session has, and asks what the user's words mean, once.
  Task<Result<void>> Load();
  Task<Result<void>> Compose();
  // Waits, where that may help, for a summary that is under way or is begun here. Returns true if
  // one came.
  Task<bool> AwaitFold();
  // The session is to be folded with its turn as it is; null if it cannot be, by its way.
  std::shared_ptr<FoldRunner> MakeFold(bool is_background);
  bool NeedsCallersKey(const std::string& model) const;

  RequestContext& request_;
  std::shared_ptr<session::SessionTurn> turn_;
  std::string composed_;                                 // the body that will be answered
  std::optional<session::retrieval::Meaning> question_;  // once it was asked for
  bool is_local_ = false;
};

}  // namespace kvgate::proxy::handler
