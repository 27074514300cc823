// Memory data: requests about what is kept in memory of a tenant, or of one of its sessions.
#pragma once

#include <string>
#include <string_view>

#include "gateway/proxy/request/response.h"
#include "gateway/proxy/request/route.h"
#include "gateway/session/sessions.h"

namespace kvgate::proxy::handler::data {

struct MemoryCall {
  session::Sessions* sessions = nullptr;  // null: nothing is kept
  std::string tenant = {};
  request::Route route = request::Route::kMemory;
  const request::RoutePlace& place;
  std::string_view body = {};
};
// Waits for the disk. REQUIRES: request::IsMemory(call.route).
request::Response AnswerMemory(const MemoryCall& call);

}  // namespace kvgate::proxy::handler::data
