// Reads tools of all dialects into the internal form. Included only by the decoders' .cc files.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/field_reader.h"

namespace kvgate::dialect::form {

// Adds a tool to the request and checks its name. `parameters` may be null if it has none.
struct ToolSpec {
  std::string path;  // path of the tool in the body: "tools[3]"
  std::string name_path;
  std::string name = {};
  std::string description = {};
  const JsonElement* parameters = nullptr;
  std::string parameters_path = {};
  bool strict = false;
  std::string space = {};  // its namespace; empty: none
  bool replaces = false;   // a tool of this name may exist already
};
Result<void> AddTool(const ToolSpec& spec, DecodeState& state);

// ReadChatTools reads
// [{"type":"function","function":{"name","description","parameters","strict"}}]. ReadFlatTools
// reads the Responses dialect's [{"type":"function","name",…}], which may also stand in
// {"type":"namespace","name","tools"}. {"type":"custom"} takes a text instead of an object. Tools
// that a provider runs itself (web_search) are left out and recorded as such.
Result<void> ReadChatTools(JsonElement value, const std::string& path, DecodeState& state);
Result<void> ReadFlatTools(JsonElement value, const std::string& path, DecodeState& state);
// Reads tools from an item of a conversation, which may repeat tools that are known already.
Result<void> ReadMoreTools(JsonElement value, const std::string& path, DecodeState& state);

// Reads "auto", "none", "required", or {"type":"function",…} and {"type":"allowed_tools",…} in
// either form.
Result<void> ReadToolChoice(JsonElement value, const std::string& path, DecodeState& state);
Result<void> ReadParallelToolCalls(JsonElement value, const std::string& path, DecodeState& state);

// Runs when all fields are read: a choice must name existing tools. A turn that must call makes one
// call unless more were asked for, because some models would otherwise call until their tokens run
// out.
Result<void> CheckToolChoice(const std::string& path, DecodeState& state);

// Checks that a tool result answers a call of the assistant turn before it.
Result<void> CheckAnswersCall(const std::string& path, const std::string& id,
                              const std::vector<Message>& messages);

}  // namespace kvgate::dialect::form
