#include "gateway/dialect/chat/chat_request.h"

#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/translate/dialect_fields.h"
#include "gateway/dialect/translate/openai_fields.h"

namespace kvgate::dialect::chat {

using translate::At;
using translate::Block;
using translate::BlockKind;
using translate::CannotSay;
using translate::IsTextOnly;
using translate::JoinTexts;
using translate::Literal;
using translate::NeededObject;
using translate::NeededString;
using translate::OpenAiReader;
using translate::OpenAiWriter;
using translate::OptionalNumber;
using translate::OptionalString;
using translate::OptionalStrings;
using translate::OutputKind;
using translate::RawJson;
using translate::RawObject;
using translate::ReadCommon;
using translate::ReadEffort;
using translate::RefuseOthers;
using translate::RequestForm;
using translate::ResultsFirst;
using translate::Role;
using translate::Sub;
using translate::TargetTraits;
using translate::TtlOf;
using translate::Turn;
using translate::WrongShape;

namespace {

using form::JsonWriter;

constexpr std::string_view kDialect = "Chat Completions";

// --- reading ------------------------------------------------------------------------------------

// These fields have no effect at these values; other values cannot be translated.
Result<void> RefuseSamplers(const RawObject& body, std::string_view target) {
  static constexpr std::pair<std::string_view, double> kNumbers[] = {
      {"n", 1}, {"presence_penalty", 0}, {"frequency_penalty", 0}, {"top_logprobs", 0}};
  for (const auto& [name, silent] : kNumbers) {
    const RawJson value = body[name];
    if (value && value.Number().value_or(silent + 1) != silent) {
      return CannotSay(std::string(name), "this value", target);
    }
  }
  if (body["logprobs"].is_true()) return CannotSay("logprobs", "this value", target);
  if (!body["logit_bias"].Members().empty()) return CannotSay("logit_bias", "it", target);
  if (body["seed"]) return CannotSay("seed", "it", target);
  for (const RawJson& modality : body["modalities"].Elements()) {
    if (modality.String() != "text") return CannotSay("modalities", "more than text", target);
  }
  return {};
}

class Reader {
 public:
  Reader(std::string_view target, RequestForm& form)
      : target_(target),
        form_(form),
        parts_{.dialect = form::Dialect::kChatCompletions, .target = target, .form = form} {}

  Result<void> Messages(const RawJson& messages) {
    if (!messages.is_array()) return WrongShape("messages", "must be an array");
    size_t index = 0;
    for (const RawJson& value : messages.Elements()) {
      const std::string path = At("messages", index++);
      KVGATE_TRY(const RawObject message, NeededObject(value, path));
      KVGATE_TRY(Turn turn, ReadTurn(message, path));
      form_.turns.push_back(std::move(turn));
    }
    if (index == 0) return WrongShape("messages", "must have at least one message");
    return {};
  }

  Result<void> Tools(const RawObject& body) {
    KVGATE_TRY_VOID(parts_.Tools(body["tools"], "tools"));
    KVGATE_TRY_VOID(parts_.Choice(body["tool_choice"]));
    KVGATE_TRY_VOID(parts_.Hints(body));
    return parts_.Output(body["response_format"], "response_format");
  }

 private:
  Result<Turn> ReadTurn(const RawObject& message, const std::string& path) {
    static constexpr std::pair<std::string_view, Role> kRoles[] = {{"system", Role::kSystem},
                                                                   {"developer", Role::kDeveloper},
                                                                   {"user", Role::kUser},
                                                                   {"assistant", Role::kAssistant}};
    const std::string name = message.String("role");
    if (name == "tool") return ToolResult(message, path);
    for (const auto& [known, role] : kRoles) {
      if (name != known) continue;
      if (role == Role::kAssistant) return Answer(message, path);
      Turn turn{.role = role, .path = path};
      KVGATE_TRY(turn.blocks, parts_.Contents(message["content"], Sub(path, "content")));
      return turn;
    }
    if (name == "function") return CannotSay(Sub(path, "role"), "the role 'function'", target_);
    return WrongShape(Sub(path, "role"), "must be system, developer, user, assistant or tool");
  }

  Result<Turn> ToolResult(const RawObject& message, const std::string& path) {
    Block block{.kind = BlockKind::kResult, .path = path, .ttl_seconds = TtlOf(message)};
    KVGATE_TRY(block.id, NeededString(message, "tool_call_id", path));
    KVGATE_TRY(block.content, parts_.Contents(message["content"], Sub(path, "content")));
    return Turn{.role = Role::kUser, .path = path, .blocks = {std::move(block)}};
  }

  Result<Block> CallOf(const RawObject& held, bool is_custom, const std::string& path) {
    if (is_custom) return parts_.CustomCall(held, path);
    KVGATE_TRY(const Literal arguments, OptionalString(held, "arguments", path));
    return parts_.Call(path, arguments.empty() ? "\"\"" : arguments);
  }

