#include "gateway/dialect/responses/prompt_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/dialect/form/client_calls.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/form/tools.h"

namespace kvgate::dialect::responses {

using form::AddLeftOut;
using form::Fields;
using form::JsonElement;
using form::Message;
using form::MissingError;
using responses::ResponsesItem;

namespace {

bool IsTextPart(std::string_view type) {
  return type == "input_text" || type == "output_text" || type == "text" ||
         type == "reasoning_text" || type == "summary_text" || type == "refusal";
}

// Accepts {"type":"input_image","image_url"}, {"type":"input_file","filename","file_data"} and
// similar parts.
Result<std::string> ReadMedia(const Fields& part, std::string_view what) {
  std::string url;
  std::string name;
  bool given = false;
  for (const char* member : {"image_url", "file_data", "file_url", "file_id", "input_audio"}) {
    const JsonElement* held = part.Find(member);
    given = given || held != nullptr;
    if (held == nullptr || !held->is_string() || !url.empty()) continue;
    KVGATE_TRY(url, part.String(member));
  }
  if (!given) return MissingError(part.Path(what == "image" ? "image_url" : "file_data"));
  KVGATE_TRY(name, part.StringOrEmpty("filename"));
  return form::PlaceholderOf({.what = what, .type = form::MediaTypeOfUrl(url), .name = name});
}

std::string_view MediaOf(std::string_view type) {
  if (type == "input_image" || type == "computer_screenshot") return "image";
  if (type == "input_file") return "file";
  return type == "input_audio" ? "audio" : "";
}

// Reads a string or text parts of any type, on lines of their own; other parts are left out.
Result<std::string> ReadParts(JsonElement value, const std::string& path,
                              std::vector<std::string>& left_out) {
  if (value.is_string()) return form::ReadString(value, path);
  form::JsonArray parts;
  if (value.get(parts) != simdjson::SUCCESS) {
    return form::TypeError(path, "a string or an array of content parts", value);
  }
  std::string text;
  size_t index = 0;
  for (const JsonElement part : parts) {
    KVGATE_TRY(const Fields fields,
               Fields::Read(part, form::IndexPath(path, index),
                            {"type", "text", "refusal", "image_url", "file_data", "file_url",
                             "file_id", "filename", "input_audio"}));
    KVGATE_TRY(const std::string type, fields.String("type"));
    std::string more;
    if (const std::string_view what = MediaOf(type); !what.empty()) {
      KVGATE_TRY(more, ReadMedia(fields, what));
      AddLeftOut(what, left_out);
    } else if (IsTextPart(type)) {
      KVGATE_TRY(more, fields.String(type == "refusal" ? "refusal" : "text"));
    } else {
      return form::UnsupportedError(fields.Path("type"),
                                    fmt::format("a content part of type '{}' is", type));
    }
    if (index++ > 0) text += '\n';
    text += more;
  }
  return text;
}

}  // namespace

// Reads one item and adds it to the builder's messages.
class PromptBuilder::Reader {
 public:
  Reader(PromptBuilder& builder, const ResponsesItem& item, Fields fields)
      : builder_(builder), messages_(builder.messages_), item_(item), fields_(std::move(fields)) {}

  Result<void> Read() {
    KVGATE_TRY(const std::string type, fields_.String("type"));
    if (type == "message") return ReadMessage();
    if (type == "reasoning") return ReadReasoning();
    if (type == "function_call") return ReadCall(false);
    if (type == "custom_tool_call") return ReadCall(true);
    if (type == "function_call_output" || type == "custom_tool_call_output") return ReadOutput();
    if (type == "additional_tools") return ReadTools();
    if (form::IsCompaction(type)) return ReadCompaction(type);
    if (type == "compaction_trigger") {
      return form::UnsupportedError(fields_.Path("type"),
                                    "'compaction_trigger' asks for a compaction item, which is");
    }
    if (form::IsProvidersItem(type)) {
      if (type == "tool_search_output" && fields_.Find("tools") != nullptr) return ReadTools();
      AddLeftOut(type, builder_.left_out_);
      return {};
    }
    return form::UnsupportedError(fields_.Path("type"),
                                  fmt::format("an item of type '{}' is", type));
  }

 private:
  // Returns the assistant turn that this item belongs to. Items of one answer made by this gateway
  // share a turn; for others `joins` says if the item may join the last turn.
  Message& AssistantTurn(bool joins) {
    const bool minted = item_.id.find("_i") == std::string::npos;
    const std::string_view answer = minted ? responses::RequestOf(item_.id) : "";
    const bool open = !messages_.empty() && messages_.back().role == "assistant";
    const bool same = !answer.empty() && answer == builder_.answer_;
    const bool other = !answer.empty() && !builder_.answer_.empty() && !same;
    if (!open || !(same || (joins && !other))) {
      messages_.push_back({.role = "assistant"});
      builder_.answer_.clear();
    }
    if (!answer.empty()) builder_.answer_ = answer;
    return messages_.back();
  }

  bool LastIs(bool (*check)(const Message&)) const {
    return !messages_.empty() && check(messages_.back());
  }

  Result<void> ReadMessage() {
    KVGATE_TRY(const std::string role, fields_.String("role"));
    if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
      return form::RangeError(fields_.Path("role"),
                              "must be 'user', 'assistant', 'system' or 'developer'");
    }
    const JsonElement* content = fields_.Find("content");
    if (content == nullptr) return MissingError(fields_.Path("content"));
    KVGATE_TRY(std::string text, ReadParts(*content, fields_.Path("content"), builder_.left_out_));
    if (role == "assistant") {
      const bool silent = LastIs([](const Message& message) {
        return message.content.empty() && message.tool_calls.empty();
      });
      AssistantTurn(silent).content += text;
    } else {
      if (messages_.empty() && role == "system")
        text = std::string(form::WithoutBillingHeader(text));
      messages_.push_back({.role = role, .content = std::move(text)});
    }
    return {};
  }

