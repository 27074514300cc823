#include "gateway/proxy/handler/own_data.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "gateway/dashboard/assets.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/local/prefix_service.h"
#include "gateway/proxy/handler/data/ledger_data.h"
#include "gateway/proxy/handler/data/memory_data.h"
#include "gateway/proxy/handler/data/session_data.h"
#include "gateway/proxy/handler/generation.h"
#include "gateway/proxy/handler/prompts/prompt_data.h"
#include "gateway/proxy/request/query.h"

namespace kvgate::proxy::handler {

using request::Response;

namespace {

Response ToResponse(Result<std::string> body) {
  return body ? Response{.body = std::move(*body)} : request::ErrorResponse(body.error());
}

// The query's paging parameters; owns the strings that args() refers to.
struct PageQuery {
  explicit PageQuery(std::string_view target)
      : limit(request::QueryValue(target, "limit")),
        order(request::QueryValue(target, "order")),
        after(request::QueryValue(target, "after")) {}
  dialect::responses::PageArgs args() const {
    return {.limit = limit, .order = order, .after = after};
  }
  std::string limit;
  std::string order;
  std::string after;
};

Response AnswerMemory(const ServiceCall& call) {
  return data::AnswerMemory({.sessions = call.sessions,
                             .tenant = local::TenantOf(call.caller.credential),
                             .route = call.route,
                             .place = call.place,
                             .body = call.body});
}

Response AnswerSession(const ServiceCall& call) {
  return data::AnswerSession({.service = call.service,
                              .sessions = call.sessions,
                              .tenant = local::TenantOf(call.caller.credential),
                              .route = call.route,
                              .place = call.place,
                              .target = call.target,
                              .body = call.body,
                              .request_id = call.request_id});
}

Response AnswerResponse(const ServiceCall& call) {
  session::Responses& responses = call.service.responses();
  const std::string& target = call.target;
  const std::string tenant = local::TenantOf(call.caller.credential);
  const std::string& id = call.place.argument;
  switch (call.route) {
    case Route::kResponse:
      if (request::QueryValue(target, "stream") == "true") {
        return request::ErrorResponse(
            MakeError(ErrorCode::kUnsupported, "http",
                      "Unsupported value for 'stream': a response that is kept "
                      "comes as a whole.",
                      "stream"));
      }
      return ToResponse(responses.Get(tenant, id));
    case Route::kResponseDelete:
      return ToResponse(responses.Delete(tenant, id));
    case Route::kResponseItems:
      return ToResponse(responses.ListInput(tenant, id, PageQuery(target).args()));
    default:
      return ToResponse(responses.Cancel(tenant, id));
  }
}

Response AnswerConversation(const ServiceCall& call) {
  session::Conversations& conversations = call.service.conversations();
  const request::RoutePlace& place = call.place;
  const std::string& target = call.target;
  const std::string& body = call.body;
  const std::string tenant = local::TenantOf(call.caller.credential);
  const session::Conversations::Place at{
      .tenant = tenant, .id = place.argument, .request_id = call.request_id};
  switch (call.route) {
    case Route::kConversations:
      return ToResponse(conversations.Create(tenant, call.request_id, body));
    case Route::kConversation:
      return ToResponse(conversations.Get(at));
    case Route::kConversationUpdate:
      return ToResponse(conversations.Update(at, body));
    case Route::kConversationDelete:
      return ToResponse(conversations.Delete(at));
    case Route::kConversationItems:
      return ToResponse(conversations.ListItems(at, PageQuery(target).args()));
    case Route::kConversationAdd:
      return ToResponse(conversations.AddItems(at, body));
    case Route::kConversationItem:
      return ToResponse(conversations.GetItem(at, place.item));
    default:
      return ToResponse(conversations.RemoveItem(at, place.item));
  }
}

Response AnswerPrefix(const ServiceCall& call) {
  local::PrefixService& prefixes = call.service.prefixes();
  const request::RoutePlace& place = call.place;
  switch (call.route) {
    case Route::kPrefixes:
      return ToResponse(prefixes.List(call.caller));
    case Route::kPrefixesRemoveAll:
      return ToResponse(prefixes.RemoveAll(place.force));
    case Route::kPrefixRemove:
      return ToResponse(prefixes.Remove(call.caller, place.argument, place.force));
    case Route::kPrefixesVerify:
      return ToResponse(prefixes.Verify([&call](uint64_t done, uint64_t) {
        call.steps->store(done, std::memory_order_relaxed);
      }));
    case Route::kPrefixPin:
      return ToResponse(prefixes.Pin(call.caller, place.argument, call.body));
    default:
      return ToResponse(prefixes.Unpin(call.caller, place.argument));
  }
}

// The page's files are the same for everybody, and compiled into the program.
Response AnswerDashboard(const ServiceCall& call) {
  if (call.route == Route::kDashboardRoot) {
    // Relative, so that a proxy may put a path in front.
    return {.status = 308, .content_type = "text/plain", .headers = {{"location", "dashboard/"}}};
  }
  dashboard::Answer answer = dashboard::AnswerAsset({.file = call.place.argument,
                                                     .accept_encoding = call.accept_encoding,
                                                     .if_none_match = call.if_none_match});
  if (answer.status == 404) {
    return request::StatusResponse(404, "The dashboard has no such file.");
  }
  return {.status = answer.status,
          .content_type = std::move(answer.content_type),
          .body = std::move(answer.body),
          .headers = std::move(answer.headers)};
}

// An admin may ask for another tenant's.
Response AnswerTemplates(const ServiceCall& call) {
  if (call.prompts == nullptr) {
    return request::StatusResponse(404, "Prompts are not examined here: there is no upstream.");
  }
  const std::string tenant = request::QueryValue(call.target, "tenant");
  if (!tenant.empty() && tenant != call.caller.tenant && !call.caller.is_admin()) {
    return request::StatusResponse(403, "Only an admin may see another tenant's templates.");
  }
  return {.body = call.prompts->ListTemplates(tenant.empty() ? call.caller.tenant : tenant)};
}

}  // namespace

CallPlace PlaceOf(Route route) {
  switch (route) {
    case Route::kRoot:
    case Route::kHealth:
    case Route::kReady:
    case Route::kModels:
    case Route::kModel:
    case Route::kEmbeddings:
    case Route::kBudgets:
    case Route::kDashboardRoot:
    case Route::kDashboard:
    case Route::kDashboardAsset:
      return CallPlace::kHere;
    case Route::kMetrics:
    case Route::kStats:
      return CallPlace::kKnown;
    case Route::kPrefixesRemoveAll:
    case Route::kPrefixesVerify:
    case Route::kAdvice:
      return CallPlace::kBulk;
    default:
      return CallPlace::kStore;
  }
}

Response Answer(const ServiceCall& call) {
  service::Service& service = call.service;
  const request::RoutePlace& place = call.place;
  if (IsKept(call.route)) {
    return call.route < Route::kConversations ? AnswerResponse(call) : AnswerConversation(call);
  }
  if (request::IsSession(call.route)) return AnswerSession(call);
  if (request::IsMemory(call.route)) return AnswerMemory(call);
  if (request::IsNamedPrompt(call.route)) {
    return ToResponse(
        prompts::AnswerPrompts(call.named_prompts, {.place = place, .body = call.body}));
  }
  switch (call.route) {
    case Route::kRoot:
      return {.body = R"({"name":"kvgate","status":"ok"})"};
    case Route::kHealth:
      return {.body = R"({"status":"ok"})"};
    case Route::kReady:
      return service.ready()
                 ? Response{.body = R"({"status":"ready"})"}
                 : request::StatusResponse(
                       503, "The model is being loaded or the server is shutting down.");
    case Route::kMetrics:
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = service.MetricsAsKnown()};
    case Route::kStats: {
      const request::QueryParameters query = request::ParametersOf(call.target);
      if (!query.empty()) return ToResponse(data::StatsBy(service, call.caller, query));
      return {.body = service.StatsAsKnown(call.caller)};
    }
    case Route::kModels:
      return {.body = service.ListModels(call.may_use)};
    case Route::kModel:
      return ToResponse(service.GetModel(place.argument));
    case Route::kEmbeddings:
      return request::StatusResponse(404,
                                     "Nothing here makes embeddings: there is no upstream, and "
                                     "engine.embedding_model names no model.");
    case Route::kRequests:
      return ToResponse(service.ListRequests(call.caller, request::ParametersOf(call.target)));
    case Route::kRequest:
      return ToResponse(service.GetRequest(call.caller, place.argument));
    case Route::kAdvice:
      return ToResponse(data::Advise(service, call.caller, request::ParametersOf(call.target)));
    case Route::kBudgets:
      return ToResponse(data::Budgets({.service = service,
                                       .caller = call.caller,
                                       .table = call.targets->budgets,
                                       .query = request::ParametersOf(call.target)}));
    case Route::kTemplates:
      return AnswerTemplates(call);
    case Route::kDashboardRoot:
    case Route::kDashboard:
    case Route::kDashboardAsset:
      return AnswerDashboard(call);
    case Route::kPrefixes:
    case Route::kPrefixesRemoveAll:
    case Route::kPrefixRemove:
    case Route::kPrefixesVerify:
    case Route::kPrefixPin:
    case Route::kPrefixUnpin:
      return AnswerPrefix(call);
    default:  // served by other functions
      return request::StatusResponse(500, "This route has no answer.");
  }
}

