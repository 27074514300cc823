// What kvgate would do to a request for an upstream, without sending it.
#include "gateway/http/connection.h"

namespace kvgate::http {

Response Connection::HandleExplain() {
  const auto& message = parser_->get();
  const std::string_view target(message.target().data(), message.target().size());
  const std::string endpoint = QueryValue(target, "endpoint");
  const std::string name = QueryValue(target, "upstream");
  const std::optional<upstream::Endpoint> kind =
      service::PromptEndpoint(endpoint.empty() ? "chat_completions" : endpoint);
  if (context_.options.prompts == nullptr) {
    return ErrorResponse(
        {.code = ErrorCode::kNotFound,
         .source = "explain",
         .detail = "There is no upstream here whose requests could be explained."});
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
  // Nothing is sent, and it costs as much work here as what is.
  if (const auto admitted = AdmitModel(scan.model, scan.model.empty()); !admitted) {
    return ErrorResponse(admitted.error());
  }
  const bool messages = *kind == upstream::Endpoint::kMessages;
  const Result<upstream::Upstream*> chosen = targets_->upstreams->Choose(
      {.dialect = messages ? upstream::Dialect::kAnthropic : upstream::Dialect::kOpenAi,
       .name = name,
       .model = scan.model});
  if (!chosen) return ErrorResponse(chosen.error());
  const upstream::HeaderFields fields = RequestFields();
  const std::string tenant = Tenant();
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
