#include "gateway/dialect/messages/messages_request.h"

#include "base/digest.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/json_text.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/translate/dialect_fields.h"

namespace kvgate::dialect::messages {

using translate::At;
using translate::Block;
using translate::BlockKind;
using translate::CannotSay;
using translate::ChoiceForm;
using translate::ChoiceMode;
using translate::Given;
using translate::JoinTexts;
using translate::kSealedItem;
using translate::LeaveOutTool;
using translate::Literal;
using translate::Meant;
using translate::Media;
using translate::NeededObject;
using translate::NeededString;
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
using translate::ToolForm;
using translate::TtlOf;
using translate::Turn;
using translate::WrongShape;

namespace {

using form::JsonWriter;

constexpr std::string_view kDialect = "Messages";
constexpr std::string_view kDefaultMaxTokens = "4096";

// --- reading ------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(std::string_view target, RequestForm& form) : target_(target), form_(form) {}

  Result<void> System(const RawJson& system) {
    if (!system) return {};
    Turn turn{.role = Role::kSystem, .path = "system"};
    KVGATE_TRY(std::vector<Block> blocks, Contents(system, "system"));
    for (Block& block : blocks) {
      if (block.kind != BlockKind::kText) return WrongShape(block.path, "must be text");
      // Claude Code's billing header differs in every request and means nothing to other providers.
      if (block.text.size() > 1 && block.text.substr(1).starts_with(form::kBillingHeaderName)) {
        const std::string whole = Meant(block.text);
        const std::string_view rest = form::WithoutBillingHeader(whole);
        if (rest.empty()) continue;
        block.text = form_.Quote(rest);
      }
      turn.blocks.push_back(std::move(block));
    }
    if (!turn.blocks.empty()) form_.turns.push_back(std::move(turn));
    return {};
  }

  Result<void> Messages(const RawJson& messages) {
    if (!messages.is_array()) return WrongShape("messages", "must be an array");
    size_t index = 0;
    for (const RawJson& value : messages.Elements()) {
      const std::string path = At("messages", index++);
      KVGATE_TRY(const RawObject message, NeededObject(value, path));
      KVGATE_TRY(const Role role, RoleOf(message.String("role"), path));
      Turn turn{.role = role, .path = path};
      const size_t num_left_out = num_left_out_;
      KVGATE_TRY(turn.blocks, Contents(message["content"], Sub(path, "content")));
      // The turn held only blocks of a provider's own tools.
      if (turn.blocks.empty() && num_left_out_ > num_left_out) continue;
      form_.turns.push_back(std::move(turn));
    }
    if (index == 0) return WrongShape("messages", "must have at least one message");
    if (form_.turns.empty()) return CannotSay("messages", "nothing but this", target_);
    if (form_.turns.back().role == Role::kAssistant) {
      return CannotSay(form_.turns.back().path, "an answer's beginning", target_);
    }
    return {};
  }

  Result<void> Tools(const RawJson& tools) {
    if (!tools) return {};
    if (!tools.is_array()) return WrongShape("tools", "must be an array");
    size_t index = 0;
    for (const RawJson& value : tools.Elements()) {
      const std::string path = At("tools", index++);
      KVGATE_TRY(const RawObject tool, NeededObject(value, path));
      const std::string type = tool.String("type");
      if (!type.empty() && type != "custom") {
        LeaveOutTool(type, form_);
        continue;
      }
      ToolForm made{.path = path, .ttl_seconds = TtlOf(tool)};
      KVGATE_TRY(made.name, NeededString(tool, "name", path));
      KVGATE_TRY(made.description, OptionalString(tool, "description", path));
      KVGATE_TRY(const RawObject schema,
                 NeededObject(tool["input_schema"], Sub(path, "input_schema")));
      made.schema = schema.value().text();
      if (const RawJson strict = tool["strict"]) made.strict = strict.is_true();
      form_.tools.push_back(std::move(made));
    }
    return {};
  }

