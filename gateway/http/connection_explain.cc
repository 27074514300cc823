// Explains how kvgate would treat a request for an upstream, without sending it.
#include "gateway/http/connection.h"

namespace kvgate::http {

using message::ErrorResponse;

namespace {

// The upstream that the model's route asks first; empty if the model has no route.
std::string RoutedTo(const Targets& targets, std::string_view model) {
  const route::Route* const route = targets.routes->Find(model);
  if (route == nullptr) return "";
  const std::string& first = route->config().targets.front();
  return first.substr(0, first.find('/'));
}

message::Response NoLocalEngine() {
  return ErrorResponse({.code = ErrorCode::kNotFound,
                        .source = "explain",
                        .detail = "There is no local engine here.",
                        .field = "upstream"});
}

}  // namespace

message::Response Connection::HandleExplain() {
  const auto& message = parser_->get();
  const std::string_view target(message.target().data(), message.target().size());
  const std::string endpoint = message::QueryValue(target, "endpoint");
  const std::string name = message::QueryValue(target, "upstream");
  const std::optional<upstream::wire::Endpoint> kind =
      service::PromptEndpoint(endpoint.empty() ? "chat_completions" : endpoint);
  if (context_.options.prompts == nullptr) {
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
  std::string body = message.body();
  const upstream::BodyScan scan = upstream::ScanBody(body);
  if (!scan.readable) {
    return ErrorResponse({.code = ErrorCode::kInvalidArgument,
                          .source = "explain",
                          .detail = "The body is not a request in JSON."});
  }
  // Although no request is sent, the work here is the same, so it counts against the key's limits.
  if (const auto admitted = AdmitModel(scan.model, scan.model.empty()); !admitted) {
    return ErrorResponse(admitted.error());
  }
  const bool messages = *kind == upstream::wire::Endpoint::kMessages;
  const upstream::wire::Dialect dialect =
      messages ? upstream::wire::Dialect::kAnthropic : upstream::wire::Dialect::kOpenAi;
  const std::string wanted = name.empty() ? RoutedTo(*targets_, scan.model) : name;
  const bool has_local = context_.service.has_local();
  const bool is_local = wanted == route::Target::kLocal ||
                        (wanted.empty() && has_local &&
                         (targets_->upstreams->empty() || scan.model.empty() ||
                          context_.service.ServesLocal(scan.model) ||
                          !targets_->upstreams->Serves(
                              {.dialect = dialect, .endpoint = *kind, .model = scan.model})));
  if (is_local && !has_local) return NoLocalEngine();
  const upstream::wire::HeaderFields fields = RequestFields();
  const std::string tenant = Tenant();
  if (is_local) {
    return {.body = context_.options.prompts->Explain({.body = message.body(),
                                                       .endpoint = *kind,
                                                       .tenant = tenant,
                                                       .upstream = service::LocalUpstream(),
                                                       .provider = route::Target::kLocal,
                                                       .fields = fields,
                                                       .credential = {}})};
  }
  const Result<upstream::Upstream*> chosen =
      targets_->upstreams->Choose({.dialect = dialect, .name = wanted, .model = scan.model});
  if (!chosen) return ErrorResponse(chosen.error());
  const std::string credential = SentCredential(*chosen);
  return {.body =
              context_.options.prompts->Explain({.body = message.body(),
                                                 .endpoint = *kind,
                                                 .tenant = tenant,
                                                 .upstream = (*chosen)->config(),
                                                 .provider = (*chosen)->provider(),
                                                 .key = key_ == nullptr ? nullptr : &key_->config(),
                                                 .fields = fields,
                                                 .credential = credential})};
}

}  // namespace kvgate::http
