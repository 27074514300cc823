// Prompt data: requests about the prompts that other requests name: which there are, what they say,
// and, for admins, versions that are set and removed. It knows no sockets and may wait for the
// disk.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/proxy/request/route.h"
#include "gateway/session/prompts/named_prompts.h"

namespace kvgate::proxy::handler::prompts {

struct PromptCall {
  const request::RoutePlace& place;  // {id} is the name, {item} the version
  const std::string& body;
};
// Returns JSON. A prompt is no secret to whoever may use it: it is what the model is told, and
// stored responses show it. `named` may be null. Fails with kNotFound for what is not there, with
// kInvalidArgument, which names the field, for what cannot be set, and as NamedPrompts does.
// REQUIRES: request::IsNamedPrompt(call.place.route).
Result<std::string> AnswerPrompts(session::prompts::NamedPrompts* named, const PromptCall& call);

}  // namespace kvgate::proxy::handler::prompts