  Result<void> Choice(const RawJson& value) {
    if (!value) return {};
    KVGATE_TRY(const RawObject choice, NeededObject(value, "tool_choice"));
    const std::string type = choice.String("type");
    ChoiceForm& made = form_.choice;
    made.given = true;
    if (type == "none") {
      made.mode = ChoiceMode::kNone;
    } else if (type == "any" || type == "tool") {
      made.mode = ChoiceMode::kRequired;
    } else if (type != "auto") {
      return WrongShape("tool_choice.type", "must be 'auto', 'any', 'tool' or 'none'");
    }
    if (type == "tool") {
      KVGATE_TRY(const Literal name, NeededString(choice, "name", "tool_choice"));
      made.allowed.push_back(name);
      made.named = true;
    }
    if (const RawJson serial = choice["disable_parallel_tool_use"]) {
      made.parallel = !serial.is_true();
    }
    return {};
  }

  Result<void> Thinking(const RawObject& body) {
    const RawObject output(body["output_config"]);
    KVGATE_TRY(form_.effort, ReadEffort(output["effort"], "output_config.effort"));
    const RawObject thinking(body["thinking"]);
    const std::string type = thinking.String("type");
    form_.thinking = type == "enabled" || type == "adaptive";
    if (!form_.effort.empty() || type != "enabled") return {};
    // A thinking budget is translated to an effort of about its size.
    const int64_t budget = thinking["budget_tokens"].Integer().value_or(0);
    form_.effort = budget <= 4096 ? "low" : budget <= 16384 ? "medium" : "high";
    return {};
  }

  Result<void> Output(const RawObject& body) {
    const RawJson value = RawObject(body["output_config"])["format"];
    const bool old = !value && body["output_format"];
    const RawJson given = old ? body["output_format"] : value;
    if (!given) return {};
    const std::string path = old ? "output_format" : "output_config.format";
    KVGATE_TRY(const RawObject format, NeededObject(given, path));
    if (format.String("type") != "json_schema") {
      return WrongShape(Sub(path, "type"), "must be 'json_schema'");
    }
    KVGATE_TRY(const RawObject schema, NeededObject(format["schema"], Sub(path, "schema")));
    form_.output = {.kind = OutputKind::kSchema,
                    .path = path,
                    .name = "\"answer\"",
                    .schema = schema.value().text(),
                    .strict = "true"};
    return {};
  }

 private:
  static Result<Role> RoleOf(std::string_view role, const std::string& path) {
    if (role == "user") return Role::kUser;
    if (role == "assistant") return Role::kAssistant;
    if (role == "system") return Role::kSystem;
    return WrongShape(Sub(path, "role"), "must be 'user', 'assistant' or 'system'");
  }

  Result<std::vector<Block>> Contents(const RawJson& value, const std::string& path) {
    std::vector<Block> blocks;
    if (value.is_string()) {
      blocks.push_back({.kind = BlockKind::kText, .path = path, .text = value.text()});
      return blocks;
    }
    if (!value.is_array()) return WrongShape(path, "must be a string or an array of blocks");
    size_t index = 0;
    for (const RawJson& element : value.Elements()) {
      const std::string element_path = At(path, index++);
      KVGATE_TRY(const RawObject object, NeededObject(element, element_path));
      if (const std::string type = object.String("type"); IsLeftOut(object, type)) {
        ++num_left_out_;
        continue;
      }
      KVGATE_TRY(Block block, ReadBlock(object, element_path));
      block.ttl_seconds = TtlOf(object);
      blocks.push_back(std::move(block));
    }
    return blocks;
  }

  // Returns true for blocks of a provider's own tools, and for failed compactions, which are empty.
  bool IsLeftOut(const RawObject& object, const std::string& type) {
    if (type == "compaction") return !object["content"] && !object["encrypted_content"];
    if (!form::IsProvidersBlock(type)) return false;
    form::AddLeftOut(type, form_.left_out);
    return true;
  }

  Result<Block> Compaction(const RawObject& object, Block block) {
    KVGATE_TRY(block.text, OptionalString(object, "content", block.path));
    if (!block.text.empty()) return block;
    form::AddLeftOut("compaction", form_.left_out);
    block.text = form_.Quote(form::kSealedCompaction);
    return block;
  }

