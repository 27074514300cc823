// TemplateCapabilities: the features that a chat format supports, found by rendering probes: a
// template is a program, and its treatment of tools, calls and roles shows only in its output.
#pragma once

#include <string>

#include "engine/text/chat/chat_format.h"

namespace kvgate::chat {

struct TemplateCapabilities {
  bool has_system = true;        // takes a system message at the front
  bool has_late_system = true;   // takes a system message after other turns, in place
  bool repeats_roles = true;     // takes two user turns in a row
  bool needs_tool_list = false;  // needs an empty list if no tools are offered

  std::string tools_variable = {};  // variable name of the tools; empty: not supported
  bool writes_calls = false;        // writes calls in their turns, with all arguments
  bool writes_results = false;
  bool arguments_as_text = false;  // true: arguments as JSON text; false: as data
  bool calls_need_none = false;    // writes calls only if the content is none
  bool calls_beside_text = false;  // writes calls also if the turn has text
  bool several_calls = false;      // writes several calls of one turn
  // The field for the reasoning of a turn with calls; empty: not supported.
  std::string reasoning_field = {};
  bool reasoning_beside_text = false;  // reasoning and text can be in one turn with calls
};

// Renders about a dozen probes. Pure; takes about a millisecond with a template.
TemplateCapabilities ProbeTraits(const ChatFormat& format);

}  // namespace kvgate::chat
