#include "gateway/dialect/messages/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/dialect/form/common_fields.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/form/json_value.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/form/tools.h"

namespace kvgate::dialect::messages {

using form::AddLeftOut;
using form::DecodeState;
using form::Fields;
using form::IndexPath;
using form::JsonArray;
using form::JsonElement;
using form::Message;
using form::Messages;
using form::MissingError;
using form::RangeError;
using form::TypeError;
using form::UnsupportedError;

namespace {

constexpr size_t kMarksMax = 4;

// Texts of one turn go on lines of their own.
void AppendText(std::string_view more, std::string& text) {
  if (!text.empty() && !more.empty()) text += '\n';
  text += more;
}

// Returns the last turn if it has that role, or a new one.
Message& OpenTurn(std::string_view role, DecodeState& state) {
  std::vector<Message>& messages = Messages(state);
  if (messages.empty() || messages.back().role != role) {
    messages.push_back({.role = std::string(role)});
  }
  return messages.back();
}

// --- cache_control ----------------------------------------------------------------------------

Result<int> ReadMark(JsonElement value, const std::string& path) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"type", "ttl"}));
  KVGATE_TRY(const std::string type, fields.String("type"));
  if (type != "ephemeral") return RangeError(fields.Path("type"), "must be 'ephemeral'");
  KVGATE_TRY(const std::string ttl, fields.StringOrEmpty("ttl"));
  if (ttl.empty() || ttl == "5m") return form::kShortTtlSeconds;
  if (ttl == "1h") return form::kLongTtlSeconds;
  return RangeError(fields.Path("ttl"), "must be '5m' or '1h'");
}

// Returns the TTL of a block's cache breakpoint, 0 if it has none. `marks` collects those of its
// place in the prefix.
Result<int> TakeMark(const Fields& block, std::vector<int>& marks) {
  const JsonElement* mark = block.Find("cache_control");
  if (mark == nullptr) return 0;
  KVGATE_TRY(const int ttl, ReadMark(*mark, block.Path("cache_control")));
  marks.push_back(ttl);
  return ttl;
}

Result<void> CheckMarks(const DecodeState& state) {
  std::vector<int> marks;
  for (const std::vector<int>* place :
       {&state.tool_marks, &state.system_marks, &state.message_marks}) {
    marks.insert(marks.end(), place->begin(), place->end());
  }
  if (marks.size() > kMarksMax) {
    return RangeError(
        "cache_control",
        fmt::format("may stand at most {} times, but stands {} times", kMarksMax, marks.size()));
  }
  for (size_t i = 1; i < marks.size(); ++i) {
    if (marks[i] > marks[i - 1]) {
      return RangeError("cache_control", "must not have a ttl of '1h' behind one of '5m'");
    }
  }
  return {};
}

// The top-level cache_control puts a breakpoint on the last turn, as if it were the caller's last
// one.
Result<void> ReadAutomaticMark(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.automatic_mark, ReadMark(value, path));
  return {};
}

// --- content ----------------------------------------------------------------------------------

Result<Fields> ReadBlock(JsonElement value, const std::string& path) {
  return Fields::Read(
      value, path,
      {"type", "text", "cache_control", "id", "name", "input", "tool_use_id", "content", "is_error",
       "thinking", "data", "source", "title", "context", "tool_name", "encrypted_content"});
}

Result<std::string> ReadTexts(JsonElement value, const std::string& path, bool texts_alone,
                              DecodeState& state, int& mark);

