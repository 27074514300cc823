// Truncation: a prompt whose caller allows that its oldest turns are left out where it does not fit
// ("truncation": "auto" of the Responses dialect). The same turns go until the context is full
// again, so that what is cached of the prompt stays cached. A call and its result go together, and
// what answers a user's message does not stand without it. Pure but for the functions that count
// tokens; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"

namespace kvgate::session {

struct TruncateArgs {
  int64_t tokens_max = 0;  // of the prompt
  // The tokens that a message adds to a prompt; about, but always the same.
  std::function<int64_t(const dialect::form::Message&)> tokens = {};
  // The tokens of a request's prompt.
  std::function<Result<int64_t>(const dialect::form::CompletionRequest&)> count = {};
};
struct Truncated {
  int64_t before = 0;  // tokens of the prompt
  int64_t after = 0;
};
// Leaves the system's messages at the beginning and the newest turn. Returns nullopt, and changes
// nothing, if that does not fit by itself or there is nothing else. Fails as `count` does.
Result<std::optional<Truncated>> Truncate(const TruncateArgs& args,
                                          dialect::form::CompletionRequest& request);

}  // namespace kvgate::session
