// Tools as the dialects name them, into the one form. Included only by the decoders' .cc files.
#pragma once

#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/protocol/field_reader.h"

namespace kvgate::protocol {

// Adds a tool to the request, checked by name. `parameters` may be null: it has none.
struct ToolSpec {
  std::string path;  // of the tool: "tools[3]"
  std::string name_path;
  std::string name = {};
  std::string description = {};
  const JsonElement* parameters = nullptr;
  std::string parameters_path = {};
  bool strict = false;
  std::string space = {};  // the namespace that it is in
  bool replaces = false;   // one of its name may be there already
};
Result<void> AddTool(const ToolSpec& spec, DecodeState& state);

// [{"type":"function","function":{"name","description","parameters","strict"}}], and where `flat`
// [{"type":"function","name",…}], which is the Responses dialect's. {"type":"custom"} takes a text
// instead of an object; flat ones may stand in a {"type":"namespace","name","tools"}. What a
// provider runs itself (web_search) is left out, and noted.
Result<void> ReadChatTools(JsonElement value, const std::string& path, DecodeState& state);
Result<void> ReadFlatTools(JsonElement value, const std::string& path, DecodeState& state);
// The same of an item of a conversation, which may bring what is there already.
Result<void> ReadMoreTools(JsonElement value, const std::string& path, DecodeState& state);

// "auto", "none", "required", or {"type":"function",…}, {"type":"allowed_tools",…} in either form.
Result<void> ReadToolChoice(JsonElement value, const std::string& path, DecodeState& state);
Result<void> ReadParallelToolCalls(JsonElement value, const std::string& path, DecodeState& state);

// Once all is read: a choice names tools that there are. A turn that must call makes one call,
// unless more were asked for: nothing but the end of its tokens would stop some models.
Result<void> CheckToolChoice(const std::string& path, DecodeState& state);

// A tool's result must answer a call of the assistant's turn before it.
Result<void> CheckAnswersCall(const std::string& path, const std::string& id,
                              const std::vector<Message>& messages);

}  // namespace kvgate::protocol
