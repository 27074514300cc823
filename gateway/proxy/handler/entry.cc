#include "gateway/proxy/handler/entry.h"

#include <algorithm>
#include <utility>

#include "gateway/access/access.h"

namespace kvgate::proxy::handler {
namespace {

// Checks all upstreams, because the one to ask is known only after the body, which names the model,
// is read.
bool ForwardsUnknown(const RequestContext& request) {
  const auto& all = request.targets().upstreams->all();
  return IsProvidersPath(request.head().target) &&
         std::any_of(all.begin(), all.end(), [&](const auto& upstream) {
           return request.caller().MaySendUnknown(*upstream);
         });
}

}  // namespace

Entry Enter(const RequestContext& request, RouteResult found) {
  const access::Access access = found.match ? found.match->access : access::Access::kUser;
  if (const Result<void> allowed = access::CheckAccess(access, request.caller().evidence());
      !allowed) {
    return {.match = std::nullopt, .refusal = request::ErrorResponse(allowed.error())};
  }
  if (!found.match && ForwardsUnknown(request)) found.match = UnknownRoute();
  return {.match = std::move(found.match), .refusal = std::move(found.refusal), .is_let_in = true};
}

}  // namespace kvgate::proxy::handler
