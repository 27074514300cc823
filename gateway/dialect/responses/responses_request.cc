#include "gateway/dialect/responses/responses_request.h"

#include <algorithm>
#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/responses/response_items.h"
#include "gateway/dialect/translate/dialect_fields.h"
#include "gateway/dialect/translate/openai_fields.h"

namespace kvgate::dialect::responses {

using translate::At;
using translate::Block;
using translate::BlockKind;
using translate::CannotSay;
using translate::IsTextOnly;
using translate::JoinTexts;
using translate::kSealedRedacted;
using translate::kSealedThinking;
using translate::Literal;
using translate::NeededObject;
using translate::NeededString;
using translate::OpenAiReader;
using translate::OpenAiWriter;
using translate::OptionalNumber;
using translate::OptionalString;
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

constexpr std::string_view kDialect = "Responses";

// --- reading ------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(std::string_view target, RequestForm& form)
      : target_(target),
        form_(form),
        parts_{.dialect = form::Dialect::kResponses, .target = target, .form = form} {}

  Result<void> Input(const RawJson& input) {
    if (input.is_string()) {
      Add(Role::kUser, {.path = "input", .text = input.text()});
      return {};
    }
    if (!input.is_array()) return WrongShape("input", "must be a string or an array of items");
    size_t index = 0;
    for (const RawJson& value : input.Elements()) {
      const std::string path = At("input", index++);
      KVGATE_TRY(const RawObject item, NeededObject(value, path));
      KVGATE_TRY_VOID(Item(item, path));
    }
    if (index == 0) return WrongShape("input", "must have at least one item");
    return {};
  }

  Result<void> Tools(const RawObject& body) {
    KVGATE_TRY_VOID(parts_.Tools(body["tools"], "tools"));
    KVGATE_TRY_VOID(parts_.Choice(body["tool_choice"]));
    KVGATE_TRY_VOID(parts_.Hints(body));
    const RawObject text(body["text"]);
    KVGATE_TRY(form_.verbosity, OptionalString(text, "verbosity", "text"));
    return parts_.Output(text["format"], "text.format");
  }

 private:
  // Consecutive assistant items form one turn.
  void Add(Role role, Block block) {
    if (form_.turns.empty() || role != Role::kAssistant ||
        form_.turns.back().role != Role::kAssistant) {
      form_.turns.push_back({.role = role, .path = block.path});
    }
    form_.turns.back().blocks.push_back(std::move(block));
  }

  Result<void> Item(const RawObject& item, const std::string& path) {
    const std::string type = item.String("type");
    if (type == "message" || (type.empty() && item["role"])) return Message(item, path);
    if (type == "function_call" || type == "custom_tool_call") {
      KVGATE_TRY(Block call, CallOf(item, type == "custom_tool_call", path));
      KVGATE_TRY(call.id, NeededString(item, "call_id", path));
      KVGATE_TRY(call.name, NeededString(item, "name", path));
      call.name = parts_.Flat(item.String("namespace"), call.name);
      Add(Role::kAssistant, std::move(call));
      return {};
    }
    if (type == "additional_tools" || (type == "tool_search_output" && item["tools"])) {
      return parts_.Tools(item["tools"], Sub(path, "tools"));
    }
    if (type == "function_call_output" || type == "custom_tool_call_output") {
      Block result{.kind = BlockKind::kResult, .path = path, .ttl_seconds = TtlOf(item)};
      KVGATE_TRY(result.id, NeededString(item, "call_id", path));
      KVGATE_TRY(result.content, parts_.Contents(item["output"], Sub(path, "output")));
      Add(Role::kUser, std::move(result));
      return {};
    }
    if (type == "reasoning") {
      Reasoning(item, path);
      return {};
    }
    if (form::IsCompaction(type)) return Compaction(item, type, path);
    if (form::IsProvidersItem(type)) {
      form::AddLeftOut(type, form_.left_out);
      return {};
    }
    return CannotSay(Sub(path, "type"), "an item of type '" + type + "'", target_);
  }

  // If the summary is not readable, the model is told that it is missing.
  Result<void> Compaction(const RawObject& item, std::string_view type, const std::string& path) {
    Block block{.path = path, .text = Texts(item["content"])};
    if (block.text == "\"\"") block.text = Texts(item["summary"]);
    if (block.text == "\"\"") {
      form::AddLeftOut(type, form_.left_out);
      block.text = form_.Quote(form::kSealedCompaction);
    }
    Add(Role::kUser, std::move(block));
    return {};
  }

