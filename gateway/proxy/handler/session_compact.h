// A session is folded although its prompt has room: because somebody asks for it, or because it is
// idle.
#pragma once

#include "gateway/proxy/handler/handler.h"
#include "gateway/session/session_admin.h"
#include "gateway/session/sessions.h"

namespace kvgate::proxy::handler {

// Reads the session, and plans to fold the older part of it; the turn has no plan if there is
// nothing to be folded. Fails as Sessions::ReadStored does.
Task<Result<session::Sessions::Stored>> PlanCompaction(RequestContext& request,
                                                       session::Sessions& sessions,
                                                       session::SessionAdmin::Place place);

}  // namespace kvgate::proxy::handler