  Result<Turn> Answer(const RawObject& message, const std::string& path) {
    Turn turn{.role = Role::kAssistant, .path = path};
    if (message["function_call"]) {
      return CannotSay(Sub(path, "function_call"), "a call without an id", target_);
    }
    KVGATE_TRY(const Literal reasoning, OptionalString(message, "reasoning_content", path));
    if (!reasoning.empty()) {
      turn.blocks.push_back({.kind = BlockKind::kThinking, .path = path, .text = reasoning});
    }
    KVGATE_TRY(std::vector<Block> content,
               parts_.Contents(message["content"], Sub(path, "content")));
    for (Block& block : content) turn.blocks.push_back(std::move(block));
    KVGATE_TRY(const Literal refusal, OptionalString(message, "refusal", path));
    if (!refusal.empty()) turn.blocks.push_back({.path = path, .text = refusal});
    const std::string calls_path = Sub(path, "tool_calls");
    size_t index = 0;
    for (const RawJson& value : message["tool_calls"].Elements()) {
      const std::string call_path = At(calls_path, index++);
      const RawObject call(value);
      const std::string type = call.String("type");
      if (!type.empty() && type != "function" && type != "custom") {
        return CannotSay(Sub(call_path, "type"), "a call of type '" + type + "'", target_);
      }
      const char* const holder = type == "custom" ? "custom" : "function";
      KVGATE_TRY(const RawObject held, NeededObject(call[holder], Sub(call_path, holder)));
      KVGATE_TRY(Block made, CallOf(held, type == "custom", Sub(call_path, holder)));
      KVGATE_TRY(made.id, NeededString(call, "id", call_path));
      KVGATE_TRY(made.name, NeededString(held, "name", call_path));
      turn.blocks.push_back(std::move(made));
    }
    return turn;
  }

  std::string_view target_;
  RequestForm& form_;
  OpenAiReader parts_;
};

// --- writing ------------------------------------------------------------------------------------

class Writer {
 public:
  Writer(const TargetTraits& traits, RequestForm& form)
      : form_(form),
        traits_(traits),
        parts_{.dialect = form::Dialect::kChatCompletions,
               .traits = traits,
               .form = form,
               .json = json_} {}

  Result<std::string> Body() {
    json_.BeginObject().Key("model").Raw(form_.model);
    if (form_.max_tokens) {
      json_.Key(traits_.plain_names ? "max_tokens" : "max_completion_tokens");
      json_.Raw(form_.max_tokens.value);
    }
    json_.Key("stream").Bool(form_.stream);
    if (form_.stream) {
      json_.Key("stream_options").BeginObject().Key("include_usage").Bool(true).EndObject();
    }
    if (form_.temperature) json_.Key("temperature").Raw(form_.temperature.value);
    if (form_.top_p) json_.Key("top_p").Raw(form_.top_p.value);
    for (const translate::Sampler& each : form_.samplers) {
      json_.Key(each.name).Raw(each.given.value);
    }
    if (!form_.stop.empty()) {
      json_.Key("stop").BeginArray();
      for (const Literal stop : form_.stop) json_.Raw(stop);
      json_.EndArray();
    }
    if (!form_.effort.empty()) json_.Key("reasoning_effort").String(form_.effort);
    if (!form_.verbosity.empty()) json_.Key("verbosity").Raw(form_.verbosity);
    if (form_.output.kind != OutputKind::kText) {
      json_.Key("response_format");
      parts_.Format();
    }
    parts_.Hints();
    parts_.Tools();
    parts_.Choice();
    json_.Key("messages").BeginArray();
    for (const Turn& turn : ResultsFirst(form_.turns)) {
      KVGATE_TRY_VOID(turn.role == Role::kAssistant ? Answer(turn) : Asked(turn));
    }
    json_.EndArray().EndObject();
    return std::move(out_);
  }

 private:
  // Writes a string if it can express the content, because many servers of this dialect accept only
  // strings.
  Result<void> Contents(const std::vector<Block>& blocks) {
    json_.Key("content");
    if (IsTextOnly(blocks) && !parts_.Marks(blocks)) {
      json_.Raw(JoinTexts(blocks, form_));
      return {};
    }
    json_.BeginArray();
    for (const Block& block : blocks) {
      KVGATE_TRY_VOID(parts_.Part(block, "text"));
    }
    json_.EndArray();
    return {};
  }

  Result<void> Asked(const Turn& turn) {
    if (!turn.blocks.empty() && turn.blocks.front().kind == BlockKind::kResult) {
      return WriteResult(turn.blocks.front());
    }
    json_.BeginObject().Key("role");
    const bool developer = turn.role == Role::kDeveloper && !traits_.plain_names;
    json_.String(turn.role == Role::kUser ? "user" : developer ? "developer" : "system");
    KVGATE_TRY_VOID(Contents(turn.blocks));
    json_.EndObject();
    return {};
  }

