// Recall: has vectors made for the search in a session's older turns: of the user's newest words
// while their request waits a little, and of passages in the background once their turn is
// answered. The requests are ordinary ones to /v1/embeddings, routed, limited and recorded as any
// other, and have no credential of the caller's. What fails costs the session nothing but that it
// is searched by words.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/proxy/handler/own_request.h"
#include "gateway/session/sessions.h"

namespace kvgate::proxy::handler {

// What such a request is for, as a source of the ledger.
inline constexpr std::string_view kRetrievalPurpose = "retrieval";

// True if somebody makes vectors by this model, to whom the texts of this request may go: what is
// private stays on this machine.
bool MayAskFor(const RequestContext& request, std::string_view model);

class VectorRequests {
 public:
  struct Args {
    std::string model = {};
    std::string_view session = {};  // the key, for the record
  };
  // `request` is one of the caller's, and need not outlive this.
  VectorRequests(const RequestContext& request, const Args& args);

  // Returns the vectors of these texts in their order. A text that the model refuses is cut; if
  // that does not help, while others are taken, it has none. Ends soon after Cancel of the sink.
  Task<Result<std::vector<session::retrieval::Meaning>>> Ask(std::vector<std::string> texts);

  // Cancels what is asked for in this time from now, in place of an earlier time.
  void GiveUpIn(std::chrono::seconds time);
  // It was cancelled so.
  bool is_late() const { return *is_late_; }

  OwnRequests& requests() { return requests_; }

 private:
  using Meanings = std::vector<session::retrieval::Meaning>;
  // One request. Fails with kInvalidArgument if the texts are refused.
  Task<Result<Meanings>> AskOnce(std::vector<std::string> texts);
  // A text that was refused.
  Task<Result<Meanings>> AskCut(std::string text);

  const std::string model_;
  OwnRequests requests_;
  upstream::wire::Timer timer_;
  const std::shared_ptr<bool> is_late_ = std::make_shared<bool>(false);
};

// Returns the vector of what the user says now, if it is of use; unknown if it fails, or does not
// come within two seconds. REQUIRES: the turn is loaded.
Task<session::retrieval::Meaning> AskForQuestion(RequestContext& request,
                                                 const session::SessionTurn& turn);

// Begins to have vectors made of what a turn that has been answered leaves to be done. The session
// is not held: its next turn reads them.
void BeginEmbedding(const RequestContext& request, session::SessionTurn& turn);

}  // namespace kvgate::proxy::handler