namespace {

using Clock = SteadyClock;

// A request for numbers waits this long for fresh ones of the stores, then uses older ones.
constexpr std::chrono::milliseconds kNumbersTimeout{1'000};
constexpr std::chrono::milliseconds kNumbersPoll{5};

}  // namespace

// Only one refresh runs at a time: on a disk that hangs, several would take all of its threads.
Task<void> RefreshNumbers(RequestContext& request) {
  request::Environment& environment = request.environment();
  const Clock::time_point deadline = Clock::now() + kNumbersTimeout;
  while (environment.refreshing->exchange(true)) {
    if (Clock::now() >= deadline || request.sink().is_cancelled()) co_return;
    co_await request.sink().signal().SleepUntil(Clock::now() + kNumbersPoll);
  }
  std::function<void()> work = [&service = environment.service,
                                refreshing = environment.refreshing] {
    service.RefreshStores();
    refreshing->store(false);
  };
  const Result<void> begun =
      co_await request.work().RunUntil(environment.pools.store, std::move(work), deadline);
  if (!begun) environment.refreshing->store(false);
}

namespace {

class OwnDataHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override { co_await ServeOwnData(request); }
};

class CountedDataHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    const Result<void> admitted = request::AdmitOwnData(request);
    if (admitted) {
      co_await ServeOwnData(request);
    } else {
      Error error = admitted.error();
      co_await request.Refuse(std::move(error));
    }
  }
};

