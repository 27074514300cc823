#include "gateway/dialect/form/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/dialect/form/client_calls.h"
#include "gateway/dialect/form/json_value.h"
#include "gateway/dialect/form/left_out.h"

namespace kvgate::dialect::form {
namespace {

constexpr size_t kNameBytesMax = 128;
constexpr std::string_view kNameRule = "must have 1 to {} letters, digits, '_', '-' or '.'";

bool IsToolName(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

// The way in which a list of tools is read.
struct ToolList {
  bool flat = false;      // a tool's fields are beside its type
  bool replaces = false;  // see ToolSpec
  std::string space = {};
  int depth = 0;           // number of enclosing namespaces
  std::string about = {};  // the namespace's description, added to its first tool
};

Result<void> ReadList(JsonElement value, const std::string& path, ToolList list,
                      DecodeState& state);

// Reads {"type":"grammar","syntax","definition"}, which Chat Completions spells
// {"type","grammar":{…}}. The tool's description shows the grammar to the model as well.
Result<void> ReadInputFormat(JsonElement value, const std::string& path, Tool& tool,
                             std::string& description) {
  KVGATE_TRY(const Fields outer,
             Fields::Read(value, path, {"type", "grammar", "syntax", "definition"}));
  KVGATE_TRY(const std::string type, outer.String("type"));
  if (type == "text") return {};
  if (type != "grammar") return RangeError(outer.Path("type"), "must be 'text' or 'grammar'");
  Fields fields = outer;
  if (const JsonElement* grammar = outer.Find("grammar"); grammar != nullptr) {
    KVGATE_TRY(fields, Fields::Read(*grammar, outer.Path("grammar"), {"syntax", "definition"}));
  }
  KVGATE_TRY(const std::string syntax, fields.String("syntax"));
  KVGATE_TRY(tool.input_grammar, fields.String("definition"));
  tool.field = fields.Path("definition");
  if (syntax != "lark" && syntax != "regex") {
    return RangeError(fields.Path("syntax"), "must be 'lark' or 'regex'");
  }
  tool.input_syntax = syntax == "lark" ? InputSyntax::kLark : InputSyntax::kRegex;
  description +=
      fmt::format("\n\nThe input is a text that this {} describes:\n{}",
                  syntax == "lark" ? "Lark grammar" : "regular expression", tool.input_grammar);
  return {};
}

Result<void> Append(Tool tool, const ToolSpec& spec, DecodeState& state);

// Returns the object that describes a tool: the tool itself or, in Chat Completions, its member.
Result<Fields> Described(const Fields& outer, const ToolList& list, std::string_view member,
                         std::initializer_list<std::string_view> known) {
  if (list.flat) return outer;
  const JsonElement* const held = outer.Find(member);
  if (held == nullptr) return MissingError(outer.Path(member));
  return Fields::Read(*held, outer.Path(member), known);
}

Result<ToolSpec> ReadSpec(const Fields& outer, const Fields& fields, const ToolList& list) {
  ToolSpec spec{.path = outer.path(),
                .name_path = fields.Path("name"),
                .space = list.space,
                .replaces = list.replaces};
  KVGATE_TRY(spec.name, fields.String("name"));
  KVGATE_TRY(spec.description, fields.StringOrEmpty("description"));
  spec.description.insert(0, list.about);
  return spec;
}

// The model sees a custom tool as a function with one argument.
Result<void> ReadCustom(const Fields& outer, const ToolList& list, DecodeState& state) {
  KVGATE_TRY(const Fields fields,
             Described(outer, list, "custom", {"name", "description", "format"}));
  KVGATE_TRY(ToolSpec spec, ReadSpec(outer, fields, list));
  Tool tool{.name = {},
            .parameters = R"({"type":"object","properties":{"input":{"type":"string"}},)"
                          R"("required":["input"],"additionalProperties":false})",
            .field = outer.path(),
            .is_custom = true};
  if (const JsonElement* format = fields.Find("format"); format != nullptr) {
    KVGATE_TRY_VOID(ReadInputFormat(*format, fields.Path("format"), tool, spec.description));
  }
  using Dict = jinja::value::Data::Dict;
  tool.definition =
      Dict{{"type", "object"},
           {"properties", Dict{{std::string(kInputName), Dict{{"type", "string"}}}}},
           {"required", jinja::value::Data::List{jinja::value::Data(std::string(kInputName))}}};
  return Append(std::move(tool), spec, state);
}

Result<void> ReadFunction(const Fields& outer, const ToolList& list, DecodeState& state) {
  KVGATE_TRY(const Fields fields,
             Described(outer, list, "function", {"name", "description", "parameters", "strict"}));
  KVGATE_TRY(ToolSpec spec, ReadSpec(outer, fields, list));
  spec.parameters = fields.Find("parameters");
  spec.parameters_path = fields.Path("parameters");
  KVGATE_TRY(spec.strict, fields.BoolOr("strict", false));
  return AddTool(spec, state);
}

Result<void> ReadNamespace(const Fields& outer, ToolList list, DecodeState& state) {
  if (++list.depth > kNamespaceDepthMax) {
    return RangeError(outer.Path("type"),
                      fmt::format("must not be 'namespace' in {} namespaces", kNamespaceDepthMax));
  }
  KVGATE_TRY(const std::string name, outer.String("name"));
  list.space = FlatName(list.space, name);
  if (!IsToolName(name) || !IsToolName(list.space)) {
    return RangeError(outer.Path("name"), fmt::format(kNameRule, kNameBytesMax));
  }
  KVGATE_TRY(const std::string about, outer.StringOrEmpty("description"));
  if (!about.empty()) list.about += about + "\n\n";
  const JsonElement* tools = outer.Find("tools");
  if (tools == nullptr) return MissingError(outer.Path("tools"));
  return ReadList(*tools, outer.Path("tools"), std::move(list), state);
}

Result<void> ReadList(JsonElement value, const std::string& path, ToolList list,
                      DecodeState& state) {
  KVGATE_TRY(const JsonArray tools, ReadArray(value, path));
  size_t index = 0;
  for (const JsonElement tool : tools) {
    KVGATE_TRY(const Fields outer,
               Fields::Read(tool, IndexPath(path, index++),
                            {"type", "function", "custom", "name", "description", "parameters",
                             "strict", "format", "tools"}));
    KVGATE_TRY(const std::string type, outer.String("type"));
    if (type == "function") {
      KVGATE_TRY_VOID(ReadFunction(outer, list, state));
    } else if (type == "custom") {
      KVGATE_TRY_VOID(ReadCustom(outer, list, state));
    } else if (type == "namespace" && list.flat) {
      KVGATE_TRY_VOID(ReadNamespace(outer, list, state));
    } else if (IsLeftOutName(type) && type != "namespace") {
      AddLeftOut(type, state.request.left_out);
      continue;
    } else {
      return UnsupportedError(outer.Path("type"),
                              fmt::format("a tool of type '{}' here is", type.substr(0, 80)));
    }
    list.about.clear();
  }
  return {};
}

// Returns the model's name of a tool given as {"name": …} or {"function": {"name": …}}, or with
// "custom".
Result<std::string> ReadNameOf(JsonElement value, const std::string& path) {
  KVGATE_TRY(const Fields outer,
             Fields::Read(value, path, {"type", "name", "namespace", "function", "custom"}));
  for (const char* holder : {"function", "custom"}) {
    const JsonElement* const held = outer.Find(holder);
    if (held == nullptr) continue;
    KVGATE_TRY(const Fields inner, Fields::Read(*held, outer.Path(holder), {"name"}));
    return inner.String("name");
  }
  KVGATE_TRY(const std::string space, outer.StringOrEmpty("namespace"));
  KVGATE_TRY(const std::string name, outer.String("name"));
  return FlatName(space, name);
}

// Returns false for a tool that is left out. It has no name, but a choice may list it among others.
Result<bool> IsServed(JsonElement choice, const std::string& path) {
  KVGATE_TRY(const Fields fields, Fields::Read(choice, path, {"type"}));
  KVGATE_TRY(const std::string type, fields.StringOrEmpty("type"));
  return type.empty() || type == "function" || type == "custom";
}

// Reads {"mode", "tools": […]}.
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
    const std::string path = IndexPath(fields.Path("tools"), index++);
    KVGATE_TRY(const bool served, IsServed(tool, path));
    if (!served) continue;
    KVGATE_TRY(std::string name, ReadNameOf(tool, path));
    choice.allowed.push_back(std::move(name));
  }
  if (!choice.allowed.empty()) return {};
  if (choice.mode == ToolMode::kRequired) {
    return UnsupportedError(fields.Path("tools"),
                            "a choice among tools of a provider's own alone is");
  }
  choice.mode = ToolMode::kNone;  // all allowed tools were left out
  return {};
}

// Adds the tool under its flat name, and wraps its parameters in the definition that templates
// expect.
Result<void> Append(Tool tool, const ToolSpec& spec, DecodeState& state) {
  std::vector<Tool>& tools = state.request.tools;
  tool.name = FlatName(spec.space, spec.name);
  tool.space = spec.space;
  if (!IsToolName(spec.name) || !IsToolName(tool.name)) {
    return RangeError(spec.name_path, fmt::format(kNameRule, kNameBytesMax));
  }
  if (tools.size() >= state.limits.tools_max) {
    return RangeError("tools", fmt::format("must have at most {} tools", state.limits.tools_max));
  }
  const auto before = std::find_if(tools.begin(), tools.end(),
                                   [&](const Tool& known) { return known.name == tool.name; });
  if (before != tools.end() && !spec.replaces) {
    return RangeError(spec.name_path,
                      fmt::format("must be unique, but '{}' is there twice", tool.name));
  }
  jinja::value::Data::Dict function;
  function.emplace_back("name", tool.name);
  function.emplace_back("description", spec.description);
  function.emplace_back("parameters", std::move(tool.definition));
  tool.definition =
      jinja::value::Data::Dict{{"type", "function"}, {"function", std::move(function)}};
  if (before != tools.end()) {
    *before = std::move(tool);
  } else {
    tools.push_back(std::move(tool));
  }
  return {};
}

}  // namespace