// Accepts {"type":"base64","media_type","data"}, {"type":"url","url"} and
// {"type":"file","file_id"}. Documents may also be {"type":"text","data"} or
// {"type":"content","content"}, which are readable as text.
Result<std::string> ReadSource(const Fields& block, std::string_view what, DecodeState& state) {
  const JsonElement* value = block.Find("source");
  if (value == nullptr) return MissingError(block.Path("source"));
  KVGATE_TRY(const Fields source,
             Fields::Read(*value, block.Path("source"), {"type", "media_type", "data", "content"}));
  KVGATE_TRY(const std::string type, source.String("type"));
  if (what == "file" && type == "text") return source.String("data");
  if (what == "file" && type == "content" && source.Find("content") != nullptr) {
    int mark = 0;  // unused: only blocks of messages have breakpoints
    return ReadTexts(*source.Find("content"), source.Path("content"), false, state, mark);
  }
  KVGATE_TRY(const std::string media_type, source.StringOrEmpty("media_type"));
  KVGATE_TRY(const std::string title, block.StringOrEmpty("title"));
  AddLeftOut(what, state.request.left_out);
  return form::PlaceholderOf({.what = what, .type = media_type, .name = title});
}

Result<std::string> ReadDocument(const Fields& block, DecodeState& state) {
  std::string text;
  for (const char* name : {"title", "context"}) {
    KVGATE_TRY(const std::string more, block.StringOrEmpty(name));
    AppendText(more, text);
  }
  KVGATE_TRY(const std::string more, ReadSource(block, "file", state));
  AppendText(more, text);
  return text;
}

// Reads a search result as reported by the caller's own tool.
Result<std::string> ReadSearchResult(const Fields& block, DecodeState& state) {
  std::string text;
  for (const char* name : {"title", "source"}) {
    KVGATE_TRY(const std::string more, block.StringOrEmpty(name));
    AppendText(more, text);
  }
  if (const JsonElement* content = block.Find("content"); content != nullptr) {
    int mark = 0;
    KVGATE_TRY(const std::string more,
               ReadTexts(*content, block.Path("content"), true, state, mark));
    AppendText(more, text);
  }
  return text;
}

// A compaction block with neither field is a failed compaction; the turns before it are still
// there.
Result<std::string> ReadCompaction(const Fields& block, DecodeState& state) {
  KVGATE_TRY(std::string text, block.StringOrEmpty("content"));
  if (!text.empty() || block.Find("encrypted_content") == nullptr) return text;
  AddLeftOut("compaction", state.request.left_out);
  return std::string(form::kSealedCompaction);
}

// Returns a block of a user turn or of a tool result as text.
Result<std::string> ReadAsText(const Fields& block, const std::string& type, std::string_view place,
                               DecodeState& state) {
  if (type == "text") return block.String("text");
  if (type == "image") return ReadSource(block, "image", state);
  if (type == "document") return ReadDocument(block, state);
  if (type == "search_result") return ReadSearchResult(block, state);
  if (type == "tool_reference") return block.String("tool_name");
  if (type == "compaction") return ReadCompaction(block, state);
  if (form::IsProvidersBlock(type)) {
    AddLeftOut(type, state.request.left_out);
    return std::string();
  }
  return UnsupportedError(block.Path("type"),
                          fmt::format("a content block of type '{}' {} is", type, place));
}

// Reads a string or an array of blocks.
Result<std::string> ReadTexts(JsonElement value, const std::string& path, bool texts_alone,
                              DecodeState& state, int& mark) {
  if (value.is_string()) return form::ReadString(value, path);
  JsonArray blocks;
  if (value.get(blocks) != simdjson::SUCCESS) {
    return TypeError(path, "a string or an array of content blocks", value);
  }
  std::string text;
  size_t index = 0;
  for (const JsonElement block : blocks) {
    KVGATE_TRY(const Fields fields, ReadBlock(block, IndexPath(path, index++)));
    KVGATE_TRY(const std::string type, fields.String("type"));
    if (texts_alone && type != "text") {
      return UnsupportedError(fields.Path("type"),
                              fmt::format("a content block of type '{}' here is", type));
    }
    KVGATE_TRY(const std::string more, ReadAsText(fields, type, "here", state));
    AppendText(more, text);
    KVGATE_TRY(const int ttl, TakeMark(fields, state.message_marks));
    mark = std::max(mark, ttl);
  }
  return text;
}

