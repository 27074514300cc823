#include "gateway/dialect/gemini/gemini_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/gemini/gemini_schema.h"
#include "gateway/dialect/translate/dialect_fields.h"

namespace kvgate::dialect::gemini {

using translate::At;
using translate::Block;
using translate::BlockKind;
using translate::CannotSay;
using translate::ChoiceForm;
using translate::ChoiceMode;
using translate::Given;
using translate::LeaveOutTool;
using translate::Literal;
using translate::Media;
using translate::NeededObject;
using translate::NeededString;
using translate::OptionalString;
using translate::OptionalStrings;
using translate::OutputKind;
using translate::RawJson;
using translate::RawObject;
using translate::RequestForm;
using translate::Role;
using translate::Sub;
using translate::ToolForm;
using translate::Turn;
using translate::WrongShape;

namespace {

// A member under either of its spellings, and the one that it has.
struct Member {
  RawJson value;
  std::string name;
  explicit operator bool() const { return static_cast<bool>(value); }
};

// "toolConfig" as "tool_config".
std::string SnakeCase(std::string_view camel) {
  std::string snake;
  for (const char c : camel) {
    if (c >= 'A' && c <= 'Z') {
      snake += '_';
      snake += static_cast<char>(c - 'A' + 'a');
    } else {
      snake += c;
    }
  }
  return snake;
}

Member Either(const RawObject& object, std::string_view camel) {
  if (const RawJson value = object[camel]) return {.value = value, .name = std::string(camel)};
  std::string snake = SnakeCase(camel);
  const RawJson value = object[snake];
  return {.value = value, .name = value ? std::move(snake) : std::string(camel)};
}

// An error for the first member that is none of these, in the words of the dialect's own server.
template <size_t N>
Result<void> RefuseUnknown(const RawObject& object, const std::string_view (&known)[N],
                           const std::string& path) {
  for (const auto& [name, value] : object.members()) {
    if (!value) continue;
    const auto is_it = [&known_name = name](std::string_view each) {
      return known_name == each || known_name == SnakeCase(each);
    };
    const bool is_known = std::any_of(std::begin(known), std::end(known), is_it);
    if (is_known) continue;
    return MakeError(ErrorCode::kInvalidArgument, "translate",
                     fmt::format("Invalid JSON payload received. Unknown name \"{}\"{}: Cannot "
                                 "find field.",
                                 name, path.empty() ? "" : fmt::format(" at '{}'", path)),
                     Sub(path, name));
  }
  return {};
}

class Reader {
 public:
  Reader(std::string_view target, RequestForm& form) : target_(target), form_(form) {}

  Result<void> System(const RawObject& body) {
    const Member system = Either(body, "systemInstruction");
    if (!system) return {};
    KVGATE_TRY(const RawObject content, NeededObject(system.value, system.name));
    Turn turn{.role = Role::kSystem, .path = system.name};
    KVGATE_TRY(turn.blocks, Parts(content["parts"], Sub(system.name, "parts")));
    for (const Block& block : turn.blocks) {
      if (block.kind != BlockKind::kText) return WrongShape(block.path, "must be text");
    }
    if (!turn.blocks.empty()) form_.turns.push_back(std::move(turn));
    return {};
  }

  Result<void> Contents(const RawObject& body) {
    const RawJson contents = body["contents"];
    if (!contents.is_array()) return WrongShape("contents", "must be an array");
    size_t index = 0;
    for (const RawJson& value : contents.Elements()) {
      const std::string path = At("contents", index++);
      KVGATE_TRY(const RawObject content, NeededObject(value, path));
      KVGATE_TRY_VOID(RefuseUnknown(content, {"role", "parts"}, path));
      KVGATE_TRY(const Role role, RoleOf(content["role"], path));
      Turn turn{.role = role, .path = path};
      const size_t num_left_out = num_left_out_;
      KVGATE_TRY(turn.blocks, Parts(content["parts"], Sub(path, "parts")));
      if (turn.blocks.empty() && num_left_out_ > num_left_out) continue;
      form_.turns.push_back(std::move(turn));
    }
    if (index == 0) return WrongShape("contents", "is not specified");
    return {};
  }

