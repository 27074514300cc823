// Conversations with tools for formats that know none (the built-ins, templates without `tools`):
// the tools are told in the system message, calls and their results are written into the text of
// the turns, in the tags that most models have seen (<tool_call>{"name","arguments"}</tool_call>).
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <kvgate/result.h>

#include "engine/jinja/data.h"
#include "engine/template/chat_format.h"

namespace kvgate::chat {

struct ToolTextChat {
  std::vector<ChatMessage> messages;
  // Where each of the messages given went. Results, and a user's turn behind them, become one user
  // message; tools without a system message make one.
  std::vector<size_t> places;
};

// `tools`: a list, or null. `tool_calls` of the messages (ChatMessage::more) are read. kInternal:
// it could not be written, which no input should bring about.
Result<ToolTextChat> WriteToolsAsText(std::span<const ChatMessage> messages,
                                      const jinja::Data* tools);

}  // namespace kvgate::chat