// Returns true if an upstream keeps the object; ids minted by this gateway belong to the gateway.
bool IsForeign(const RequestContext& request, Route route) {
  if (!request.Header("x-kvgate-upstream").empty()) return true;
  if (route == Route::kConversations) return !request.environment().service.has_local();
  return dialect::responses::RequestOf(request.place().argument).empty();
}

class StoredDataHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    if (!request.targets().upstreams->empty() && IsForeign(request, request.place().route)) {
      RequestRouter router(request);
      co_await router.Forward(/*is_unknown_path=*/false);
    } else {
      co_await CountedData().Serve(request);
    }
  }
};

}  // namespace

Task<void> ServeOwnData(RequestContext& request) {
  request::Environment& environment = request.environment();
  auto response =
      std::make_shared<Response>(request::StatusResponse(500, "The server failed to answer."));
  const Route route = request.place().route;
  const auto text = [&](std::string_view name) { return std::string(request.Header(name)); };
  auto call =
      std::make_shared<ServiceCall>(ServiceCall{.service = environment.service,
                                                .prompts = environment.options.prompts,
                                                .sessions = environment.options.sessions,
                                                .named_prompts = environment.options.named_prompts,
                                                .targets = environment.targets.Get(),
                                                .route = route,
                                                .place = request.place(),
                                                .target = std::string(request.head().target),
                                                .body = std::move(request.body().bytes()),
                                                .caller = request.caller().who(),
                                                .request_id = request.head().request_id,
                                                .accept_encoding = text("accept-encoding"),
                                                .if_none_match = text("if-none-match"),
                                                .may_use = request.caller().ModelFilter()});
  auto lease = std::make_shared<work::BodyBudget::Lease>(std::move(request.body().lease()));
  CallPlace place = PlaceOf(route);
  // Sums by time are on the disk.
  if (route == Route::kStats && !request::ParametersOf(call->target).empty())
    place = CallPlace::kStore;
  std::function<void()> work = [call, response, lease] { *response = Answer(*call); };
  Result<void> ran;
  if (place == CallPlace::kStore || place == CallPlace::kBulk) {
    service::WorkQueue& pool =
        place == CallPlace::kStore ? environment.pools.store : environment.pools.bulk;
    ran = co_await request.work().RunOnDisk(pool, std::move(work), call->steps);
  } else {
    if (place == CallPlace::kKnown) co_await RefreshNumbers(request);
    work();
  }
  Response answer = ran ? std::move(*response) : request::ErrorResponse(ran.error());
  co_await request.Reply(std::move(answer));
}

const Handler& OwnData() {
  static const OwnDataHandler handler;
  return handler;
}

const Handler& CountedData() {
  static const CountedDataHandler handler;
  return handler;
}

const Handler& StoredData() {
  static const StoredDataHandler handler;
  return handler;
}

}  // namespace kvgate::proxy::handler