Result<void> ReadToolResult(const Fields& block, DecodeState& state) {
  Message message{.role = "tool"};
  KVGATE_TRY(message.tool_call_id, block.String("tool_use_id"));
  KVGATE_TRY_VOID(
      form::CheckAnswersCall(block.Path("tool_use_id"), message.tool_call_id, Messages(state)));
  int mark = 0;
  if (const JsonElement* content = block.Find("content"); content != nullptr) {
    KVGATE_TRY(message.content, ReadTexts(*content, block.Path("content"), false, state, mark));
  }
  KVGATE_TRY(const bool is_error, block.BoolOr("is_error", false));
  // Chat templates have no flag for failed tools, so the text tells the model.
  if (is_error) message.content.insert(0, "Error: ");
  KVGATE_TRY(const int ttl, TakeMark(block, state.message_marks));
  message.cache_ttl_seconds = std::max(mark, ttl);
  Messages(state).push_back(std::move(message));
  return {};
}

Result<void> ReadUserText(const Fields& block, const std::string& type, DecodeState& state) {
  KVGATE_TRY(const std::string text, ReadAsText(block, type, "in a user's turn", state));
  KVGATE_TRY(const int mark, TakeMark(block, state.message_marks));
  if (mark > 0 && text.empty() && type == "text") {
    return RangeError(block.Path("cache_control"), "must not mark an empty text");
  }
  Message& turn = OpenTurn("user", state);
  AppendText(text, turn.content);
  turn.cache_ttl_seconds = std::max(turn.cache_ttl_seconds, mark);
  return {};
}

// Tool results come before text, regardless of the order of the blocks.
Result<void> ReadUserBlocks(const JsonArray& blocks, const std::string& path, DecodeState& state) {
  for (const bool results : {true, false}) {
    size_t index = 0;
    for (const JsonElement value : blocks) {
      KVGATE_TRY(const Fields block, ReadBlock(value, IndexPath(path, index++)));
      KVGATE_TRY(const std::string type, block.String("type"));
      if ((type == "tool_result") != results) continue;
      if (results) {
        KVGATE_TRY_VOID(ReadToolResult(block, state));
      } else {
        KVGATE_TRY_VOID(ReadUserText(block, type, state));
      }
    }
  }
  return {};
}

Result<void> ReadAssistantBlock(const Fields& block, Message& turn, DecodeState& state) {
  KVGATE_TRY(const std::string type, block.String("type"));
  if (type == "text") {
    KVGATE_TRY(const std::string text, block.String("text"));
    AppendText(text, turn.content);
    return {};
  }
  if (type == "compaction") {
    KVGATE_TRY(const std::string text, ReadCompaction(block, state));
    AppendText(text, turn.content);
    return {};
  }
  if (type == "thinking") {
    KVGATE_TRY(const std::string thinking, block.String("thinking"));
    AppendText(thinking, turn.reasoning);
    return {};
  }
  // Only the provider that wrote it can read it.
  if (type == "redacted_thinking") return {};
  if (form::IsProvidersBlock(type)) {
    AddLeftOut(type, state.request.left_out);
    return {};
  }
  if (type != "tool_use") {
    return UnsupportedError(
        block.Path("type"),
        fmt::format("a content block of type '{}' in an assistant's turn is", type));
  }
  form::ToolCall call;
  KVGATE_TRY(call.id, block.String("id"));
  KVGATE_TRY(call.name, block.String("name"));
  const JsonElement* input = block.Find("input");
  if (input == nullptr) return MissingError(block.Path("input"));
  KVGATE_TRY_VOID(form::ReadObject(*input, block.Path("input")));
  call.arguments = form::ToJson(*input);
  turn.tool_calls.push_back(std::move(call));
  return {};
}

