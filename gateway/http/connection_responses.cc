// What is asked of responses and conversations by their ids. Everything here runs on a worker.
#include <utility>

#include "gateway/http/connection.h"
#include "gateway/protocol/errors.h"
#include "gateway/service/prefix_service.h"

namespace kvgate::http {
namespace {

Response ToResponse(Result<std::string> body) {
  return body ? Response{.body = std::move(*body)} : ErrorResponse(body.error());
}

// A page as the query asks for it; views of `query`.
struct PageQuery {
  explicit PageQuery(std::string_view target)
      : limit(QueryValue(target, "limit")),
        order(QueryValue(target, "order")),
        after(QueryValue(target, "after")) {}
  protocol::PageArgs args() const { return {.limit = limit, .order = order, .after = after}; }
  std::string limit;
  std::string order;
  std::string after;
};

}  // namespace

Response Connection::HandleResponse(const RouteMatch& match) {
  service::Responses& responses = context_.service.responses();
  const auto& text = parser_->get().target();
  const std::string_view target(text.data(), text.size());
  const std::string tenant = service::TenantOf(Credential());
  const std::string& id = match.argument;
  switch (match.route) {
    case Route::kResponse:
      if (QueryValue(target, "stream") == "true") {
        return ErrorResponse(MakeError(ErrorCode::kUnsupported, "http",
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

Response Connection::HandleConversation(const RouteMatch& match) {
  service::Conversations& conversations = context_.service.conversations();
  const auto& text = parser_->get().target();
  const std::string_view target(text.data(), text.size());
  const std::string& body = parser_->get().body();
  const std::string tenant = service::TenantOf(Credential());
  const service::Conversations::Place place{
      .tenant = tenant, .id = match.argument, .request_id = request_id_};
  switch (match.route) {
    case Route::kConversations:
      return ToResponse(conversations.Create(tenant, request_id_, body));
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

}  // namespace kvgate::http
