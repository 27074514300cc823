// Explains how kvgate would treat a request for an upstream, without sending it.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/router.h"
#include "gateway/proxy/request/query.h"
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

// As long as a request that is sent waits for what its conversation has sent before.
constexpr std::chrono::seconds kRecallTime{2};

Response NoLocalEngine() {
  return ErrorResponse({.code = ErrorCode::kNotFound,
                        .source = "explain",
                        .detail = "There is no local engine here.",
                        .field = "upstream"});
}

// What is asked to be explained, and who would answer it. It borrows from its request.
struct Question {
  service::Prompts* prompts = nullptr;
  std::optional<dialect::form::Endpoint> endpoint;
  std::string credential;
  const config::UpstreamConfig* upstream = nullptr;
  std::string provider;

  service::Prompts::Args ArgsOf(RequestContext& request) const {
    return {.body = request.body().bytes(),
            .endpoint = *endpoint,
            .tenant = request.caller().tenant(),
            .upstream = *upstream,
            .provider = provider,
            .key = request.caller().key_config(),
            .fields = request.head().fields,
            .credential = credential};
  }
};

// Returns why nothing is explained; nullopt if it is.
std::optional<Response> Read(RequestContext& request, Question& question) {
  const std::string endpoint = request::QueryValue(request.head().target, "endpoint");
  const std::string name = request::QueryValue(request.head().target, "upstream");
  question.prompts = request.environment().options.prompts;
  const service::Service& service = request.environment().service;
  const std::optional<dialect::form::Endpoint> kind =
      service::PromptEndpoint(endpoint.empty() ? "chat_completions" : endpoint);
  question.endpoint = kind;
  if (question.prompts == nullptr) {
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
  const bool messages = *kind == dialect::form::Endpoint::kMessages;
  const dialect::form::Api dialect =
      messages ? dialect::form::Api::kAnthropic : dialect::form::Api::kOpenAi;
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
    question.upstream = &request.targets().engine;
    question.provider = route::Target::kLocal;
    return std::nullopt;
  }
  const Result<upstream::Upstream*> chosen = request.targets().upstreams->Choose(
      {.dialect = dialect, .name = wanted, .model = scan.model});
  if (!chosen) return ErrorResponse(chosen.error());
  question.upstream = &(*chosen)->config();
  question.provider = (*chosen)->provider();
  question.credential = request.caller().SentCredential(*chosen);
  return std::nullopt;
}

class ExplanationHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    Question question;
    Response response;
    service::Prompts::Explanation explained;
    work::WorkRunner& runner = request.work();
    std::function<void()> begin = [&] {
      std::optional<Response> refusal = Read(request, question);
      if (refusal) {
        response = *std::move(refusal);
      } else {
        explained = question.prompts->BeginExplanation(question.ArgsOf(request));
        response.body = std::move(explained.text);
      }
    };
    Result<void> ran = co_await runner.RunOn(runner.pools().request, std::move(begin));
    if (ran && explained.recall) {
      // What is not read in time is explained as lost, as it would be sent.
      std::function<void()> recall = std::move(explained.recall);
      (void)co_await runner.RunUntil(runner.pools().store, std::move(recall),
                                     work::WorkRunner::Clock::now() + kRecallTime);
      std::function<void()> finish = [&] {
        response.body = question.prompts->FinishExplanation(question.ArgsOf(request), explained);
      };
      ran = co_await runner.RunOn(runner.pools().request, std::move(finish));
    }
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