Result<void> ReadAssistantBlocks(const JsonArray& blocks, const std::string& path,
                                 DecodeState& state) {
  Message& turn = OpenTurn("assistant", state);
  size_t index = 0;
  for (const JsonElement value : blocks) {
    KVGATE_TRY(const Fields block, ReadBlock(value, IndexPath(path, index++)));
    KVGATE_TRY_VOID(ReadAssistantBlock(block, turn, state));
    KVGATE_TRY(const int mark, TakeMark(block, state.message_marks));
    turn.cache_ttl_seconds = std::max(turn.cache_ttl_seconds, mark);
  }
  return {};
}

Result<void> ReadMessage(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"role", "content"}));
  KVGATE_TRY(const std::string role, fields.String("role"));
  const bool assistant = role == "assistant";
  if (!assistant && role != "user" && role != "system") {
    return RangeError(fields.Path("role"), "must be 'user', 'assistant' or 'system'");
  }
  const JsonElement* content = fields.Find("content");
  if (content == nullptr) return MissingError(fields.Path("content"));
  if (content->is_string()) {
    KVGATE_TRY(const std::string text, form::ReadString(*content, fields.Path("content")));
    AppendText(text, OpenTurn(assistant ? "assistant" : "user", state).content);
    return {};
  }
  JsonArray blocks;
  if (content->get(blocks) != simdjson::SUCCESS) {
    return TypeError(fields.Path("content"), "a string or an array of content blocks", *content);
  }
  if (!assistant && blocks.size() == 0) {
    return RangeError(fields.Path("content"), "must not be an empty array");
  }
  return assistant ? ReadAssistantBlocks(blocks, fields.Path("content"), state)
                   : ReadUserBlocks(blocks, fields.Path("content"), state);
}

Result<void> ReadMessages(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const JsonArray array, form::ReadArray(value, path));
  if (array.size() == 0) return RangeError(path, "must have at least one message");
  if (array.size() > state.limits.messages_max) {
    return RangeError(path,
                      fmt::format("must have at most {} messages", state.limits.messages_max));
  }
  state.has_prompt = true;
  size_t index = 0;
  for (const JsonElement message : array) {
    const size_t num_before = Messages(state).size();
    KVGATE_TRY_VOID(ReadMessage(message, IndexPath(path, index), state));
    // A turn may go on with the one before, which then ends here.
    std::vector<Message>& turns = Messages(state);
    for (size_t i = num_before == 0 ? 0 : num_before - 1; i < turns.size(); ++i) {
      if (i >= num_before || turns.size() == num_before) turns[i].element = static_cast<int>(index);
    }
    ++index;
  }
  return {};
}

Result<void> ReadSystem(JsonElement value, const std::string& path, DecodeState& state) {
  Message& system = state.system.emplace(Message{.role = "system"});
  if (value.is_string()) {
    KVGATE_TRY(const std::string text, form::ReadString(value, path));
    system.content = form::WithoutBillingHeader(text);
    return {};
  }
  JsonArray blocks;
  if (value.get(blocks) != simdjson::SUCCESS) {
    return TypeError(path, "a string or an array of content blocks", value);
  }
  size_t index = 0;
  for (const JsonElement block : blocks) {
    KVGATE_TRY(const Fields fields, ReadBlock(block, IndexPath(path, index++)));
    KVGATE_TRY(const std::string type, fields.String("type"));
    KVGATE_TRY(const std::string text, ReadAsText(fields, type, "in the system text", state));
    AppendText(system.content.empty() ? form::WithoutBillingHeader(text) : std::string_view(text),
               system.content);
    KVGATE_TRY(const int ttl, TakeMark(fields, state.system_marks));
    system.cache_ttl_seconds = std::max(system.cache_ttl_seconds, ttl);
  }
  return {};
}

// --- tools ------------------------------------------------------------------------------------

