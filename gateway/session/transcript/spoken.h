// Spoken: messages as a reader has them before him: what was said, called and answered, without the
// forms of a dialect. Pure; any thread.
#pragma once

#include <span>
#include <string>

#include "gateway/session/transcript/message.h"

namespace kvgate::session::transcript {

// The texts of a message, joined; without thinking, calls and results.
std::string TextOf(const Message& message);
// True if the message calls a tool.
bool CallsTool(const Message& message);
// All messages as plain text: "User: …", "Assistant: …", "Call of NAME: ARGUMENTS", "Result: …".
// Media are named by their type, and thinking is left out.
std::string ToPlainText(std::span<const Message> messages);

}  // namespace kvgate::session::transcript
