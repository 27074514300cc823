// Session data: requests about a tenant's own sessions.
#pragma once

#include <string>
#include <string_view>

#include "gateway/proxy/request/response.h"
#include "gateway/proxy/request/route.h"
#include "gateway/service/service.h"
#include "gateway/session/sessions.h"

namespace kvgate::proxy::handler::data {

struct SessionCall {
  service::Service& service;
  session::Sessions* sessions = nullptr;  // null: none are kept
  std::string tenant = {};
  request::Route route = request::Route::kSessions;
  const request::RoutePlace& place;
  std::string_view target = {};
  std::string_view body = {};
  std::string_view request_id = {};
};
// Waits for the disk. REQUIRES: request::IsSession(call.route).
request::Response AnswerSession(const SessionCall& call);

}  // namespace kvgate::proxy::handler::data