Result<void> ReadTools(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const JsonArray tools, form::ReadArray(value, path));
  size_t index = 0;
  for (const JsonElement tool : tools) {
    KVGATE_TRY(const Fields fields, Fields::Read(tool, IndexPath(path, index++),
                                                 {"type", "name", "description", "input_schema",
                                                  "cache_control", "strict"}));
    KVGATE_TRY(const std::string type, fields.StringOrEmpty("type"));
    if (!type.empty() && type != "custom") {  // a provider's own tool; we have no schema
      AddLeftOut(type, state.request.left_out);
      KVGATE_TRY([[maybe_unused]] const int mark, TakeMark(fields, state.tool_marks));
      continue;
    }
    form::ToolSpec spec{.path = fields.path(),
                        .name_path = fields.Path("name"),
                        .parameters = fields.Find("input_schema"),
                        .parameters_path = fields.Path("input_schema")};
    if (spec.parameters == nullptr) return MissingError(spec.parameters_path);
    KVGATE_TRY(spec.name, fields.String("name"));
    KVGATE_TRY(spec.description, fields.StringOrEmpty("description"));
    KVGATE_TRY(spec.strict, fields.BoolOr("strict", false));
    KVGATE_TRY_VOID(form::AddTool(spec, state));
    KVGATE_TRY(const int mark, TakeMark(fields, state.tool_marks));
    int& ttl = state.request.tools_cache_ttl_seconds;
    ttl = std::max(ttl, mark);
  }
  return {};
}

Result<void> ReadChoice(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields fields,
             Fields::Read(value, path, {"type", "name", "disable_parallel_tool_use"}));
  KVGATE_TRY(const std::string type, fields.String("type"));
  form::ToolChoice& choice = state.request.tool_choice;
  if (type == "any" || type == "tool") {
    choice.mode = form::ToolMode::kRequired;
  } else if (type == "none") {
    choice.mode = form::ToolMode::kNone;
  } else if (type != "auto") {
    return RangeError(fields.Path("type"), "must be 'auto', 'any', 'tool' or 'none'");
  }
  if (type == "tool") {
    KVGATE_TRY(std::string name, fields.String("name"));
    choice.allowed = {std::move(name)};
  }
  KVGATE_TRY(const bool single, fields.BoolOr("disable_parallel_tool_use", false));
  choice.parallel = !single;
  state.asks_for_calls = !single && fields.Find("disable_parallel_tool_use") != nullptr;
  return {};
}

// --- the rest ---------------------------------------------------------------------------------

Result<void> ReadStops(JsonElement value, const std::string& path, DecodeState& state) {
  if (!value.is_array()) return TypeError(path, "an array of strings", value);
  return form::ReadStop(value, path, state);
}

Result<void> ReadThinking(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"type", "budget_tokens"}));
  KVGATE_TRY(const std::string type, fields.String("type"));
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    return RangeError(fields.Path("type"), "must be 'enabled', 'disabled' or 'adaptive'");
  }
  state.request.thinking = type != "disabled";
  return {};
}

// The server keeps no threads. Told so in these words, the official clients continue without them
// and resend the conversation of a lost thread.
Result<void> ReadThread(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"type", "previous_message_id"}));
  KVGATE_TRY(const std::string type, fields.String("type"));
  if (type == "continue") {
    KVGATE_TRY(const std::string id, fields.String("previous_message_id"));
    return MakeError(
        ErrorCode::kNotFound, form::kThreadLostSource,
        fmt::format("There is no thread that ends with the message '{}'.", id.substr(0, 80)), path);
  }
  return MakeError(ErrorCode::kUnsupported, form::kThreadSource,
                   "Threads are not supported by the local engine: send the whole conversation.",
                   path);
}

Result<void> ReadOutputConfig(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"effort", "format"}));
  if (const JsonElement* format = fields.Find("format"); format != nullptr) {
    KVGATE_TRY_VOID(form::ReadFlatFormat(*format, fields.Path("format"), state));
  }
  KVGATE_TRY(state.request.reasoning_effort, fields.StringOrEmpty("effort"));
  return {};
}

