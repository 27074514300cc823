// Explains how kvgate would treat a request for an upstream, without sending it.
#include <functional>
#include <utility>

#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/router.h"
#include "gateway/route/route_table.h"

namespace kvgate::proxy::handler {

using request::ErrorResponse;
using request::Response;

namespace {

// The upstream that the model's route asks first; empty if the model has no route.
std::string RoutedTo(const request::Targets& targets, std::string_view model) {
  const route::Route* const route = targets.routes->Find(model);
  if (route == nullptr) return "";
  const std::string& first = route->config().targets.front();
  return first.substr(0, first.find('/'));
}

Response NoLocalEngine() {
  return ErrorResponse({.code = ErrorCode::kNotFound,
                        .source = "explain",
                        .detail = "There is no local engine here.",
                        .field = "upstream"});
}

Response Explain(RequestContext& request) {
  const std::string endpoint = QueryValue(request.head().target, "endpoint");
  const std::string name = QueryValue(request.head().target, "upstream");
  service::Prompts* const prompts = request.environment().options.prompts;
  const service::Service& service = request.environment().service;
  const std::optional<upstream::wire::Endpoint> kind =
      service::PromptEndpoint(endpoint.empty() ? "chat_completions" : endpoint);
  if (prompts == nullptr) {
    return ErrorResponse({.code = ErrorCode::kNotFound,
                          .source = "explain",
                          .detail = "This server explains no requests."});
  }
  if (!kind) {
    return ErrorResponse({.code = ErrorCode::kInvalidArgument,
                          .source = "explain",
                          .detail = "endpoint must be chat_completions, responses or messages.",
                          .field = "endpoint"});
  }
  const upstream::BodyScan scan = upstream::ScanBody(request.body().bytes());
  if (!scan.readable) {
    return ErrorResponse({.code = ErrorCode::kInvalidArgument,
                          .source = "explain",
                          .detail = "The body is not a request in JSON."});
  }
  // Although no request is sent, the work here is the same, so it counts against the key's limits.
  if (const auto admitted = request.caller().Admit(scan.model, scan.model.empty(),
                                                   request.environment().options.exchange_log);
      !admitted) {
    return ErrorResponse(admitted.error());
  }
  const bool messages = *kind == upstream::wire::Endpoint::kMessages;
  const upstream::wire::Dialect dialect =
      messages ? upstream::wire::Dialect::kAnthropic : upstream::wire::Dialect::kOpenAi;
  const std::string wanted = name.empty() ? RoutedTo(request.targets(), scan.model) : name;
  const bool has_local = service.has_local();
  const bool is_local = wanted == route::Target::kLocal ||
                        (wanted.empty() && has_local &&
                         (request.targets().upstreams->empty() || scan.model.empty() ||
                          service.ServesLocal(scan.model) ||
                          !request.targets().upstreams->Serves(
                              {.dialect = dialect, .endpoint = *kind, .model = scan.model})));
  if (is_local && !has_local) return NoLocalEngine();
  if (is_local) {
    return {.body = prompts->Explain({.body = request.body().bytes(),
                                      .endpoint = *kind,
                                      .tenant = request.caller().tenant(),
                                      .upstream = request.targets().engine,
                                      .provider = route::Target::kLocal,
                                      .key = request.caller().key_config(),
                                      .fields = request.head().fields,
                                      .credential = {}})};
  }
  const Result<upstream::Upstream*> chosen = request.targets().upstreams->Choose(
      {.dialect = dialect, .name = wanted, .model = scan.model});
  if (!chosen) return ErrorResponse(chosen.error());
  const std::string credential = request.caller().SentCredential(*chosen);
  return {.body = prompts->Explain({.body = request.body().bytes(),
                                    .endpoint = *kind,
                                    .tenant = request.caller().tenant(),
                                    .upstream = (*chosen)->config(),
                                    .provider = (*chosen)->provider(),
                                    .key = request.caller().key_config(),
                                    .fields = request.head().fields,
                                    .credential = credential})};
}

class ExplanationHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    Response response;
    std::function<void()> work = [&] { response = Explain(request); };
    const Result<void> ran =
        co_await request.work().RunOn(request.work().pools().request, std::move(work));
    if (!ran) response = ErrorResponse(ran.error());
    co_await request.Reply(std::move(response));
  }
};

}  // namespace

const Handler& Explanation() {
  static const ExplanationHandler handler;
  return handler;
}

}  // namespace kvgate::proxy::handler
