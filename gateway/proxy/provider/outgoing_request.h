// OutgoingRequest: what one upstream gets for a request: under its own name for the model, in its
// own dialect, and with the edits that hit its cache.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "gateway/proxy/provider/exchange_account.h"
#include "gateway/proxy/provider/translation.h"
#include "gateway/proxy/request/request_context.h"
#include "gateway/service/prompts.h"
#include "gateway/upstream/upstream.h"

namespace kvgate::proxy::provider {

class OutgoingRequest {
 public:
  struct Args {
    request::RequestContext& request;
    upstream::Upstream& upstream;
    std::string model;        // as the upstream knows it
    bool is_renamed = false;  // the body has another name for it
    // The upstream has refused the request with what was added: a turn of the system's own, its
    // beta header, or the name of an explicit cache.
    bool no_system_turn = false;
  };
  explicit OutgoingRequest(Args args) : args_(std::move(args)) {}

  // Makes the body. `account` is told of it and may be null. Fails if the request cannot be said in
  // the upstream's dialect, or is against the limits of the caller's key.
  request::Task<Result<void>> Build(ExchangeAccount* account);
  // Null if the upstream speaks the caller's dialect.
  Translation* translation() { return translation_.get(); }

  // The body as the caller sent it, and as it goes out. REQUIRES: Build; the request's body has
  // neither been taken nor released since.
  const std::string& received() const { return shared_ ? *shared_ : args_.request.body().bytes(); }
  const std::string& body() const { return sent_ ? *sent_ : received(); }
  // The head that goes with body().
  std::string Head() const;
  // The path and query that the request goes out with.
  std::string Target() const;

  // Returns true if an answer of this status may be to what was added, so that the upstream would
  // take the rest.
  bool MayBeRefusal(int status) const;
  // What the provider is to be asked beside this request, once that is answered.
  std::optional<service::explicit_cache::CacheOrder> TakeOrder() {
    return std::exchange(prompt_.order, std::nullopt);
  }
  // Forgets that the prompt was prepared; returns it for Prompts::NoteRefused.
  std::shared_ptr<upstream::ExchangePreparation> Withdraw();

  // Takes the body over if it is large, so that a worker can hash it while the answer comes; its
  // memory returns to this thread's pool. Returns null otherwise.
  std::shared_ptr<const std::string> Share();
  const std::shared_ptr<const std::string>& shared() const { return shared_; }
  std::shared_ptr<const std::string> shared_sent() const { return sent_ ? sent_ : shared_; }
  // Gives a body that was shared back to the request, for the next upstream.
  request::Task<void> GiveBack();
  // Releases both bodies, which are not needed once they have been sent.
  void Release();

 private:
  request::Task<Result<void>> Translate(ExchangeAccount* account);
  request::Task<Result<void>> Edit(ExchangeAccount* account);
  // Asks what to send. What the conversation has sent in an earlier process is read first.
  request::Task<Result<service::Prompts::Prompt>> Prepare(service::Prompts& prompts,
                                                          service::Prompts::Args args);
  request::Task<Result<service::Prompts::Prompt>> PrepareOnce(service::Prompts& prompts,
                                                              service::Prompts::Args args);
  // Waits, for a moment at most, until what goes out will be known after a restart.
  request::Task<void> Keep(service::Prompts& prompts);
  void SayLeftOut() const;
  // Names values that are held back in the answer's head, and once a conversation in the log.
  void SayHeld() const;
  // The body as far as it has been made.
  std::string_view text() const {
    return made_.empty() ? std::string_view(args_.request.body().text()) : std::string_view(made_);
  }

  const Args args_;
  // The body with the upstream's model name or in its dialect; empty: as received.
  std::string made_;
  bool has_own_encoding_ = true;  // the body goes out in the content-encoding that it came in
  std::unique_ptr<Translation> translation_;
  service::Prompts::Prompt prompt_;
  std::shared_ptr<const std::string> shared_;  // the received body, if large
  std::shared_ptr<const std::string> sent_;    // goes out instead of it; may be null
};

}  // namespace kvgate::proxy::provider