Result<void> RefuseIfFilled(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const JsonArray array, form::ReadArray(value, path));
  if (array.size() != 0) return UnsupportedError(path, "it is");
  return {};
}

// The client expects a compaction block in the answer and would take any other answer for a
// failure.
Result<void> RefuseCompaction(JsonElement, const std::string& path, DecodeState&) {
  return UnsupportedError(path, "writing a compaction block is");
}

constexpr form::FieldSpec kOwnFields[] = {
    {"messages", ReadMessages},
    {"system", ReadSystem},
    {"tools", ReadTools},
    {"tool_choice", ReadChoice},
    {"stop_sequences", ReadStops},
    {"thinking", ReadThinking},
    {"cache_control", ReadAutomaticMark},
    {"thread", ReadThread},
    {"output_config", ReadOutputConfig},
    {"output_format", form::ReadFlatFormat},
    {"mcp_servers", RefuseIfFilled},
    {"compaction", RefuseCompaction},
};

// A pre-warm request computes the prompt's KV without an answer, so fields that shape an answer
// contradict it.
Result<void> CheckPrewarm(const form::CompletionRequest& request) {
  if (request.max_tokens != 0) return {};
  if (request.stream) return RangeError("stream", "must not be true where max_tokens is 0");
  if (request.thinking.value_or(false)) {
    return RangeError("thinking", "must not be enabled where max_tokens is 0");
  }
  if (request.tool_choice.mode == form::ToolMode::kRequired) {
    return RangeError("tool_choice", "must not ask for a call where max_tokens is 0");
  }
  return {};
}

// A final assistant turn is the beginning of the answer.
Result<void> TakeAnswerPrefix(DecodeState& state) {
  std::vector<Message>& messages = Messages(state);
  if (messages.back().role != "assistant") return {};
  if (!messages.back().tool_calls.empty()) {
    return RangeError("messages", "must not end with calls that have no results");
  }
  std::string& prefix = state.request.answer_prefix;
  prefix = std::move(messages.back().content);
  prefix.erase(prefix.find_last_not_of(" \t\r\n") + 1);
  messages.pop_back();
  if (!messages.empty()) return {};
  return RangeError("messages", "must have a turn of the user's");
}

}  // namespace

Result<form::CompletionRequest> DecodeMessages(std::string_view body, MessagesUse use,
                                               const form::DecodeLimits& limits) {
  static const std::vector<form::FieldSpec> fields = form::WithSamplerFields(kOwnFields);
  simdjson::dom::parser parser;
  KVGATE_TRY(const form::JsonObject object, form::ParseBody(body, limits, parser));
  DecodeState state{.limits = limits};
  state.request.dialect = form::Dialect::kMessages;
  state.request.prompt = std::vector<Message>();
  KVGATE_TRY_VOID(form::ReadFields(object, "", fields, state));
  if (!state.has_model) return MissingError("model");
  if (!state.has_prompt) return MissingError("messages");
  if (use == MessagesUse::kCreate && !state.request.max_tokens) return MissingError("max_tokens");
  KVGATE_TRY_VOID(form::CheckToolChoice("tool_choice", state));
  if (state.automatic_mark > 0) {
    state.message_marks.push_back(state.automatic_mark);
    Messages(state).back().cache_ttl_seconds = state.automatic_mark;
  }
  KVGATE_TRY_VOID(CheckMarks(state));
  KVGATE_TRY_VOID(CheckPrewarm(state.request));
  KVGATE_TRY_VOID(TakeAnswerPrefix(state));
  if (state.system && !state.system->content.empty()) {
    Messages(state).insert(Messages(state).begin(), std::move(*state.system));
  }
  return std::move(state.request);
}

}  // namespace kvgate::dialect::messages
