// A conversation in the form that a chat format takes: what the format writes itself is left to it,
// the rest is written into the text of the turns, so that nothing is lost and nothing refused.
// Tools go into the system message, calls and results into their turns, in the tags that most
// models have seen (<tool_call>{"name","arguments"}</tool_call>) or in those of the model. What
// such a text has of marks counts as the format's own. Pure functions; any thread.
//
// A turn is changed only by what stands before it, or by the results that follow its calls: a
// conversation that grows keeps its prefix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/jinja/data.h"
#include "engine/text/chat/chat_format.h"
#include "engine/text/chat/template_capabilities.h"

namespace kvgate::chat {

// How calls are written where the format does not write them.
enum class CallStyle : uint8_t {
  kTags,    // <tool_call>{"name","arguments"}</tool_call>, one for each
  kPython,  // <|tool_call_start|>[name(key=value)]<|tool_call_end|>: LFM2
  kList,    // <|tool_call|>[{"name","arguments"}]<|/tool_call|>: Phi 4
  kKimi,    // <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>
};

struct FittedChat {
  std::vector<ChatMessage> messages;
  // Where each of the messages given went; ascending, not strictly.
  std::vector<size_t> places;
  bool tools_as_text = false;  // … and so not for the format any more
};

struct FitArgs {
  std::span<const ChatMessage> messages;  // `more` holds tool_calls, tool_call_id and name
  const jinja::Data* tools = nullptr;     // a list; null: none are offered
  const ChatTraits& traits;
  CallStyle style = CallStyle::kTags;
  // What a call looks like that the format writes, for tools that it does not tell; empty: kTags.
  std::string_view call_example = {};
};
// kInternal: it could not be written, which no input should bring about.
Result<FittedChat> FitChat(const FitArgs& args);

}  // namespace kvgate::chat