  Result<void> Tools(const RawJson& tools) {
    if (!tools) return {};
    if (!tools.is_array()) return WrongShape("tools", "must be an array");
    size_t index = 0;
    for (const RawJson& value : tools.Elements()) {
      const std::string path = At("tools", index++);
      KVGATE_TRY(const RawObject tool, NeededObject(value, path));
      for (const auto& [name, member] : tool.members()) {
        if (!member) continue;
        if (name != "functionDeclarations" && name != "function_declarations") {
          LeaveOutTool(SnakeCase(name), form_);
          continue;
        }
        KVGATE_TRY_VOID(Functions(member, Sub(path, name)));
      }
    }
    return {};
  }

  Result<void> Choice(const RawObject& body) {
    const Member config = Either(body, "toolConfig");
    if (!config) return {};
    KVGATE_TRY(const RawObject tools, NeededObject(config.value, config.name));
    const Member calling = Either(tools, "functionCallingConfig");
    if (!calling) return {};
    const std::string path = Sub(config.name, calling.name);
    KVGATE_TRY(const RawObject choice, NeededObject(calling.value, path));
    const std::string mode = choice.String("mode");
    ChoiceForm& made = form_.choice;
    made.given = true;
    if (mode == "NONE") {
      made.mode = ChoiceMode::kNone;
    } else if (mode == "ANY") {
      made.mode = ChoiceMode::kRequired;
    } else if (!mode.empty() && mode != "AUTO" && mode != "VALIDATED" &&
               mode != "MODE_UNSPECIFIED") {
      return WrongShape(Sub(path, "mode"), "must be AUTO, ANY, NONE or VALIDATED");
    }
    const Member names = Either(choice, "allowedFunctionNames");
    KVGATE_TRY(made.allowed, OptionalStrings(names.value, Sub(path, names.name)));
    made.named = made.mode == ChoiceMode::kRequired && made.allowed.size() == 1;
    return {};
  }

  Result<void> Config(const RawObject& body) {
    const Member member = Either(body, "generationConfig");
    if (!member) return {};
    const std::string& path = member.name;
    KVGATE_TRY(const RawObject config, NeededObject(member.value, path));
    KVGATE_TRY_VOID(RefuseUnknown(config,
                                  {"temperature",
                                   "topP",
                                   "topK",
                                   "maxOutputTokens",
                                   "stopSequences",
                                   "candidateCount",
                                   "responseMimeType",
                                   "responseSchema",
                                   "responseJsonSchema",
                                   "seed",
                                   "presencePenalty",
                                   "frequencyPenalty",
                                   "responseLogprobs",
                                   "logprobs",
                                   "thinkingConfig",
                                   "responseModalities",
                                   "mediaResolution",
                                   "speechConfig",
                                   "imageConfig",
                                   "enableEnhancedCivicAnswers"},
                                  path));
    KVGATE_TRY(form_.temperature, Number(config, "temperature", path));
    KVGATE_TRY(form_.top_p, Number(config, "topP", path));
    KVGATE_TRY(form_.max_tokens, Number(config, "maxOutputTokens", path));
    const Member stop = Either(config, "stopSequences");
    form_.stop_path = Sub(path, stop.name);
    KVGATE_TRY(form_.stop, OptionalStrings(stop.value, form_.stop_path));
    static constexpr std::pair<std::string_view, std::string_view> kSamplers[] = {
        {"topK", "top_k"},
        {"seed", "seed"},
        {"presencePenalty", "presence_penalty"},
        {"frequencyPenalty", "frequency_penalty"},
        {"candidateCount", "n"}};
    for (const auto& [name, chat_name] : kSamplers) {
      KVGATE_TRY(Given given, Number(config, name, path));
      if (!given || (name == "candidateCount" && given.value == "1")) continue;
      form_.samplers.push_back({.name = chat_name, .given = std::move(given)});
    }
    KVGATE_TRY_VOID(Unsayable(config, path));
    KVGATE_TRY_VOID(Thinking(config, path));
    return Output(config, path);
  }

 private:
  static Result<Role> RoleOf(const RawJson& value, const std::string& path) {
    const std::string role = value.String();
    if (!value || role == "user" || role == "function") return Role::kUser;
    if (role == "model") return Role::kAssistant;
    return WrongShape(Sub(path, "role"), "must be 'user' or 'model'");
  }

  static Result<Given> Number(const RawObject& config, std::string_view name,
                              const std::string& path) {
    const Member member = Either(config, name);
    if (!member) return Given();
    const std::string at = Sub(path, member.name);
    if (!member.value.is_number()) return WrongShape(at, "must be a number");
    return Given{.value = member.value.text(), .path = at};
  }

