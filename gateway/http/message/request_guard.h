// What a request must satisfy before anyone looks at its body: safe on loopback against web pages
// that aim a browser at it (DNS rebinding, cross-site requests).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/message/response.h"

namespace kvgate::http {

// The parts of a request's head that decide; views into it.
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
  // Loopback's names are always allowed.
  explicit RequestGuard(std::vector<std::string> allowed_hosts);
  // The refusal, or nothing: 400 no Host, 421 a foreign one, 403 a foreign Origin, 415 a body that
  // is not what the route takes. Either type makes a browser ask first, so no page can send it.
  std::optional<Response> Check(const GuardedHead& head) const;

 private:
  std::vector<std::string> allowed_hosts_;
};

}  // namespace kvgate::http
