// Router: the table of routes. It maps a method and path to a route, the access that it requires of
// its caller, how it takes its body, and its handler.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/access/access.h"
#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/request/response.h"
#include "gateway/proxy/request/route.h"

namespace kvgate::proxy::handler {

using request::Route;

// How a route takes the body of its requests.
enum class BodyRule : uint8_t {
  kJson,    // whole, in JSON; it may be empty
  kNone,    // none is expected, so no content type either
  kPieces,  // bytes, piece by piece (request::BodySource)
};

struct RouteMatch {
  request::RoutePlace place;
  access::Access access = access::Access::kAdmin;
  BodyRule body = BodyRule::kJson;
  const Handler* handler = nullptr;
};

// A match, or a 404 or 405 (with Allow) in JSON. HEAD is treated as GET.
struct RouteResult {
  std::optional<RouteMatch> match;
  request::Response refusal;  // set if there is no match
};
// `target` is the request line's: it may have the absolute form and a query.
RouteResult FindRoute(std::string_view method, std::string_view target);
// The match for a path that is none of the gateway's, which an upstream may take.
RouteMatch UnknownRoute();

// Returns the target as the routes spell it. Clients differ in whether a base URL ends in /v1, so
// theirs may lack it ("/responses") or have it twice. A target that fits a route already, or cannot
// be made to fit one, is returned unchanged; the query is always kept.
std::string CanonicalTarget(std::string_view target);

// True if the path belongs to a provider's API, even if no route matches it.
bool IsProvidersPath(std::string_view target);

}  // namespace kvgate::proxy::handler
