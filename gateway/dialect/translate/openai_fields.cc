#include "gateway/dialect/translate/openai_fields.h"

#include <algorithm>
#include <array>

#include "gateway/dialect/form/client_calls.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/translate/dialect_fields.h"

namespace kvgate::dialect::translate {
namespace {

std::string_view NameOf(form::Dialect dialect) {
  return dialect == form::Dialect::kChatCompletions ? "Chat Completions" : "Responses";
}

}  // namespace

// --- reading ------------------------------------------------------------------------------------

Result<std::vector<Block>> OpenAiReader::Contents(const RawJson& value,
                                                  const std::string& path) const {
  std::vector<Block> blocks;
  if (!value) return blocks;
  if (value.is_string()) {
    blocks.push_back({.kind = BlockKind::kText, .path = path, .text = value.text()});
    return blocks;
  }
  if (!value.is_array()) return WrongShape(path, "must be a string or an array of parts");
  for (const RawJson& element : value.Elements()) {
    const std::string part_path = At(path, blocks.size());
    KVGATE_TRY(const RawObject part, NeededObject(element, part_path));
    KVGATE_TRY(Block block, Part(part, part_path));
    block.ttl_seconds = TtlOf(part);
    if (block.ttl_seconds == 0 && HasBreakpoint(part)) block.ttl_seconds = form::kShortTtlSeconds;
    blocks.push_back(std::move(block));
  }
  return blocks;
}

Result<Block> OpenAiReader::Part(const RawObject& part, const std::string& path) const {
  static constexpr std::array<std::string_view, 3> kTexts = {"text", "input_text", "output_text"};
  const std::string type = part.String("type");
  Block block{.kind = BlockKind::kText, .path = path};
  if (std::find(kTexts.begin(), kTexts.end(), type) != kTexts.end()) {
    KVGATE_TRY(block.text, NeededString(part, "text", path));
    return block;
  }
  if (type == "refusal") {
    KVGATE_TRY(block.text, NeededString(part, "refusal", path));
    return block;
  }
  if (type == "image_url" || type == "input_image") return Image(part, path);
  if (type == "file" || type == "input_file") return File(part, path);
  return CannotSay(Sub(path, "type"), "a part of type '" + type + "'", target);
}

Result<Block> OpenAiReader::Image(const RawObject& part, const std::string& path) const {
  Block block{.kind = BlockKind::kImage, .path = path};
  const RawJson value = part["image_url"];
  const bool nested = value.is_object();
  const std::string at = nested ? Sub(path, "image_url") : path;
  const RawObject holder = nested ? RawObject(value) : part;
  if (part["file_id"]) return CannotSay(Sub(path, "file_id"), "a file kept elsewhere", target);
  KVGATE_TRY(const Literal url, NeededString(holder, nested ? "url" : "image_url", at));
  block.media = MediaOf(url);
  KVGATE_TRY(block.media.detail, OptionalString(holder, "detail", at));
  return block;
}

Result<Block> OpenAiReader::File(const RawObject& part, const std::string& path) const {
  Block block{.kind = BlockKind::kFile, .path = path};
  const bool nested = part["file"].is_object();
  const std::string at = nested ? Sub(path, "file") : path;
  const RawObject holder = nested ? RawObject(part["file"]) : part;
  if (holder["file_id"]) return CannotSay(Sub(at, "file_id"), "a file kept elsewhere", target);
  const bool by_url = bool(holder["file_url"]);
  KVGATE_TRY(const Literal url, NeededString(holder, by_url ? "file_url" : "file_data", at));
  block.media = MediaOf(url);
  if (!by_url && block.media.base64.empty()) {
    return WrongShape(Sub(at, "file_data"), "must be a data URL in base64");
  }
  KVGATE_TRY(block.media.filename, OptionalString(holder, "filename", at));
  return block;
}

Literal OpenAiReader::Flat(std::string_view space, Literal name) const {
  if (space.empty()) return name;
  return form.Quote(form::FlatName(space, Meant(name)));
}

Result<void> OpenAiReader::ToolsIn(const Space& space, const RawJson& tools,
                                   const std::string& path) const {
  if (tools && !tools.is_array()) return WrongShape(path, "must be an array");
  size_t index = 0;
  for (const RawJson& value : tools.Elements()) {
    const std::string at = At(path, index++);
    KVGATE_TRY(const RawObject tool, NeededObject(value, at));
    const std::string type = tool.String("type");
    if (type == "namespace" && dialect == form::Dialect::kResponses) {
      KVGATE_TRY_VOID(NamespaceIn(space, tool, at));
    } else if (type == "function" || type == "custom") {
      // Items of a conversation may repeat tools.
      KVGATE_TRY_VOID(ToolIn(space, tool, at, path != "tools"));
    } else if (type != "namespace" && form::IsLeftOutName(type)) {
      LeaveOutTool(type, form);
    } else {
      return CannotSay(Sub(at, "type"), "a tool of type '" + type.substr(0, 80) + "'", target);
    }
  }
  return {};
}

Result<void> OpenAiReader::NamespaceIn(const Space& space, const RawObject& tool,
                                       const std::string& path) const {
  if (space.depth >= form::kNamespaceDepthMax) {
    return WrongShape(Sub(path, "type"),
                      fmt::format("must not be 'namespace' in {} namespaces", space.depth));
  }
  KVGATE_TRY_VOID(NeededString(tool, "name", path));
  const Space inner{.name = form::FlatName(space.name, tool.String("name")),
                    .depth = space.depth + 1};
  return ToolsIn(inner, tool["tools"], Sub(path, "tools"));
}

Result<void> OpenAiReader::ToolIn(const Space& space, const RawObject& tool,
                                  const std::string& path, bool may_repeat) const {
  const bool is_custom = tool.String("type") == "custom";
  KVGATE_TRY(ToolForm made, is_custom ? Custom(tool, path) : Function(tool, path));
  made.name = Flat(space.name, made.name);
  const auto same = [&](const ToolForm& known) { return known.name == made.name; };
  if (may_repeat && std::any_of(form.tools.begin(), form.tools.end(), same)) return {};
  if (is_custom || !space.name.empty()) {
    form.client_tools.push_back(
        {.name = Meant(made.name), .is_custom = is_custom, .space = space.name});
  }
  form.tools.push_back(std::move(made));
  return {};
}

// No other dialect has grammars for tools, so the description states the grammar in words.
Result<ToolForm> OpenAiReader::Custom(const RawObject& tool, const std::string& path) const {
  const bool nested = dialect == form::Dialect::kChatCompletions;
  const std::string at = nested ? Sub(path, "custom") : path;
  KVGATE_TRY(const RawObject holder, NeededObject(nested ? tool["custom"] : tool.value(), at));
  ToolForm made{.path = path, .ttl_seconds = TtlOf(tool)};
  KVGATE_TRY(made.name, NeededString(holder, "name", at));
  KVGATE_TRY_VOID(OptionalString(holder, "description", at));
  std::string description = holder.String("description");
  const RawObject format(holder["format"]);
  const RawObject grammar = format["grammar"] ? RawObject(format["grammar"]) : format;
  if (const std::string definition = grammar.String("definition"); !definition.empty()) {
    description += "\n\nThe input is a text that this " + grammar.String("syntax") +
                   " grammar describes:\n" + definition;
  }
  if (!description.empty()) made.description = form.Quote(description);
  made.schema = R"({"type":"object","properties":{"input":{"type":"string"}},)"
                R"("required":["input"],"additionalProperties":false})";
  return made;
}

Result<Block> OpenAiReader::CustomCall(const RawObject& call, const std::string& path) const {
  KVGATE_TRY_VOID(NeededString(call, "input", path));
  return Block{.kind = BlockKind::kCall,
               .path = path,
               .arguments = form.Keep(form::InputArguments(call.String("input")))};
}

Result<ToolForm> OpenAiReader::Function(const RawObject& tool, const std::string& path) const {
  const bool nested = dialect == form::Dialect::kChatCompletions;
  const std::string at = nested ? Sub(path, "function") : path;
  KVGATE_TRY(const RawObject holder, NeededObject(nested ? tool["function"] : tool.value(), at));
  ToolForm made{.path = path, .ttl_seconds = TtlOf(tool)};
  KVGATE_TRY(made.name, NeededString(holder, "name", at));
  KVGATE_TRY(made.description, OptionalString(holder, "description", at));
  if (const RawJson schema = holder["parameters"]) {
    if (!schema.is_object()) return WrongShape(Sub(at, "parameters"), "must be an object");
    made.schema = schema.text();
  }
  if (const RawJson strict = holder["strict"]) made.strict = strict.is_true();
  return made;
}

Result<Literal> OpenAiReader::NameOf(const RawObject& choice, const std::string& path) const {
  const bool nested = dialect == form::Dialect::kChatCompletions;
  const bool is_custom = choice.String("type") == "custom";
  const RawObject holder = nested ? RawObject(choice[is_custom ? "custom" : "function"]) : choice;
  KVGATE_TRY(const Literal name, NeededString(holder, "name", path));
  return Flat(holder.String("namespace"), name);
}

Result<void> OpenAiReader::Choice(const RawJson& value) const {
  if (!value) return {};
  ChoiceForm& made = form.choice;
  made.given = true;
  const auto set_mode = [&](std::string_view mode) {
    made.mode = mode == "none"       ? ChoiceMode::kNone
                : mode == "required" ? ChoiceMode::kRequired
                                     : ChoiceMode::kAuto;
    return mode == "none" || mode == "required" || mode == "auto";
  };
  if (value.is_string()) {
    if (set_mode(value.String())) return {};
    return WrongShape("tool_choice", "must be 'auto', 'none', 'required' or an object");
  }
  KVGATE_TRY(const RawObject choice, NeededObject(value, "tool_choice"));
  const bool nested = dialect == form::Dialect::kChatCompletions;
  const std::string type = choice.String("type");
  if (type == "function" || type == "custom") {
    KVGATE_TRY(const Literal name, NameOf(choice, "tool_choice"));
    made.mode = ChoiceMode::kRequired;
    made.named = true;
    made.allowed.push_back(name);
    return {};
  }
  if (type != "allowed_tools") {
    return CannotSay("tool_choice.type", "a choice of '" + type + "'", target);
  }
  const RawObject holder = nested ? RawObject(choice["allowed_tools"]) : choice;
  if (!set_mode(holder.String("mode"))) {
    return WrongShape("tool_choice.mode", "must be 'auto' or 'required'");
  }
  const std::vector<RawJson> chosen = holder["tools"].Elements();
  for (const RawJson& element : chosen) {
    const RawObject one(element);
    const std::string of = one.String("type");
    if (!of.empty() && of != "function" && of != "custom") continue;  // a tool that is left out
    KVGATE_TRY(const Literal name, NameOf(one, "tool_choice.tools"));
    made.allowed.push_back(name);
  }
  if (chosen.empty()) return WrongShape("tool_choice.tools", "must name a tool");
  if (!made.allowed.empty()) return {};
  if (made.mode == ChoiceMode::kRequired) {
    return CannotSay("tool_choice.tools", "a choice among tools of a provider's own alone", target);
  }
  made.mode = ChoiceMode::kNone;  // all allowed tools were left out
  return {};
}

Block OpenAiReader::Call(const std::string& path, Literal arguments) const {
  return {.kind = BlockKind::kCall,
          .path = path,
          .arguments = form.Keep(Meant(arguments)),
          .arguments_literal = arguments};
}

Result<void> OpenAiReader::Output(const RawJson& value, const std::string& path) const {
  if (!value) return {};
  KVGATE_TRY(const RawObject format, NeededObject(value, path));
  const std::string type = format.String("type");
  form.output.path = path;
  if (type == "text") return {};
  if (type == "json_object") {
    form.output.kind = OutputKind::kObject;
    return {};
  }
  if (type != "json_schema") {
    return CannotSay(Sub(path, "type"), "a format of '" + type + "'", target);
  }
  const bool nested = dialect == form::Dialect::kChatCompletions;
  const std::string at = nested ? Sub(path, "json_schema") : path;
  KVGATE_TRY(const RawObject holder,
             NeededObject(nested ? format["json_schema"] : format.value(), at));
  form.output.kind = OutputKind::kSchema;
  KVGATE_TRY(form.output.name, NeededString(holder, "name", at));
  KVGATE_TRY(form.output.description, OptionalString(holder, "description", at));
  KVGATE_TRY(const RawObject schema, NeededObject(holder["schema"], Sub(at, "schema")));
  form.output.schema = schema.value().text();
  if (const RawJson strict = holder["strict"]) form.output.strict = strict.text();
  return {};
}

Result<void> OpenAiReader::Hints(const RawObject& body) const {
  KVGATE_TRY(form.cache_key, OptionalString(body, "prompt_cache_key", ""));
  KVGATE_TRY(form.user, OptionalString(body, "safety_identifier", ""));
  if (form.user.empty()) {
    KVGATE_TRY(form.user, OptionalString(body, "user", ""));
  }
  KVGATE_TRY(form.service_tier, OptionalString(body, "service_tier", ""));
  if (const RawJson metadata = body["metadata"]) form.metadata = metadata.text();
  if (const RawJson parallel = body["parallel_tool_calls"]) {
    form.choice.parallel = parallel.is_true();
  }
  return {};
}

// --- writing ------------------------------------------------------------------------------------

Result<void> OpenAiWriter::Part(const Block& block, std::string_view text_type) const {
  const bool chat = dialect == form::Dialect::kChatCompletions;
  const Media& media = block.media;
  std::string url(media.url);
  if (url.empty()) {
    url = "\"data:";
    url.append(media.media_type).append(";base64,").append(media.base64).append("\"");
  }
  json.BeginObject().Key("type");
  if (block.kind == BlockKind::kText) {
    json.String(text_type).Key("text").Raw(block.text);
  } else if (block.kind == BlockKind::kImage && chat) {
    json.String("image_url").Key("image_url").BeginObject().Key("url").Raw(url);
    if (!media.detail.empty()) json.Key("detail").Raw(media.detail);
    json.EndObject();
  } else if (block.kind == BlockKind::kImage) {
    json.String("input_image").Key("image_url").Raw(url);
    if (!media.detail.empty()) json.Key("detail").Raw(media.detail);
  } else if (block.kind == BlockKind::kFile) {
    if (chat && !media.url.empty()) {
      return CannotSay(block.path, "a file by its URL", NameOf(dialect));
    }
    json.String(chat ? "file" : "input_file");
    if (chat) json.Key("file").BeginObject();
    if (media.url.empty()) {
      json.Key("filename").Raw(media.filename.empty() ? "\"document\"" : media.filename);
    }
    json.Key(media.url.empty() ? "file_data" : "file_url").Raw(url);
    if (chat) json.EndObject();
  } else {
    return CannotSay(block.path, "this content in its place", NameOf(dialect));
  }
  if (traits.breakpoints && block.ttl_seconds > 0) {
    json.Key("prompt_cache_breakpoint").BeginObject().Key("mode").String("explicit").EndObject();
  }
  json.EndObject();
  return {};
}

void OpenAiWriter::Tools() const {
  if (form.tools.empty()) return;
  const bool chat = dialect == form::Dialect::kChatCompletions;
  json.Key("tools").BeginArray();
  for (const ToolForm& tool : form.tools) {
    json.BeginObject().Key("type").String("function");
    if (chat) json.Key("function").BeginObject();
    json.Key("name").Raw(tool.name);
    if (!tool.description.empty()) json.Key("description").Raw(tool.description);
    if (!tool.schema.empty()) {
      json.Key("parameters").Raw(tool.schema);
    } else if (!chat) {
      json.Key("parameters").Raw(R"({"type":"object","properties":{}})");
    }
    // Responses treats an absent `strict` as true.
    if (!chat || tool.strict) json.Key("strict").Bool(tool.strict.value_or(false));
    if (chat) json.EndObject();
    json.EndObject();
  }
  json.EndArray();
}

void OpenAiWriter::Choice() const {
  const ChoiceForm& choice = form.choice;
  if (form.tools.empty()) return;
  const bool chat = dialect == form::Dialect::kChatCompletions;
  const auto write_name = [&](Literal name) {
    json.Key("type").String("function");
    if (chat) json.Key("function").BeginObject();
    json.Key("name").Raw(name);
    if (chat) json.EndObject();
  };
  const std::string_view mode = choice.mode == ChoiceMode::kNone       ? "none"
                                : choice.mode == ChoiceMode::kRequired ? "required"
                                                                       : "auto";
  if (choice.named) {
    json.Key("tool_choice").BeginObject();
    write_name(choice.allowed.front());
    json.EndObject();
  } else if (!choice.allowed.empty()) {
    json.Key("tool_choice").BeginObject().Key("type").String("allowed_tools");
    if (chat) json.Key("allowed_tools").BeginObject();
    json.Key("mode").String(mode).Key("tools").BeginArray();
    for (const Literal name : choice.allowed) {
      json.BeginObject();
      write_name(name);
      json.EndObject();
    }
    json.EndArray();
    if (chat) json.EndObject();
    json.EndObject();
  } else if (choice.given) {
    json.Key("tool_choice").String(mode);
  }
  if (choice.parallel) json.Key("parallel_tool_calls").Bool(*choice.parallel);
}

void OpenAiWriter::Format() const {
  const OutputForm& output = form.output;
  json.BeginObject().Key("type");
  if (output.kind == OutputKind::kObject) {
    json.String("json_object").EndObject();
    return;
  }
  const bool chat = dialect == form::Dialect::kChatCompletions;
  json.String("json_schema");
  if (chat) json.Key("json_schema").BeginObject();
  json.Key("name").Raw(output.name);
  if (!output.description.empty()) json.Key("description").Raw(output.description);
  json.Key("schema").Raw(output.schema);
  if (!output.strict.empty()) json.Key("strict").Raw(output.strict);
  if (chat) json.EndObject();
  json.EndObject();
}

void OpenAiWriter::Hints() const {
  if (traits.cache_key && !form.cache_key.empty()) json.Key("prompt_cache_key").Raw(form.cache_key);
  if (!form.user.empty()) json.Key("safety_identifier").Raw(form.user);
  if (!form.metadata.empty()) json.Key("metadata").Raw(form.metadata);
  if (!form.service_tier.empty()) json.Key("service_tier").Raw(form.service_tier);
}

void OpenAiWriter::Arguments(const Block& call) const {
  json.Key("arguments");
  if (call.arguments_literal.empty()) {
    json.String(call.arguments);
  } else {
    json.Raw(call.arguments_literal);
  }
}

}  // namespace kvgate::dialect::translate
