#include "gateway/protocol/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/protocol/json_value.h"

namespace kvgate::protocol {
namespace {

constexpr size_t kNameBytesMax = 128;

bool IsToolName(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

Result<void> ReadTools(JsonElement value, const std::string& path, bool flat, DecodeState& state) {
  KVGATE_TRY(const JsonArray tools, ReadArray(value, path));
  size_t index = 0;
  for (const JsonElement tool : tools) {
    const std::string tool_path = IndexPath(path, index++);
    KVGATE_TRY(const Fields outer,
               Fields::Read(tool, tool_path,
                            {"type", "function", "name", "description", "parameters", "strict"}));
    KVGATE_TRY(const std::string type, outer.String("type"));
    if (type != "function") {
      return UnsupportedError(outer.Path("type"), fmt::format("a tool of type '{}' is", type));
    }
    const JsonElement* function = outer.Find("function");
    if (!flat && function == nullptr) return MissingError(outer.Path("function"));
    Fields fields = outer;
    if (!flat) {
      KVGATE_TRY(fields, Fields::Read(*function, outer.Path("function"),
                                      {"name", "description", "parameters", "strict"}));
    }
    ToolSpec spec{.path = tool_path,
                  .name_path = fields.Path("name"),
                  .parameters = fields.Find("parameters"),
                  .parameters_path = fields.Path("parameters")};
    KVGATE_TRY(spec.name, fields.String("name"));
    KVGATE_TRY(spec.description, fields.StringOrEmpty("description"));
    KVGATE_TRY(spec.strict, fields.BoolOr("strict", false));
    KVGATE_TRY_VOID(AddTool(spec, state));
  }
  return {};
}

// {"name": …} or {"function": {"name": …}}.
Result<std::string> ReadNameOf(JsonElement value, const std::string& path) {
  KVGATE_TRY(const Fields outer, Fields::Read(value, path, {"type", "name", "function"}));
  if (const JsonElement* function = outer.Find("function"); function != nullptr) {
    KVGATE_TRY(const Fields inner, Fields::Read(*function, outer.Path("function"), {"name"}));
    return inner.String("name");
  }
  return outer.String("name");
}

// {"mode", "tools": […]}
Result<void> ReadAllowedTools(const Fields& fields, DecodeState& state) {
  ToolChoice& choice = state.request.tool_choice;
  KVGATE_TRY(const std::string mode, fields.String("mode"));
  if (mode != "auto" && mode != "required") {
    return RangeError(fields.Path("mode"), "must be 'auto' or 'required'");
  }
  choice.mode = mode == "auto" ? ToolMode::kAuto : ToolMode::kRequired;
  const JsonElement* tools = fields.Find("tools");
  if (tools == nullptr) return MissingError(fields.Path("tools"));
  KVGATE_TRY(const JsonArray array, ReadArray(*tools, fields.Path("tools")));
  if (array.size() == 0) return RangeError(fields.Path("tools"), "must name at least one tool");
  size_t index = 0;
  for (const JsonElement tool : array) {
    KVGATE_TRY(std::string name, ReadNameOf(tool, IndexPath(fields.Path("tools"), index++)));
    choice.allowed.push_back(std::move(name));
  }
  return {};
}

}  // namespace

Result<void> AddTool(const ToolSpec& spec, DecodeState& state) {
  std::vector<Tool>& tools = state.request.tools;
  if (!IsToolName(spec.name)) {
    return RangeError(
        spec.name_path,
        fmt::format("must have 1 to {} letters, digits, '_', '-' or '.'", kNameBytesMax));
  }
  if (tools.size() >= state.limits.tools_max) {
    return RangeError("tools", fmt::format("must have at most {} tools", state.limits.tools_max));
  }
  if (std::any_of(tools.begin(), tools.end(),
                  [&](const Tool& tool) { return tool.name == spec.name; })) {
    return RangeError(spec.name_path,
                      fmt::format("must be unique, but '{}' is there twice", spec.name));
  }
  Tool tool{.name = spec.name, .strict = spec.strict, .field = spec.parameters_path};
  jinja::Data::Dict function;
  function.emplace_back("name", spec.name);
  function.emplace_back("description", spec.description);
  if (spec.parameters != nullptr) {
    KVGATE_TRY_VOID(ReadObject(*spec.parameters, spec.parameters_path));
    function.emplace_back("parameters", ToData(*spec.parameters));
    tool.parameters = ToJson(*spec.parameters);
  } else {
    // What the providers take an absent one for; templates count on its being there.
    function.emplace_back(
        "parameters", jinja::Data::Dict{{"type", "object"}, {"properties", jinja::Data::Dict{}}});
  }
  tool.definition = jinja::Data::Dict{{"type", "function"}, {"function", std::move(function)}};
  tools.push_back(std::move(tool));
  return {};
}

Result<void> ReadChatTools(JsonElement value, const std::string& path, DecodeState& state) {
  return ReadTools(value, path, false, state);
}

Result<void> ReadFlatTools(JsonElement value, const std::string& path, DecodeState& state) {
  return ReadTools(value, path, true, state);
}

Result<void> ReadToolChoice(JsonElement value, const std::string& path, DecodeState& state) {
  ToolChoice& choice = state.request.tool_choice;
  if (value.is_string()) {
    KVGATE_TRY(const std::string mode, ReadString(value, path));
    if (mode != "auto" && mode != "none" && mode != "required") {
      return RangeError(path, "must be 'auto', 'none', 'required' or an object");
    }
    choice.mode = mode == "auto"   ? ToolMode::kAuto
                  : mode == "none" ? ToolMode::kNone
                                   : ToolMode::kRequired;
    return {};
  }
  KVGATE_TRY(const Fields fields,
             Fields::Read(value, path, {"type", "allowed_tools", "mode", "tools"}));
  KVGATE_TRY(const std::string type, fields.String("type"));
  if (type == "function") {
    KVGATE_TRY(std::string name, ReadNameOf(value, path));
    choice.mode = ToolMode::kRequired;
    choice.allowed = {std::move(name)};
    return {};
  }
  if (type != "allowed_tools") {
    return UnsupportedError(fields.Path("type"), fmt::format("a choice of type '{}' is", type));
  }
  const JsonElement* nested = fields.Find("allowed_tools");
  if (nested == nullptr) return ReadAllowedTools(fields, state);
  KVGATE_TRY(const Fields inner,
             Fields::Read(*nested, fields.Path("allowed_tools"), {"mode", "tools"}));
  return ReadAllowedTools(inner, state);
}

Result<void> ReadParallelToolCalls(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.request.tool_choice.parallel, ReadBool(value, path));
  state.asks_for_calls = state.request.tool_choice.parallel;
  return {};
}

Result<void> CheckToolChoice(const std::string& path, DecodeState& state) {
  CompletionRequest& request = state.request;
  if (request.tool_choice.mode == ToolMode::kRequired && !state.asks_for_calls) {
    request.tool_choice.parallel = false;
  }
  if (request.tool_choice.mode == ToolMode::kRequired && request.tools.empty()) {
    return RangeError(path, "is only allowed where tools are given");
  }
  for (const std::string& name : request.tool_choice.allowed) {
    if (std::none_of(request.tools.begin(), request.tools.end(),
                     [&](const Tool& tool) { return tool.name == name; })) {
      return RangeError(path, fmt::format("names the tool '{}', which is not in tools", name));
    }
  }
  return {};
}

Result<void> CheckAnswersCall(const std::string& path, const std::string& id,
                              const std::vector<Message>& messages) {
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if (message->role == "tool") continue;
    if (std::any_of(message->tool_calls.begin(), message->tool_calls.end(),
                    [&](const ToolCall& call) { return call.id == id; })) {
      return {};
    }
    break;
  }
  return RangeError(path, fmt::format("must be the id of a call in the assistant's turn before it, "
                                      "which '{}' is not",
                                      id.substr(0, 80)));
}

}  // namespace kvgate::protocol