  // What no other dialect can say.
  Result<void> Unsayable(const RawObject& config, const std::string& path) const {
    if (const Member given = Either(config, "responseLogprobs"); given.value.is_true()) {
      return CannotSay(Sub(path, given.name), "it", target_);
    }
    const Member modalities = Either(config, "responseModalities");
    for (const RawJson& each : modalities.value.Elements()) {
      const std::string name = each.String();
      if (name == "TEXT" || name == "text") continue;
      return CannotSay(Sub(path, modalities.name), "more than text", target_);
    }
    return {};
  }

  Result<void> Thinking(const RawObject& config, const std::string& path) {
    const Member member = Either(config, "thinkingConfig");
    if (!member) return {};
    const std::string at = Sub(path, member.name);
    KVGATE_TRY(const RawObject thinking, NeededObject(member.value, at));
    const Member level = Either(thinking, "thinkingLevel");
    if (level) {
      std::string effort = level.value.String();
      std::transform(effort.begin(), effort.end(), effort.begin(), [](unsigned char c) {
        return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      });
      if (effort == "thinking_level_unspecified") return {};
      KVGATE_TRY(form_.effort,
                 translate::ReadEffort(RawJson::Parse(form_.Quote(effort)).value_or(RawJson()),
                                       Sub(at, level.name)));
    } else if (const Member budget = Either(thinking, "thinkingBudget"); budget) {
      const std::optional<int64_t> tokens = budget.value.Integer();
      if (!tokens) return WrongShape(Sub(at, budget.name), "must be a whole number");
      if (*tokens >= 0) {
        form_.effort = *tokens == 0       ? "none"
                       : *tokens <= 4096  ? "low"
                       : *tokens <= 16384 ? "medium"
                                          : "high";
      }
    }
    form_.thinking = !form_.effort.empty() && form_.effort != "none";
    return {};
  }

  Result<void> Output(const RawObject& config, const std::string& path) {
    const std::string type = Either(config, "responseMimeType").value.String();
    Member schema = Either(config, "responseJsonSchema");
    const bool is_json_schema = static_cast<bool>(schema);
    if (!is_json_schema) schema = Either(config, "responseSchema");
    const std::string at = Sub(path, schema.name);
    if (schema && type != "application/json") {
      return WrongShape(at, "needs responseMimeType 'application/json'");
    }
    if (type.empty() || type == "text/plain") return {};
    if (type != "application/json") {
      return CannotSay(Sub(path, "responseMimeType"), "'" + type + "'", target_);
    }
    form_.output.path = schema ? at : Sub(path, "responseMimeType");
    form_.output.kind = schema ? OutputKind::kSchema : OutputKind::kObject;
    if (!schema) return {};
    form_.output.name = "\"answer\"";
    KVGATE_TRY(form_.output.schema, Schema(schema.value, at, is_json_schema));
    return {};
  }

  Result<Literal> Schema(const RawJson& value, const std::string& path, bool is_json_schema) {
    if (is_json_schema) {
      KVGATE_TRY(const RawObject object, NeededObject(value, path));
      return object.value().text();
    }
    KVGATE_TRY(std::string made, JsonSchemaOf(value, path));
    return form_.Keep(std::move(made));
  }

  Result<void> Functions(const RawJson& value, const std::string& path) {
    if (!value.is_array()) return WrongShape(path, "must be an array");
    size_t index = 0;
    for (const RawJson& each : value.Elements()) {
      const std::string at = At(path, index++);
      KVGATE_TRY(const RawObject function, NeededObject(each, at));
      ToolForm made{.path = at};
      KVGATE_TRY(made.name, NeededString(function, "name", at));
      KVGATE_TRY(made.description, OptionalString(function, "description", at));
      Member schema = Either(function, "parametersJsonSchema");
      const bool is_json_schema = static_cast<bool>(schema);
      if (!is_json_schema) schema = Either(function, "parameters");
      if (schema) {
        KVGATE_TRY(made.schema, Schema(schema.value, Sub(at, schema.name), is_json_schema));
      }
      form_.tools.push_back(std::move(made));
    }
    return {};
  }