  // Reads the model's reasoning from the first field in which the client has kept it.
  Result<void> ReadReasoning() {
    KVGATE_TRY(const std::string sealed, fields_.StringOrEmpty("encrypted_content"));
    std::string text = responses::OpenReasoning(sealed);
    for (const char* place : {"content", "summary"}) {
      const JsonElement* parts = fields_.Find(place);
      if (parts == nullptr) continue;
      KVGATE_TRY(std::string more, ReadParts(*parts, fields_.Path(place), builder_.left_out_));
      if (text.empty()) text = std::move(more);
    }
    if (!text.empty()) AssistantTurn(false).reasoning += text;
    return {};
  }

  // A summary becomes a user turn, as clients present their own summaries to a model.
  Result<void> ReadCompaction(std::string_view type) {
    std::string text;
    for (const char* place : {"content", "summary"}) {
      const JsonElement* parts = fields_.Find(place);
      if (parts == nullptr) continue;
      KVGATE_TRY(std::string more, ReadParts(*parts, fields_.Path(place), builder_.left_out_));
      if (text.empty()) text = std::move(more);
    }
    if (text.empty()) {
      AddLeftOut(type, builder_.left_out_);
      text = form::kSealedCompaction;
    }
    messages_.push_back({.role = "user", .content = std::move(text)});
    return {};
  }

  Result<void> ReadCall(bool is_custom) {
    form::ToolCall call;
    KVGATE_TRY(call.id, fields_.String("call_id"));
    KVGATE_TRY(const std::string name, fields_.String("name"));
    KVGATE_TRY(const std::string space, fields_.StringOrEmpty("namespace"));
    call.name = form::FlatName(space, name);
    KVGATE_TRY(call.arguments, fields_.String(is_custom ? "input" : "arguments"));
    if (is_custom) call.arguments = form::InputArguments(call.arguments);
    builder_.calls_.insert(call.id);
    AssistantTurn(true).tool_calls.push_back(std::move(call));
    return {};
  }

  Result<void> ReadOutput() {
    Message result{.role = "tool"};
    KVGATE_TRY(result.tool_call_id, fields_.String("call_id"));
    if (!builder_.calls_.contains(result.tool_call_id)) {
      return form::RangeError(
          fields_.Path("call_id"),
          fmt::format("must be that of a function_call before it, which '{}' is not: "
                      "No tool call found for it",
                      result.tool_call_id.substr(0, 80)));
    }
    const JsonElement* output = fields_.Find("output");
    if (output == nullptr) return MissingError(fields_.Path("output"));
    KVGATE_TRY(result.content, ReadParts(*output, fields_.Path("output"), builder_.left_out_));
    messages_.push_back(std::move(result));
    return {};
  }

  Result<void> ReadTools() {
    const JsonElement* tools = fields_.Find("tools");
    if (tools == nullptr) return MissingError(fields_.Path("tools"));
    form::DecodeState state{.limits = builder_.limits_};
    state.request.tools = std::move(builder_.tools_);
    const Result<void> read = form::ReadMoreTools(*tools, fields_.Path("tools"), state);
    builder_.tools_ = std::move(state.request.tools);
    for (const std::string& what : state.request.left_out) AddLeftOut(what, builder_.left_out_);
    return read;
  }

  PromptBuilder& builder_;
  std::vector<Message>& messages_;
  const ResponsesItem& item_;
  const Fields fields_;
};

void PromptBuilder::AddInstructions(std::string text) {
  text = std::string(form::WithoutBillingHeader(text));
  if (text.empty()) return;
  messages_.insert(messages_.begin(), Message{.role = "system", .content = std::move(text)});
}

Result<void> PromptBuilder::Add(std::span<const ResponsesItem> items, std::string_view field) {
  simdjson::dom::parser parser;
  const std::string name(field);
  size_t index = 0;
  for (const ResponsesItem& item : items) {
    KVGATE_TRY(const form::JsonObject object, form::ParseBody(item.json, limits_, parser));
    KVGATE_TRY(Fields fields,
               Fields::Read(object, form::IndexPath(name, index++),
                            {"type", "role", "content", "summary", "encrypted_content", "call_id",
                             "name", "namespace", "arguments", "input", "output", "tools"}));
    KVGATE_TRY_VOID(Reader(*this, item, std::move(fields)).Read());
    // An item that makes no turn of its own belongs to the last one.
    if (!messages_.empty()) messages_.back().element = num_items_;
    ++num_items_;
    if (messages_.size() > limits_.messages_max) {
      return form::RangeError(name,
                              fmt::format("must make at most {} turns", limits_.messages_max));
    }
  }
  return {};
}

void PromptBuilder::TakeTools(form::CompletionRequest& request) {
  for (form::Tool& tool : tools_) {
    const bool known =
        std::any_of(request.tools.begin(), request.tools.end(),
                    [&](const form::Tool& other) { return other.name == tool.name; });
    if (!known) request.tools.push_back(std::move(tool));
  }
  tools_.clear();
  for (const std::string& what : left_out_) AddLeftOut(what, request.left_out);
}

}  // namespace kvgate::dialect::responses