  Result<Block> ReadBlock(const RawObject& object, const std::string& path) {
    Block block{.kind = BlockKind::kText, .path = path};
    const std::string type = object.String("type");
    if (type == "text") {
      KVGATE_TRY(block.text, NeededString(object, "text", path));
    } else if (type == "image") {
      block.kind = BlockKind::kImage;
      KVGATE_TRY(block.media, Source(object["source"], Sub(path, "source")));
    } else if (type == "document") {
      return Document(object, std::move(block));
    } else if (type == "tool_reference") {
      KVGATE_TRY(block.text, NeededString(object, "tool_name", path));
    } else if (type == "compaction") {
      return Compaction(object, std::move(block));
    } else if (type == "tool_use") {
      block.kind = BlockKind::kCall;
      KVGATE_TRY(block.id, NeededString(object, "id", path));
      KVGATE_TRY(block.name, NeededString(object, "name", path));
      KVGATE_TRY(const RawObject input, NeededObject(object["input"], Sub(path, "input")));
      block.arguments = input.value().text();
    } else if (type == "tool_result") {
      block.kind = BlockKind::kResult;
      KVGATE_TRY(block.id, NeededString(object, "tool_use_id", path));
      block.is_error = object["is_error"].is_true();
      if (const RawJson content = object["content"]) {
        KVGATE_TRY(block.content, Contents(content, Sub(path, "content")));
      }
    } else if (type == "thinking" || type == "redacted_thinking") {
      return Thought(object, type == "thinking", std::move(block));
    } else {
      return CannotSay(Sub(path, "type"), "a block of type '" + type + "'", target_);
    }
    return block;
  }

  // Signatures are dropped unless another provider's sealed item is in the field, which goes back
  // to that provider.
  Result<Block> Thought(const RawObject& object, bool readable, Block block) {
    block.kind = BlockKind::kThinking;
    block.text = "\"\"";
    if (readable) {
      KVGATE_TRY(block.text, NeededString(object, "thinking", block.path));
    }
    const RawJson kept = object[readable ? "signature" : "data"];
    const std::string text = kept.String();
    if (text.starts_with(kSealedItem)) translate::Unseal(text, form_, block);
    return block;
  }

  Result<Media> Source(const RawJson& value, const std::string& path) {
    KVGATE_TRY(const RawObject source, NeededObject(value, path));
    const std::string type = source.String("type");
    if (type == "url") {
      KVGATE_TRY(const Literal url, NeededString(source, "url", path));
      return Media{.url = url};
    }
    if (type != "base64") {
      return CannotSay(Sub(path, "type"), "a source of type '" + type + "'", target_);
    }
    KVGATE_TRY(const Literal media_type, NeededString(source, "media_type", path));
    KVGATE_TRY(const Literal data, NeededString(source, "data", path));
    return Media{.media_type = media_type.substr(1, media_type.size() - 2),
                 .base64 = data.substr(1, data.size() - 2)};
  }

  // A document that is text becomes a text block, preceded by its title.
  Result<Block> Document(const RawObject& object, Block block) {
    if (RawObject(object["citations"])["enabled"].is_true()) {
      return CannotSay(Sub(block.path, "citations"), "an answer with citations", target_);
    }
    const std::string source_path = Sub(block.path, "source");
    KVGATE_TRY(const RawObject source, NeededObject(object["source"], source_path));
    std::vector<Block> texts;
    for (const std::string_view name : {"title", "context"}) {
      KVGATE_TRY(const Literal text, OptionalString(object, name, block.path));
      if (!text.empty()) texts.push_back({.text = text});
    }
    if (source.String("type") == "text") {
      KVGATE_TRY(const Literal data, NeededString(source, "data", source_path));
      texts.push_back({.text = data});
      block.text = JoinTexts(texts, form_);
      return block;
    }
    if (object["context"]) return CannotSay(Sub(block.path, "context"), "it", target_);
    block.kind = BlockKind::kFile;
    KVGATE_TRY(block.media, Source(source.value(), source_path));
    block.media.filename = texts.empty() ? Literal() : texts[0].text;
    return block;
  }