  Result<std::vector<Block>> Parts(const RawJson& value, const std::string& path) {
    std::vector<Block> blocks;
    if (!value.is_array()) return WrongShape(path, "must be an array of parts");
    size_t index = 0;
    for (const RawJson& each : value.Elements()) {
      const std::string at = At(path, index++);
      KVGATE_TRY(const RawObject part, NeededObject(each, at));
      KVGATE_TRY_VOID(
          RefuseUnknown(part,
                        {"text", "thought", "thoughtSignature", "inlineData", "fileData",
                         "functionCall", "functionResponse", "executableCode",
                         "codeExecutionResult", "videoMetadata", "mediaResolution", "partMetadata"},
                        at));
      KVGATE_TRY_VOID(Part(part, at, blocks));
    }
    return blocks;
  }

  Result<void> Part(const RawObject& part, const std::string& path, std::vector<Block>& blocks) {
    Unseal(part, path, blocks);
    for (const std::string_view own : {"executableCode", "codeExecutionResult"}) {
      if (!Either(part, own)) continue;
      form::AddLeftOut(SnakeCase(own), form_.left_out);
      ++num_left_out_;
      return {};
    }
    Block block{.path = path};
    if (const Member call = Either(part, "functionCall"); call) {
      KVGATE_TRY_VOID(Call(call.value, Sub(path, call.name), block));
    } else if (const Member result = Either(part, "functionResponse"); result) {
      KVGATE_TRY_VOID(Response(result.value, Sub(path, result.name), block));
    } else if (const Member inside = Either(part, "inlineData"); inside) {
      KVGATE_TRY_VOID(InlineData(inside.value, Sub(path, inside.name), block));
    } else if (const Member file = Either(part, "fileData"); file) {
      KVGATE_TRY_VOID(FileData(file.value, Sub(path, file.name), block));
    } else {
      KVGATE_TRY(block.text, OptionalString(part, "text", path));
      if (block.text.empty() || block.text == "\"\"") return {};
      if (part["thought"].is_true()) block.kind = BlockKind::kThinking;
    }
    blocks.push_back(std::move(block));
    return {};
  }

  // A signature that this gateway gave out holds what another provider wants back with its
  // thoughts; any other one means nothing to the target.
  void Unseal(const RawObject& part, const std::string& path, std::vector<Block>& blocks) {
    const std::string signature = Either(part, "thoughtSignature").value.String();
    std::string sealed;
    DecodeBase64(signature, sealed, Base64Alphabet::kEither);
    Block thought{.kind = BlockKind::kThinking, .path = path, .text = "\"\""};
    if (translate::Unseal(sealed, form_, thought)) blocks.push_back(std::move(thought));
  }

  Result<void> Call(const RawJson& value, const std::string& path, Block& block) {
    KVGATE_TRY(const RawObject call, NeededObject(value, path));
    block.kind = BlockKind::kCall;
    KVGATE_TRY(block.name, NeededString(call, "name", path));
    KVGATE_TRY(block.id, OptionalString(call, "id", path));
    const bool has_id = !block.id.empty() && block.id != "\"\"";
    if (!has_id) block.id = form_.Quote(fmt::format("call_{}", num_calls_));
    ++num_calls_;
    block.arguments = "{}";
    if (const RawJson args = call["args"]) {
      KVGATE_TRY(const RawObject object, NeededObject(args, Sub(path, "args")));
      block.arguments = object.value().text();
    }
    open_[block.name].push_back(block.id);
    return {};
  }

  Result<void> Response(const RawJson& value, const std::string& path, Block& block) {
    KVGATE_TRY(const RawObject result, NeededObject(value, path));
    block.kind = BlockKind::kResult;
    KVGATE_TRY(const Literal name, NeededString(result, "name", path));
    KVGATE_TRY(block.id, OptionalString(result, "id", path));
    const bool has_id = !block.id.empty() && block.id != "\"\"";
    if (has_id) {
      closed_.insert(block.id);
    } else {
      std::deque<Literal>& open = open_[name];
      while (!open.empty() && closed_.contains(open.front())) open.pop_front();
      if (open.empty()) {
        return WrongShape(Sub(path, "name"),
                          "must be the name of a function that was called before");
      }
      block.id = open.front();
      open.pop_front();
    }
    KVGATE_TRY(const RawObject response, NeededObject(result["response"], Sub(path, "response")));
    block.content.push_back({.path = path, .text = TextOf(response, block.is_error)});
    size_t index = 0;
    for (const RawJson& each : result["parts"].Elements()) {
      const std::string at = At(Sub(path, "parts"), index++);
      KVGATE_TRY(const RawObject part, NeededObject(each, at));
      KVGATE_TRY_VOID(Part(part, at, block.content));
    }
    return {};
  }

