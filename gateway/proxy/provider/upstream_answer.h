// UpstreamAnswer: an upstream's answer to one request: the upstream is chosen, the request made for
// it and sent, and what comes back is passed on as it is or translated.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "gateway/proxy/provider/answer.h"
#include "gateway/proxy/provider/forwarded_body.h"
#include "gateway/proxy/provider/outgoing_request.h"
#include "gateway/proxy/provider/translated_body.h"
#include "gateway/proxy/provider/upstream_exchange.h"
#include "gateway/route/single_flight.h"

namespace kvgate::proxy::provider {

class UpstreamAnswer final : public Answer, private request::Watcher {
 public:
  struct Options {
    upstream::Upstream* upstream = nullptr;  // null: chosen by header or model
    std::string_view model = {};             // the model to ask for; empty: the body's own
    bool is_unknown_path = false;            // the path is none of the gateway's
    bool has_next = false;                   // another provider can be asked if this one fails
    // Completed when the answer begins; may be null.
    route::SingleFlight::Participant* participant = nullptr;
  };
  UpstreamAnswer(request::RequestContext& request, const Options& options);
  ~UpstreamAnswer() override;

  Task<Begun> Begin() override;
  Task<Result<Piece>> Next() override;
  void End(Fate fate) override;

 private:
  using Clock = SteadyClock;
  void OnTick(Clock::time_point now) override;
  void OnGone() override;
  void OnEnd() override { OnGone(); }

  // Chooses the upstream and checks what the caller may ask of it.
  Task<Result<upstream::Upstream*>> Choose();
  Task<Begun> Ask();
  // Sends the request and waits for the head of the answer. If the upstream refuses what the
  // gateway has added, the request is sent once more without.
  Task<Result<void>> Send();
  // Asks the provider to keep the request's prefix, if that pays.
  void OrderCache();
  // True if the next provider is asked instead of passing this one's answer or failure on.
  bool PassesOn(const Result<void>& started);
  Begun Refuse(const Error& error);
  // The client left, or the server gave the request up, before the answer began.
  Begun Left();
  // The answer when the upstream gave none.
  Begun Failure(const Error& error);
  // An estimated token count, for upstreams that cannot count tokens.
  Task<Begun> Estimate();
  bool EstimatesTokens() const;

  request::RequestContext& request_;
  const Options options_;
  std::string model_;
  UpstreamExchange exchange_;
  std::optional<OutgoingRequest> outgoing_;
  std::optional<ForwardedBody> forwarded_;
  std::optional<TranslatedBody> translated_;
  bool is_whole_ = false;  // the answer is one response of the gateway's own
};

}  // namespace kvgate::proxy::provider