  Result<Block> CallOf(const RawObject& item, bool is_custom, const std::string& path) {
    if (is_custom) return parts_.CustomCall(item, path);
    KVGATE_TRY(const Literal arguments, OptionalString(item, "arguments", path));
    return parts_.Call(path, arguments.empty() ? "\"\"" : arguments);
  }

  Result<void> Message(const RawObject& item, const std::string& path) {
    static constexpr std::pair<std::string_view, Role> kRoles[] = {{"system", Role::kSystem},
                                                                   {"developer", Role::kDeveloper},
                                                                   {"user", Role::kUser},
                                                                   {"assistant", Role::kAssistant}};
    const std::string name = item.String("role");
    const auto* known = std::find_if(std::begin(kRoles), std::end(kRoles),
                                     [&](const auto& role) { return role.first == name; });
    if (known == std::end(kRoles)) {
      return WrongShape(Sub(path, "role"), "must be system, developer, user or assistant");
    }
    KVGATE_TRY(std::vector<Block> blocks, parts_.Contents(item["content"], Sub(path, "content")));
    if (known->second != Role::kAssistant) {
      form_.turns.push_back({.role = known->second, .path = path, .blocks = std::move(blocks)});
      return {};
    }
    for (Block& block : blocks) Add(Role::kAssistant, std::move(block));
    return {};
  }

  // Returns a string, or the texts of a list of parts joined.
  Literal Texts(const RawJson& list) {
    if (list.is_string()) return list.text();
    std::vector<Block> texts;
    for (const RawJson& part : list.Elements()) {
      if (const RawJson text = RawObject(part)["text"]; text.is_string()) {
        texts.push_back({.text = text.text()});
      }
    }
    return JoinTexts(texts, form_);
  }

  // Data that a Messages provider sealed into the item is unpacked for such a provider. OpenAI's
  // own encrypted content goes to no other provider.
  void Reasoning(const RawObject& item, const std::string& path) {
    Block block{.kind = BlockKind::kThinking, .path = path, .text = Texts(item["content"])};
    if (block.text == "\"\"") block.text = Texts(item["summary"]);
    const std::string sealed = item.String("encrypted_content");
    if (!translate::Unseal(sealed, form_, block)) {
      const std::string text = OpenReasoning(sealed);
      if (!text.empty()) block.text = form_.Quote(text);
    }
    Add(Role::kAssistant, std::move(block));
  }

  std::string_view target_;
  RequestForm& form_;
  OpenAiReader parts_;
};

Result<void> RefuseKept(const RawObject& body, std::string_view target) {
  for (const std::string_view name : {"previous_response_id", "conversation", "prompt"}) {
    if (body[name]) return CannotSay(std::string(name), "what a provider keeps", target);
  }
  if (body["background"].is_true()) {
    return CannotSay("background", "an answer in the background", target);
  }
  if (body["top_logprobs"] && body["top_logprobs"].Number().value_or(1) != 0) {
    return CannotSay("top_logprobs", "this value", target);
  }
  for (const RawJson& name : body["include"].Elements()) {
    if (name.String() == "message.output_text.logprobs") {
      return CannotSay("include", "log-probabilities", target);
    }
  }
  return {};
}

// --- writing ------------------------------------------------------------------------------------

class Writer {
 public:
  Writer(const TargetTraits& traits, RequestForm& form)
      : form_(form),
        parts_{
            .dialect = form::Dialect::kResponses, .traits = traits, .form = form, .json = json_} {}

  Result<std::string> Body() {
    if (!form_.stop.empty()) return CannotSay(form_.stop_path, "stop sequences", kDialect);
    json_.BeginObject().Key("model").Raw(form_.model);
    if (form_.max_tokens) json_.Key("max_output_tokens").Raw(form_.max_tokens.value);
    json_.Key("stream").Bool(form_.stream).Key("store").Bool(false);
    if (form_.temperature) json_.Key("temperature").Raw(form_.temperature.value);
    if (form_.top_p) json_.Key("top_p").Raw(form_.top_p.value);
    Reasoning();
    Text();
    parts_.Hints();
    parts_.Tools();
    parts_.Choice();
    const std::vector<Turn> turns = ResultsFirst(form_.turns);
    const bool instructed = !turns.empty() && IsInstruction(turns.front());
    if (instructed) json_.Key("instructions").Raw(JoinTexts(turns.front().blocks, form_));
    json_.Key("input").BeginArray();
    for (size_t i = instructed ? 1 : 0; i < turns.size(); ++i) {
      KVGATE_TRY_VOID(turns[i].role == Role::kAssistant ? Answer(turns[i]) : Asked(turns[i]));
    }
    json_.EndArray().EndObject();
    return std::move(out_);
  }

