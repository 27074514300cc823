// ChatTraits: what a chat format takes and what it loses, found by asking it: a template is a
// program, and what it says of its tools, calls and roles shows in what it renders.
#pragma once

#include <string>

#include "engine/text/chat/chat_format.h"

namespace kvgate::chat {

struct ChatTraits {
  bool has_system = true;        // a system message at the front
  bool has_late_system = true;   // one behind other turns, in its place
  bool repeats_roles = true;     // two user turns in a row
  bool needs_tool_list = false;  // an empty list where no tools are offered

  std::string tools_variable = {};  // what it takes tools under; empty: it knows none
  bool writes_calls = false;        // of turns, in their place, arguments and all
  bool writes_results = false;
  bool arguments_as_text = false;  // JSON text, as it came; else data
  bool calls_need_none = false;    // calls are written only where the content is none
  bool calls_beside_text = false;  // … and lost where the turn has a text, unless this
  bool several_calls = false;      // in one turn
  // What it takes the reasoning of a turn with calls under; empty: it has no place for it.
  std::string reasoning_field = {};
  bool reasoning_beside_text = false;  // in a turn with calls
};

// Asks the format a dozen times. Pure; takes about a millisecond with a template.
ChatTraits ProbeTraits(const ChatFormat& format);

}  // namespace kvgate::chat