  // What a function said: the text of its "output" or "error" where it is one and stands alone, as
  // the dialect has it, else the object as JSON.
  Literal TextOf(const RawObject& response, bool& is_error) {
    if (response.members().size() == 1) {
      const auto& [name, value] = response.members().front();
      is_error = name == "error";
      if (name == "output" || name == "result" || name == "error") {
        if (value.is_string()) return value.text();
        return form_.Quote(value.text());
      }
    }
    return form_.Quote(response.value().text());
  }

  static bool IsImage(Literal type) { return type.starts_with("\"image/"); }

  Result<void> InlineData(const RawJson& value, const std::string& path, Block& block) {
    KVGATE_TRY(const RawObject held, NeededObject(value, path));
    const Member type = Either(held, "mimeType");
    if (!type.value.is_string()) return WrongShape(Sub(path, type.name), "is missing");
    KVGATE_TRY(const Literal data, NeededString(held, "data", path));
    const Literal text = type.value.text();
    block.kind = IsImage(text) ? BlockKind::kImage : BlockKind::kFile;
    block.media = {.media_type = text.substr(1, text.size() - 2),
                   .base64 = data.substr(1, data.size() - 2)};
    return {};
  }

  Result<void> FileData(const RawJson& value, const std::string& path, Block& block) {
    KVGATE_TRY(const RawObject held, NeededObject(value, path));
    const Member uri = Either(held, "fileUri");
    if (!uri.value.is_string()) return WrongShape(Sub(path, uri.name), "is missing");
    block.kind =
        IsImage(Either(held, "mimeType").value.text()) ? BlockKind::kImage : BlockKind::kFile;
    block.media = Media{.url = uri.value.text()};
    return {};
  }

  std::string_view target_;
  RequestForm& form_;
  // Calls that had no result when they were made, by their names; results with ids close them.
  std::unordered_map<Literal, std::deque<Literal>> open_;
  std::unordered_set<Literal> closed_;
  int num_calls_ = 0;
  size_t num_left_out_ = 0;
};

}  // namespace

Result<void> ReadGeminiRequest(const RawObject& body, std::string_view target, const PathSays& path,
                               RequestForm& form) {
  KVGATE_TRY_VOID(
      RefuseUnknown(body,
                    {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig",
                     "safetySettings", "cachedContent", "labels", "model", "store", "serviceTier"},
                    ""));
  if (const Member cached = Either(body, "cachedContent"); cached) {
    return CannotSay(cached.name, "a prefix that another server keeps", target);
  }
  std::string model;
  form::AppendJsonString(path.model, model);
  form.model = form.Keep(std::move(model));
  form.stream = path.stream;
  form.include_usage = true;
  Reader reader(target, form);
  KVGATE_TRY_VOID(reader.Config(body));
  KVGATE_TRY_VOID(reader.Tools(body["tools"]));
  KVGATE_TRY_VOID(reader.Choice(body));
  KVGATE_TRY_VOID(reader.System(body));
  return reader.Contents(body);
}

std::string_view CountedRequest(std::string_view body) {
  const Result<RawJson> json = RawJson::Parse(body);
  if (!json || !json->is_object()) return body;
  const Member held = Either(RawObject(*json), "generateContentRequest");
  return held ? held.value.text() : body;
}

bool WantsThoughts(const RawObject& body) {
  const Member config = Either(body, "generationConfig");
  const Member thinking = Either(RawObject(config.value), "thinkingConfig");
  return Either(RawObject(thinking.value), "includeThoughts").value.is_true();
}

std::string GeminiPath(const PathSays& path) {
  // The name is the caller's, who must not say more of a request's head than that.
  std::string model;
  for (const char c : path.model) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
    if (is_plain) {
      model += c;
    } else {
      fmt::format_to(std::back_inserter(model), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return fmt::format("/v1beta/models/{}:{}", model,
                     path.stream ? "streamGenerateContent?alt=sse" : "generateContent");
}

}  // namespace kvgate::dialect::gemini