Result<void> AddTool(const ToolSpec& spec, DecodeState& state) {
  // Providers read absent parameters as an empty object, and templates need the member to be
  // present.
  Tool tool{.name = {},
            .definition = jinja::value::Data::Dict{{"type", "object"},
                                                   {"properties", jinja::value::Data::Dict{}}},
            .strict = spec.strict,
            .field = spec.parameters_path};
  if (spec.parameters != nullptr) {
    KVGATE_TRY_VOID(ReadObject(*spec.parameters, spec.parameters_path));
    tool.definition = ToData(*spec.parameters);
    tool.parameters = ToJson(*spec.parameters);
  }
  return Append(std::move(tool), spec, state);
}

Result<void> ReadChatTools(JsonElement value, const std::string& path, DecodeState& state) {
  return ReadList(value, path, {}, state);
}

Result<void> ReadFlatTools(JsonElement value, const std::string& path, DecodeState& state) {
  return ReadList(value, path, {.flat = true}, state);
}

Result<void> ReadMoreTools(JsonElement value, const std::string& path, DecodeState& state) {
  return ReadList(value, path, {.flat = true, .replaces = true}, state);
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
  if (type == "function" || type == "custom") {
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
    return RangeError(path, "is only allowed where tools are given that the local engine can call");
  }
  for (const std::string& name : request.tool_choice.allowed) {
    if (std::none_of(request.tools.begin(), request.tools.end(),
                     [&](const Tool& tool) { return tool.name == name; })) {
      return RangeError(
          path, fmt::format("names the tool '{}', which is not in tools, or which the local engine "
                            "cannot run",
                            name.substr(0, kNameBytesMax)));
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

}  // namespace kvgate::dialect::form