  std::string_view target_;
  RequestForm& form_;
  size_t num_left_out_ = 0;  // blocks left out so far
};

// --- writing ------------------------------------------------------------------------------------

class Writer {
 public:
  Writer(const TargetTraits& traits, RequestForm& form) : traits_(traits), form_(form) {}

  Result<std::string> Body() {
    KVGATE_TRY_VOID(Check());
    json_.BeginObject().Key("model").Raw(form_.model).Key("max_tokens");
    json_.Raw(form_.max_tokens ? form_.max_tokens.value : kDefaultMaxTokens);
    json_.Key("stream").Bool(form_.stream);
    if (form_.temperature) json_.Key("temperature").Raw(form_.temperature.value);
    if (form_.top_p) json_.Key("top_p").Raw(form_.top_p.value);
    if (!form_.stop.empty()) {
      json_.Key("stop_sequences").BeginArray();
      for (const Literal stop : form_.stop) json_.Raw(stop);
      json_.EndArray();
    }
    Thinking();
    const Literal user = form_.cache_key.empty() ? form_.user : form_.cache_key;
    if (!user.empty()) {
      json_.Key("metadata").BeginObject().Key("user_id").Raw(user).EndObject();
    }
    Tools();
    Choice();
    auto turn = System();
    json_.Key("messages").BeginArray();
    KVGATE_TRY_VOID(Turns(turn));
    json_.EndArray().EndObject();
    return std::move(out_);
  }

 private:
  Result<void> Check() const {
    const std::optional<double> temperature = NumberOf(form_.temperature);
    if (temperature && *temperature > 1) {
      return CannotSay("temperature", "more than 1", kDialect);
    }
    if (form_.output.kind == OutputKind::kObject) {
      return CannotSay(form_.output.path, "JSON without a schema", kDialect);
    }
    return {};
  }

  static std::optional<double> NumberOf(const Given& given) {
    if (!given) return std::nullopt;
    const Result<RawJson> value = RawJson::Parse(given.value);
    return value ? value->Number() : std::nullopt;
  }

  bool ForcesCall() const { return form_.choice.mode == ChoiceMode::kRequired; }

  // The API does not let a model think that is forced to call a tool.
  void Thinking() {
    const bool thinks = !form_.effort.empty() && form_.effort != "none";
    if (thinks && !ForcesCall()) {
      json_.Key("thinking").BeginObject().Key("type").String("adaptive").EndObject();
    }
    const bool schema = form_.output.kind == OutputKind::kSchema;
    if (!thinks && !schema) return;
    json_.Key("output_config").BeginObject();
    if (thinks) json_.Key("effort").String(form_.effort == "minimal" ? "low" : form_.effort);
    if (schema) {
      json_.Key("format").BeginObject().Key("type").String("json_schema");
      json_.Key("schema").Raw(form_.output.schema).EndObject();
    }
    json_.EndObject();
  }

  void Mark(int ttl_seconds) {
    if (ttl_seconds == 0) return;
    json_.Key("cache_control").BeginObject().Key("type").String("ephemeral");
    if (traits_.ttl && ttl_seconds >= form::kLongTtlSeconds) json_.Key("ttl").String("1h");
    json_.EndObject();
  }

  // The dialect cannot restrict a choice to several tools, so the other tools are not written.
  bool IsOffered(const ToolForm& tool) const {
    if (form_.choice.allowed.empty() || form_.choice.named) return true;
    for (const Literal name : form_.choice.allowed) {
      if (name == tool.name || Meant(name) == Meant(tool.name)) return true;
    }
    return false;
  }

  void Tools() {
    if (form_.tools.empty()) return;
    json_.Key("tools").BeginArray();
    for (const ToolForm& tool : form_.tools) {
      if (!IsOffered(tool)) continue;
      json_.BeginObject().Key("name").Raw(tool.name);
      if (!tool.description.empty()) json_.Key("description").Raw(tool.description);
      json_.Key("input_schema");
      json_.Raw(tool.schema.empty() ? R"({"type":"object","properties":{}})" : tool.schema);
      if (tool.strict.value_or(false)) json_.Key("strict").Bool(true);
      Mark(tool.ttl_seconds);
      json_.EndObject();
    }
    json_.EndArray();
  }