  Result<void> WriteResult(const Block& result) {
    std::vector<Block> texts;
    if (result.is_error) texts.push_back({.text = "\"Error:\""});
    for (const Block& part : result.content) {
      if (part.kind == BlockKind::kText) texts.push_back(part);
    }
    // A cache breakpoint on the whole result moves to its last part.
    if (!texts.empty()) {
      texts.back().ttl_seconds = std::max(texts.back().ttl_seconds, result.ttl_seconds);
    }
    json_.BeginObject().Key("role").String("tool").Key("tool_call_id").Raw(result.id);
    KVGATE_TRY_VOID(Contents(texts));
    json_.EndObject();
    return {};
  }

  Result<void> Answer(const Turn& turn) {
    std::vector<Block> texts;
    std::vector<Block> thoughts;
    std::vector<const Block*> calls;
    for (const Block& block : turn.blocks) {
      if (block.kind == BlockKind::kCall) {
        calls.push_back(&block);
      } else if (block.kind == BlockKind::kThinking) {
        thoughts.push_back({.text = block.text});
      } else {
        texts.push_back(block);
      }
    }
    if (texts.empty() && calls.empty() && !traits_.reasoning_content) return {};
    json_.BeginObject().Key("role").String("assistant");
    if (texts.empty() && !calls.empty()) {
      json_.Key("content").Null();
    } else {
      KVGATE_TRY_VOID(Contents(texts));
    }
    const Literal reasoning = JoinTexts(thoughts, form_);
    if (traits_.reasoning_content && reasoning != "\"\"") {
      json_.Key("reasoning_content").Raw(reasoning);
    }
    if (!calls.empty()) {
      json_.Key("tool_calls").BeginArray();
      for (const Block* call : calls) Call(*call);
      json_.EndArray();
    }
    json_.EndObject();
    return {};
  }

  void Call(const Block& call) {
    json_.BeginObject().Key("id").Raw(call.id).Key("type").String("function");
    json_.Key("function").BeginObject().Key("name").Raw(call.name);
    parts_.Arguments(call);
    json_.EndObject().EndObject();
  }

  RequestForm& form_;
  const TargetTraits& traits_;
  std::string out_;
  JsonWriter json_{out_};
  OpenAiWriter parts_;
};

// Tool results of this dialect are text only, so other parts follow in a user turn.
void MoveMedia(RequestForm& form) {
  for (Turn& turn : form.turns) {
    std::vector<Block> moved;
    for (const Block& block : turn.blocks) {
      if (block.kind != BlockKind::kResult) continue;
      for (const Block& part : block.content) {
        if (part.kind != BlockKind::kText) moved.push_back(part);
      }
    }
    turn.blocks.insert(turn.blocks.end(), moved.begin(), moved.end());
  }
}

}  // namespace

Result<void> ReadChatRequest(const RawObject& body, std::string_view target, RequestForm& form) {
  KVGATE_TRY_VOID(RefuseOthers(body,
                               {"model",
                                "messages",
                                "tools",
                                "tool_choice",
                                "parallel_tool_calls",
                                "web_search_options",
                                "stream",
                                "stream_options",
                                "max_tokens",
                                "max_completion_tokens",
                                "temperature",
                                "top_p",
                                "n",
                                "stop",
                                "seed",
                                "user",
                                "metadata",
                                "store",
                                "service_tier",
                                "response_format",
                                "reasoning_effort",
                                "verbosity",
                                "logprobs",
                                "top_logprobs",
                                "logit_bias",
                                "modalities",
                                "prediction",
                                "presence_penalty",
                                "frequency_penalty",
                                "prompt_cache_key",
                                "prompt_cache_options",
                                "prompt_cache_retention",
                                "safety_identifier"},
                               target));
  if (body["web_search_options"]) form::AddLeftOut("web_search_options", form.left_out);
  KVGATE_TRY_VOID(ReadCommon(body, form));
  KVGATE_TRY_VOID(RefuseSamplers(body, target));
  KVGATE_TRY(form.max_tokens, OptionalNumber(body, "max_completion_tokens"));
  if (!form.max_tokens) {
    KVGATE_TRY(form.max_tokens, OptionalNumber(body, "max_tokens"));
  }
  form.include_usage = RawObject(body["stream_options"])["include_usage"].is_true();
  KVGATE_TRY(form.stop, OptionalStrings(body["stop"], "stop"));
  form.stop_path = "stop";
  KVGATE_TRY(form.effort, ReadEffort(body["reasoning_effort"], "reasoning_effort"));
  KVGATE_TRY(form.verbosity, OptionalString(body, "verbosity", ""));
  Reader reader(target, form);
  KVGATE_TRY_VOID(reader.Tools(body));
  return reader.Messages(body["messages"]);
}

Result<std::string> WriteChatRequest(const TargetTraits& traits, RequestForm& form) {
  if (!form.turns.empty() && form.turns.back().role == Role::kAssistant) {
    return CannotSay(form.turns.back().path, "an answer's beginning", kDialect);
  }
  MoveMedia(form);
  return Writer(traits, form).Body();
}

}  // namespace kvgate::dialect::chat
