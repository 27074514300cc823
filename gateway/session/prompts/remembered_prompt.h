// RememberedPrompt: the prompt with which a session, a chain of stored responses or a conversation
// began, as its log says. Waits for the disk; thread-safe.
#pragma once

#include <optional>

#include "base/result.h"
#include "gateway/session/log/session_log.h"

namespace kvgate::session::prompts {

// Returns nullopt if nothing has been said under that key yet, so that it begins now; a prompt
// without a name if it goes on without one.
Result<std::optional<log::TurnPrompt>> RememberedPrompt(const log::SessionLog& log,
                                                        const log::SessionLog::Place& place);

}  // namespace kvgate::session::prompts
