#include "gateway/proxy/handler/data/session_data.h"

#include <string>
#include <utility>

#include "gateway/local/prefix_service.h"
#include "gateway/proxy/request/query.h"
#include "gateway/session/session_admin.h"

namespace kvgate::proxy::handler::data {

using request::Response;
using request::Route;

namespace {

Response ToResponse(Result<std::string> body) {
  return body ? Response{.body = std::move(*body)} : request::ErrorResponse(body.error());
}

Response ToLines(Result<std::string> body) {
  Response response = ToResponse(std::move(body));
  if (response.status == 200) response.content_type = "application/x-ndjson";
  return response;
}

}  // namespace

Response AnswerSession(const SessionCall& call) {
  if (call.sessions == nullptr) {
    return request::ErrorResponse(session::log::SessionLog::NotKept());
  }
  session::SessionAdmin admin(*call.sessions, [&call](BlockHash last) {
    return local::ForgetPrefix(call.service.prefixes().parts().kv, last);
  });
  const std::string& tenant = call.tenant;
  const std::string limit = request::QueryValue(call.target, "limit");
  const std::string key = request::QueryValue(call.target, "key");
  const std::string before = request::QueryValue(call.target, "before");
  const session::SessionAdmin::PageArgs page{.limit = limit, .before = before};
  const session::SessionAdmin::Place place{.tenant = tenant, .key = call.place.argument};
  switch (call.route) {
    case Route::kSessions:
      return ToResponse(admin.List(tenant, page));
    case Route::kSessionsPurge:
      return ToResponse(admin.Purge(tenant, call.request_id));
    case Route::kSession:
      return ToResponse(admin.Show(place, page));
    case Route::kSessionDelete:
      return ToResponse(admin.Remove(place, call.request_id));
    case Route::kSessionFork:
      return ToResponse(admin.Fork(place, call.body, call.request_id));
    case Route::kSessionUndo:
      return ToResponse(admin.Undo(place, call.request_id));
    case Route::kSessionExport:
      return ToLines(admin.Export(place));
    default:
      return ToResponse(admin.Import({.tenant = tenant, .key = key}, call.body, call.request_id));
  }
}

}  // namespace kvgate::proxy::handler::data