  void Choice() {
    const ChoiceForm& choice = form_.choice;
    const bool serial = !choice.parallel.value_or(true) && choice.mode != ChoiceMode::kNone;
    if (form_.tools.empty() || (!choice.given && !serial)) return;
    json_.Key("tool_choice").BeginObject().Key("type");
    if (choice.named) {
      json_.String("tool").Key("name").Raw(choice.allowed.front());
    } else if (choice.mode == ChoiceMode::kRequired) {
      json_.String("any");
    } else {
      json_.String(choice.mode == ChoiceMode::kNone ? "none" : "auto");
    }
    if (serial) json_.Key("disable_parallel_tool_use").Bool(true);
    json_.EndObject();
  }

  static bool IsSystem(const Turn& turn) {
    return turn.role == Role::kSystem || turn.role == Role::kDeveloper;
  }

  // Writes leading system turns as "system" and returns the first other turn. Later system turns
  // stay in place as user text.
  std::vector<Turn>::const_iterator System() {
    auto turn = form_.turns.cbegin();
    bool any = false;
    for (; turn != form_.turns.cend() && IsSystem(*turn); ++turn) {
      for (const Block& block : turn->blocks) {
        if (block.text == "\"\"") continue;
        if (!any) json_.Key("system").BeginArray();
        any = true;
        Text(block);
      }
    }
    if (any) json_.EndArray();
    return turn;
  }

  Result<void> Turns(std::vector<Turn>::const_iterator begin) {
    const std::vector<Turn> turns = ResultsFirst({begin, form_.turns.cend()});
    bool open = false;
    bool assistant = false;
    for (const Turn& turn : turns) {
      const bool answers = turn.role == Role::kAssistant;
      for (const Block& block : turn.blocks) {
        if (!IsSaid(block)) continue;
        if (!open || answers != assistant) {
          if (open) json_.EndArray().EndObject();
          json_.BeginObject().Key("role").String(answers ? "assistant" : "user");
          json_.Key("content").BeginArray();
          open = true;
          assistant = answers;
        }
        KVGATE_TRY_VOID(Write(block));
      }
    }
    if (!open) return WrongShape("messages", "must have a turn of the user");
    if (assistant) return CannotSay(turns.back().path, "an answer's beginning", kDialect);
    json_.EndArray().EndObject();
    return {};
  }

  // The API refuses empty texts and thinking without a signature.
  static bool IsSaid(const Block& block) {
    if (block.kind == BlockKind::kText) return block.text != "\"\"";
    if (block.kind != BlockKind::kThinking) return true;
    return !block.redacted.empty() || !block.signature.empty();
  }

  void Text(const Block& block) {
    json_.BeginObject().Key("type").String("text").Key("text").Raw(block.text);
    Mark(block.ttl_seconds);
    json_.EndObject();
  }

  Result<void> Write(const Block& block) {
    switch (block.kind) {
      case BlockKind::kText:
        Text(block);
        return {};
      case BlockKind::kImage:
      case BlockKind::kFile:
        return WriteMedia(block);
      case BlockKind::kThinking:
        WriteThinking(block);
        return {};
      case BlockKind::kCall:
        json_.BeginObject().Key("type").String("tool_use").Key("id").Raw(block.id);
        json_.Key("name").Raw(block.name);
        json_.Key("input").Raw(form::AsObject(block.arguments));
        Mark(block.ttl_seconds);
        json_.EndObject();
        return {};
      case BlockKind::kResult:
        json_.BeginObject().Key("type").String("tool_result").Key("tool_use_id").Raw(block.id);
        json_.Key("content").BeginArray();
        for (const Block& part : block.content) {
          if (!IsSaid(part)) continue;
          KVGATE_TRY_VOID(Write(part));
        }
        json_.EndArray();
        if (block.is_error) json_.Key("is_error").Bool(true);
        Mark(block.ttl_seconds);
        json_.EndObject();
        return {};
    }
    return {};
  }

