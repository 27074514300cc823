// Who may be asked for a model, and how long a prompt of it may be, as far as anybody says: the
// upstream's settings, its list of models where a caller has asked for it, or the prices file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/proxy/handler/handler.h"

namespace kvgate::proxy::handler {

struct MaybeTarget {
  const upstream::Upstream* upstream = nullptr;  // null: the local engine, by a route
  std::string model = {};                        // by which it is asked for
};
// The upstreams that `request` may go to if it asks for `model` in this dialect, and those of a
// route; none if nobody serves it but the local engine.
std::vector<MaybeTarget> TargetsOf(const RequestContext& request, dialect::form::Dialect dialect,
                                   const std::string& model);

// Returns the tokens of prompt and answer together; of a route's targets the fewest that are known;
// 0: nobody says. `model` is asked for in this dialect, of whom `request` would be sent to.
int64_t ContextOf(const RequestContext& request, dialect::form::Dialect dialect,
                  const std::string& model);

}  // namespace kvgate::proxy::handler
