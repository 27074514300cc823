// RequestGuard: checks of a request's head before its body is read. They protect a server on
// loopback from web pages that make a browser send requests to it (DNS rebinding, cross-site
// requests).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/proxy/request/response.h"

namespace kvgate::http::message {

// The parts of a request's head that the guard checks; views into the head.
struct GuardedHead {
  std::string_view method;
  std::string_view host;          // empty: no Host header
  std::string_view origin;        // empty: none
  std::string_view content_type;  // empty: none
  bool http_1_0 = false;
  bool takes_bytes = false;  // the route wants application/octet-stream, not JSON
};

class RequestGuard {
 public:
  // The names of loopback are always allowed in addition.
  explicit RequestGuard(std::vector<std::string> allowed_hosts);
  // Returns the refusal, or nullopt: 400 without a Host, 421 for a foreign one, 403 for a foreign
  // Origin, 415 for a Content-Type that the route does not take, and for a POST without one. Both
  // accepted types make a browser send a CORS preflight first, which is not granted, so no foreign
  // page can send such a body.
  std::optional<proxy::request::Response> Check(const GuardedHead& head) const;

 private:
  std::vector<std::string> allowed_hosts_;
};

}  // namespace kvgate::http::message