 private:
  // Instructions cannot hold a cache breakpoint, so turns with one are written as items.
  bool IsInstruction(const Turn& turn) const {
    return (turn.role == Role::kSystem || turn.role == Role::kDeveloper) &&
           IsTextOnly(turn.blocks) && !parts_.Marks(turn.blocks);
  }

  // Encrypted reasoning is returned only if it is requested, and only by models that think.
  void Reasoning() {
    if (form_.effort.empty() && !form_.thinking) return;
    json_.Key("reasoning").BeginObject();
    if (!form_.effort.empty()) json_.Key("effort").String(form_.effort);
    if (form_.effort != "none") json_.Key("summary").String("auto");
    json_.EndObject();
    if (form_.effort == "none") return;
    json_.Key("include").BeginArray().String("reasoning.encrypted_content").EndArray();
  }

  void Text() {
    const bool format = form_.output.kind != OutputKind::kText;
    if (!format && form_.verbosity.empty()) return;
    json_.Key("text").BeginObject();
    if (format) {
      json_.Key("format");
      parts_.Format();
    }
    if (!form_.verbosity.empty()) json_.Key("verbosity").Raw(form_.verbosity);
    json_.EndObject();
  }

  Result<void> Parts(const std::vector<Block>& blocks, std::string_view text_type) {
    json_.BeginArray();
    for (const Block& block : blocks) {
      KVGATE_TRY_VOID(parts_.Part(block, text_type));
    }
    json_.EndArray();
    return {};
  }

  Result<void> Asked(const Turn& turn) {
    if (!turn.blocks.empty() && turn.blocks.front().kind == BlockKind::kResult) {
      return WriteResult(turn.blocks.front());
    }
    json_.BeginObject().Key("type").String("message").Key("role");
    json_.String(turn.role == Role::kUser        ? "user"
                 : turn.role == Role::kDeveloper ? "developer"
                                                 : "system");
    json_.Key("content");
    KVGATE_TRY_VOID(Parts(turn.blocks, "input_text"));
    json_.EndObject();
    return {};
  }

  Result<void> WriteResult(const Block& result) {
    json_.BeginObject().Key("type").String("function_call_output").Key("call_id").Raw(result.id);
    std::vector<Block> content = result.content;
    if (result.is_error) content.insert(content.begin(), Block{.text = "\"Error:\""});
    if (!content.empty()) {
      content.back().ttl_seconds = std::max(content.back().ttl_seconds, result.ttl_seconds);
    }
    json_.Key("output");
    if (IsTextOnly(content) && !parts_.Marks(content)) {
      json_.Raw(JoinTexts(content, form_));
    } else {
      KVGATE_TRY_VOID(Parts(content, "input_text"));
    }
    json_.EndObject();
    return {};
  }

  // Text between other blocks becomes a message of its own.
  Result<void> Answer(const Turn& turn) {
    std::vector<Block> texts;
    const auto flush = [&]() -> Result<void> {
      if (texts.empty()) return {};
      json_.BeginObject().Key("type").String("message").Key("role").String("assistant");
      json_.Key("content");
      KVGATE_TRY_VOID(Parts(std::exchange(texts, {}), "output_text"));
      json_.EndObject();
      return {};
    };
    for (const Block& block : turn.blocks) {
      if (block.kind != BlockKind::kCall && block.kind != BlockKind::kThinking) {
        texts.push_back(block);
        // This dialect has cache breakpoints only in input, not in answers.
        texts.back().ttl_seconds = 0;
        continue;
      }
      KVGATE_TRY_VOID(flush());
      if (block.kind == BlockKind::kThinking) {
        WriteReasoning(block);
      } else {
        json_.BeginObject().Key("type").String("function_call").Key("call_id").Raw(block.id);
        json_.Key("name").Raw(block.name);
        parts_.Arguments(block);
        json_.EndObject();
      }
    }
    return flush();
  }

