// The life of a request for a model: who answers it, in which order they are asked, and what comes
// back. One target is asked after the other until one answers; no byte reaches the client before.
#pragma once

#include <memory>

#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/session_step.h"
#include "gateway/proxy/provider/local_answer.h"
#include "gateway/proxy/provider/upstream_answer.h"
#include "gateway/route/route_table.h"

namespace kvgate::proxy::handler {

class RequestRouter {
 public:
  explicit RequestRouter(RequestContext& request) : request_(request), session_(request) {}
  // Answers a request for a model.
  Task<void> Serve();
  // Passes a request on to the upstream that its header or its model names.
  Task<void> Forward(bool is_unknown_path);

 private:
  // Takes an answer to the sink, and into the request's session if it has one.
  Task<bool> DeliverFrom(provider::Answer& answer);
  // Takes it to the sink, with what goes out in front of it.
  Task<bool> DeliverAlone(provider::Answer& answer);
  // The route of the model; null if it has none.
  route::Route* ModelRoute() const;
  bool RunsLocally() const;
  Task<void> ServeRouted(route::Route& route);
  // Asks the targets of the route in their order.
  Task<void> AskTargets(route::Route& route, const route::Query& query);
  // Waits for the leader, a request with the same prefix that has not been answered yet: the
  // provider's cache entry can be read as soon as the leader's answer begins. Returns false if the
  // server wants answers to end meanwhile.
  Task<bool> WaitForFlight(route::Route& route);
  // A refusal has a record too, of no upstream.
  Task<void> RefuseRouted(Error error);
  Task<bool> AskTarget(const route::Target& target, bool has_next);
  Task<bool> AskLocal(provider::LocalAnswer::Options options);
  Task<void> CountTokens();
  Task<bool> AskUpstream(provider::UpstreamAnswer::Options options);

  RequestContext& request_;
  SessionStep session_;
  // Null if requests do not wait for each other.
  std::unique_ptr<route::SingleFlight::Participant> participant_;
};

}  // namespace kvgate::proxy::handler
