#include "gateway/http/service_call.h"

#include <string_view>
#include <utility>

#include "gateway/local/prefix_service.h"
#include "gateway/protocol/form/errors.h"

namespace kvgate::http {

using message::QueryValue;
using message::Response;
using message::Route;

namespace {

Response ToResponse(Result<std::string> body) {
  return body ? Response{.body = std::move(*body)} : message::ErrorResponse(body.error());
}

// The query's paging parameters; owns the strings that args() refers to.
struct PageQuery {
  explicit PageQuery(std::string_view target)
      : limit(QueryValue(target, "limit")),
        order(QueryValue(target, "order")),
        after(QueryValue(target, "after")) {}
  protocol::form::PageArgs args() const { return {.limit = limit, .order = order, .after = after}; }
  std::string limit;
  std::string order;
  std::string after;
};

Response AnswerResponse(const ServiceCall& call) {
  session::Responses& responses = call.service.responses();
  const std::string& target = call.target;
  const std::string tenant = local::TenantOf(call.caller.credential);
  const std::string& id = call.match.argument;
  switch (call.match.route) {
    case Route::kResponse:
      if (QueryValue(target, "stream") == "true") {
        return message::ErrorResponse(
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
  const message::RouteMatch& match = call.match;
  const std::string& target = call.target;
  const std::string& body = call.body;
  const std::string tenant = local::TenantOf(call.caller.credential);
  const session::Conversations::Place place{
      .tenant = tenant, .id = match.argument, .request_id = call.request_id};
  switch (match.route) {
    case Route::kConversations:
      return ToResponse(conversations.Create(tenant, call.request_id, body));
    case Route::kConversation:
      return ToResponse(conversations.Get(place));
    case Route::kConversationUpdate:
      return ToResponse(conversations.Update(place, body));
    case Route::kConversationDelete:
      return ToResponse(conversations.Delete(place));
    case Route::kConversationItems:
      return ToResponse(conversations.ListItems(place, PageQuery(target).args()));
    case Route::kConversationAdd:
      return ToResponse(conversations.AddItems(place, body));
    case Route::kConversationItem:
      return ToResponse(conversations.GetItem(place, match.item));
    default:
      return ToResponse(conversations.RemoveItem(place, match.item));
  }
}

Response AnswerPrefix(const ServiceCall& call) {
  local::PrefixService& prefixes = call.service.prefixes();
  const message::RouteMatch& match = call.match;
  switch (match.route) {
    case Route::kPrefixes:
      return ToResponse(prefixes.List(call.caller));
    case Route::kPrefixesRemoveAll:
      return ToResponse(prefixes.RemoveAll(match.force));
    case Route::kPrefixRemove:
      return ToResponse(prefixes.Remove(call.caller, match.argument, match.force));
    case Route::kPrefixesVerify:
      return ToResponse(prefixes.Verify([&call](uint64_t done, uint64_t) {
        call.steps->store(done, std::memory_order_relaxed);
      }));
    case Route::kPrefixPin:
      return ToResponse(prefixes.Pin(call.caller, match.argument, call.body));
    default:
      return ToResponse(prefixes.Unpin(call.caller, match.argument));
  }
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
      return CallPlace::kHere;
    case Route::kMetrics:
    case Route::kStats:
      return CallPlace::kKnown;
    case Route::kPrefixesRemoveAll:
    case Route::kPrefixesVerify:
      return CallPlace::kBulk;
    default:
      return CallPlace::kStore;
  }
}

Response Answer(const ServiceCall& call) {
  service::Service& service = call.service;
  const message::RouteMatch& match = call.match;
  if (message::IsKept(match.route)) {
    return match.route < Route::kConversations ? AnswerResponse(call) : AnswerConversation(call);
  }
  switch (match.route) {
    case Route::kRoot:
      return {.body = R"({"name":"kvgate","status":"ok"})"};
    case Route::kHealth:
      return {.body = R"({"status":"ok"})"};
    case Route::kReady:
      return service.ready()
                 ? Response{.body = R"({"status":"ready"})"}
                 : message::StatusResponse(
                       503, "The model is being loaded or the server is shutting down.");
    case Route::kMetrics:
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = service.MetricsAsKnown()};
    case Route::kStats:
      return {.body = service.StatsAsKnown(call.caller)};
    case Route::kModels:
      return {.body = service.ListModels(call.may_use)};
    case Route::kModel:
      return ToResponse(service.GetModel(match.argument));
    case Route::kEmbeddings:
      return message::StatusResponse(404, "There is no upstream here that could make embeddings.");
    case Route::kRequests: {
      const std::string limit = QueryValue(call.target, "limit");
      const std::string before = QueryValue(call.target, "before");
      return ToResponse(service.ListRequests(call.caller, {.limit = limit, .before = before}));
    }
    case Route::kRequest:
      return ToResponse(service.GetRequest(call.caller, match.argument));
    case Route::kPrefixes:
    case Route::kPrefixesRemoveAll:
    case Route::kPrefixRemove:
    case Route::kPrefixesVerify:
    case Route::kPrefixPin:
    case Route::kPrefixUnpin:
      return AnswerPrefix(call);
    default:  // served by other functions
      return message::StatusResponse(500, "This route has no answer.");
  }
}

}  // namespace kvgate::http
