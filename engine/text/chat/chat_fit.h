// Adapts a conversation to what a chat format supports. Parts that the format writes itself are
// left to it; the rest is written into the text of the turns, so that nothing is lost or refused.
// Tools go into the system message, calls and results into their turns, in the tags that most
// models know (<tool_call>{"name","arguments"}</tool_call>) or in the model's own. The tags in such
// text count as the format's own markers. Pure functions; any thread.
//
// A turn depends only on the turns before it and on the results that follow its calls, so a growing
// conversation keeps its prefix.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/text/chat/chat_format.h"
#include "engine/text/chat/template_capabilities.h"
#include "engine/text/jinja/value/data.h"
#include "engine/text/output/families.h"

namespace kvgate::chat {

struct FittedChat {
  std::vector<ChatMessage> messages;
  // For each input message, the index of the output message that holds it; ascending, with repeats.
  std::vector<size_t> places;
  bool tools_as_text = false;  // tools are in the text; do not pass them to the format
};

struct FitArgs {
  std::span<const ChatMessage> messages;      // `more` holds tool_calls, tool_call_id and name
  const jinja::value::Data* tools = nullptr;  // a list; null: no tools are offered
  const TemplateCapabilities& traits;
  output::CallStyle style = output::CallStyle::kTags;
  // An example of a call in the format's own form, used if the format does not write tools; empty:
  // kTags.
  std::string_view call_example = {};
};
// kInternal: rendering the text failed, which no input should cause.
Result<FittedChat> FitChat(const FitArgs& args);

}  // namespace kvgate::chat