  void WriteThinking(const Block& block) {
    if (!block.redacted.empty()) {
      json_.BeginObject().Key("type").String("redacted_thinking").Key("data").Raw(block.redacted);
      json_.EndObject();
    } else {
      json_.BeginObject().Key("type").String("thinking").Key("thinking").Raw(block.text);
      json_.Key("signature").Raw(block.signature).EndObject();
    }
  }

  Result<void> WriteMedia(const Block& block) {
    const Media& media = block.media;
    const bool file = block.kind == BlockKind::kFile;
    if (file && !media.base64.empty() && media.media_type != "application/pdf") {
      return CannotSay(block.path, "a file that is no PDF", kDialect);
    }
    json_.BeginObject().Key("type").String(file ? "document" : "image").Key("source");
    if (!media.url.empty()) {
      json_.BeginObject().Key("type").String("url").Key("url").Raw(media.url).EndObject();
    } else {
      json_.BeginObject().Key("type").String("base64").Key("media_type");
      json_.Raw(Quote(media.media_type)).Key("data").Raw(Quote(media.base64)).EndObject();
    }
    if (file && !media.filename.empty()) json_.Key("title").Raw(media.filename);
    Mark(block.ttl_seconds);
    json_.EndObject();
    return {};
  }

  // Adds quotes to a text that is already escaped.
  static std::string Quote(std::string_view inside) {
    std::string quoted = "\"";
    quoted.append(inside).append("\"");
    return quoted;
  }

  const TargetTraits& traits_;
  RequestForm& form_;
  std::string out_;
  JsonWriter json_{out_};
};

// OpenAI limits the key to 64 characters, but clients put more into a user id.
Literal CacheKeyOf(Literal user_id, RequestForm& form) {
  constexpr size_t kKeyCharactersMax = 64;
  if (user_id.size() <= kKeyCharactersMax + 2) return user_id;
  return form.Keep("\"" + ToHex(Sha256().Update(user_id).Finish().bytes) + "\"");
}

}  // namespace

Result<void> ReadMessagesRequest(const RawObject& body, std::string_view target,
                                 RequestForm& form) {
  if (body["thread"]) {
    return MakeError(ErrorCode::kUnsupported, form::kThreadSource,
                     "thread: conversations are not kept here; send the whole one.", "thread");
  }
  KVGATE_TRY_VOID(RefuseOthers(
      body,
      {"model", "messages", "system", "tools", "tool_choice", "stream", "max_tokens", "temperature",
       "top_p", "stop_sequences", "metadata", "thinking", "output_config", "output_format",
       "cache_control", "service_tier", "diagnostics", "context_management", "speed"},
      target));
  KVGATE_TRY_VOID(ReadCommon(body, form));
  KVGATE_TRY(form.max_tokens, OptionalNumber(body, "max_tokens"));
  if (!form.max_tokens) return WrongShape("max_tokens", "is missing");
  if (body["max_tokens"].Integer().value_or(1) < 1) {
    return CannotSay("max_tokens", "a prompt without an answer", target);
  }
  KVGATE_TRY(form.stop, OptionalStrings(body["stop_sequences"], "stop_sequences"));
  form.stop_path = "stop_sequences";
  KVGATE_TRY(const Literal user,
             OptionalString(RawObject(body["metadata"]), "user_id", "metadata"));
  if (!user.empty()) form.cache_key = CacheKeyOf(user, form);
  Reader reader(target, form);
  KVGATE_TRY_VOID(reader.System(body["system"]));
  KVGATE_TRY_VOID(reader.Tools(body["tools"]));
  KVGATE_TRY_VOID(reader.Choice(body["tool_choice"]));
  KVGATE_TRY_VOID(reader.Thinking(body));
  KVGATE_TRY_VOID(reader.Output(body));
  return reader.Messages(body["messages"]);
}

Result<std::string> WriteMessagesRequest(const TargetTraits& traits, RequestForm& form) {
  return Writer(traits, form).Body();
}

}  // namespace kvgate::dialect::messages