  // Only reasoning that came from this dialect is written, because the provider refuses unknown
  // items.
  void WriteReasoning(const Block& block) {
    if (block.item_id.empty() || block.encrypted.empty()) return;
    json_.BeginObject().Key("type").String("reasoning").Key("id").Raw(block.item_id);
    json_.Key("summary").BeginArray();
    if (block.text != "\"\"") {
      json_.BeginObject().Key("type").String("summary_text").Key("text").Raw(block.text);
      json_.EndObject();
    }
    json_.EndArray().Key("encrypted_content").Raw(block.encrypted).EndObject();
  }

  RequestForm& form_;
  std::string out_;
  JsonWriter json_{out_};
  OpenAiWriter parts_;
};

// Request members that a response repeats, with the values used if the request lacks them.
constexpr std::pair<std::string_view, std::string_view> kEchoes[] = {
    {"instructions", "null"},
    {"max_output_tokens", "null"},
    {"max_tool_calls", "null"},
    {"metadata", "{}"},
    {"parallel_tool_calls", "true"},
    {"previous_response_id", "null"},
    {"prompt_cache_key", "null"},
    {"safety_identifier", "null"},
    {"temperature", "1.0"},
    {"tool_choice", R"("auto")"},
    {"tools", "[]"},
    {"top_p", "1.0"},
    {"truncation", R"("disabled")"},
    {"user", "null"},
    {"reasoning", R"({"effort":null,"summary":null})"},
    {"text", R"({"format":{"type":"text"},"verbosity":"medium"})"}};

}  // namespace

Result<void> ReadResponsesRequest(const RawObject& body, std::string_view target,
                                  RequestForm& form) {
  KVGATE_TRY_VOID(RefuseOthers(body,
                               {"model",
                                "input",
                                "instructions",
                                "tools",
                                "tool_choice",
                                "parallel_tool_calls",
                                "stream",
                                "stream_options",
                                "max_output_tokens",
                                "max_tool_calls",
                                "temperature",
                                "top_p",
                                "user",
                                "metadata",
                                "store",
                                "service_tier",
                                "text",
                                "reasoning",
                                "include",
                                "truncation",
                                "background",
                                "prompt_cache_key",
                                "prompt_cache_options",
                                "prompt_cache_retention",
                                "safety_identifier",
                                "top_logprobs",
                                "context_management",
                                "previous_response_id",
                                "conversation",
                                "prompt",
                                "client_metadata"},
                               target));
  KVGATE_TRY_VOID(ReadCommon(body, form));
  KVGATE_TRY_VOID(RefuseKept(body, target));
  KVGATE_TRY(form.max_tokens, OptionalNumber(body, "max_output_tokens"));
  KVGATE_TRY(form.effort, ReadEffort(RawObject(body["reasoning"])["effort"], "reasoning.effort"));
  KVGATE_TRY(const Literal instructions, OptionalString(body, "instructions", ""));
  if (!instructions.empty()) {
    form.turns.push_back({.role = Role::kSystem,
                          .path = "instructions",
                          .blocks = {{.path = "instructions", .text = instructions}}});
  }
  Reader reader(target, form);
  KVGATE_TRY_VOID(reader.Tools(body));
  return reader.Input(body["input"]);
}

Result<std::string> WriteResponsesRequest(const TargetTraits& traits, RequestForm& form) {
  if (!form.turns.empty() && form.turns.back().role == Role::kAssistant) {
    return CannotSay(form.turns.back().path, "an answer's beginning", kDialect);
  }
  return Writer(traits, form).Body();
}

reply::ResponseShape ShapeOf(const RawObject& body) {
  reply::ResponseShape shape;
  const RawObject reasoning(body["reasoning"]);
  shape.summary = reasoning["summary"] || reasoning["generate_summary"];
  for (const auto& [name, fallback] : kEchoes) {
    if (!shape.echo.empty()) shape.echo += ',';
    const RawJson value = body[name];
    shape.echo.append("\"").append(name).append("\":");
    shape.echo.append(value ? value.text() : fallback);
  }
  return shape;
}

}  // namespace kvgate::dialect::responses
