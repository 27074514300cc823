// Session data: requests about a tenant's own sessions.
#pragma once

#include "gateway/proxy/handler/own_data.h"

namespace kvgate::proxy::handler {

// Waits for the disk. REQUIRES: request::IsSession(call.route).
request::Response AnswerSession(const ServiceCall& call);

}  // namespace kvgate::proxy::handler
