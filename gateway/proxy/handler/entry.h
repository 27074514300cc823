// Entry: what becomes of a request between its head and its handler, whatever brought it: whether
// its caller is let in, and whether somebody answers its path.
#pragma once

#include <optional>
#include <string_view>

#include "gateway/proxy/handler/router.h"
#include "gateway/proxy/request/request_context.h"
#include "gateway/proxy/request/response.h"

namespace kvgate::proxy::handler {

struct Entry {
  std::optional<RouteMatch> match;  // absent: it is refused
  request::Response refusal;
  bool is_let_in = false;
  // For metrics, if it is refused.
  std::string_view refused_as() const { return is_let_in ? "unknown" : "refused"; }
};

// `found` is the route of the request's head.
Entry Enter(const RequestContext& request, RouteResult found);

}  // namespace kvgate::proxy::handler
