// How long a prompt of an upstream's model may be, as far as anybody says: the upstream's settings,
// its list of models where a caller has asked for it, or the prices file.
#pragma once

#include <cstdint>
#include <string>

#include "gateway/proxy/handler/handler.h"

namespace kvgate::proxy::handler {

// Returns the tokens of prompt and answer together; of a route's targets the fewest that are known;
// 0: nobody says. `model` is asked for in this dialect, of whom `request` would be sent to.
int64_t ContextOf(const RequestContext& request, protocol::form::Dialect dialect,
                  const std::string& model);

}  // namespace kvgate::proxy::handler
