#include "gateway/protocol/prompt_builder.h"

#include <fmt/format.h>

#include "gateway/protocol/field_reader.h"

namespace kvgate::protocol {
namespace {

bool IsTextPart(std::string_view type) {
  return type == "input_text" || type == "output_text" || type == "text" ||
         type == "reasoning_text" || type == "summary_text" || type == "refusal";
}

// A string, or parts of text by whatever name, on lines of their own.
Result<std::string> ReadParts(JsonElement value, const std::string& path) {
  if (value.is_string()) return ReadString(value, path);
  JsonArray parts;
  if (value.get(parts) != simdjson::SUCCESS) {
    return TypeError(path, "a string or an array of content parts", value);
  }
  std::string text;
  size_t index = 0;
  for (const JsonElement part : parts) {
    KVGATE_TRY(const Fields fields,
               Fields::Read(part, IndexPath(path, index), {"type", "text", "refusal"}));
    KVGATE_TRY(const std::string type, fields.String("type"));
    if (!IsTextPart(type)) {
      return UnsupportedError(fields.Path("type"),
                              fmt::format("a content part of type '{}' is", type));
    }
    KVGATE_TRY(const std::string more, fields.String(type == "refusal" ? "refusal" : "text"));
    if (index++ > 0) text += '\n';
    text += more;
  }
  return text;
}

}  // namespace

// One item after the other.
class PromptBuilder::Reader {
 public:
  Reader(PromptBuilder& builder, const ResponsesItem& item, Fields fields)
      : builder_(builder), messages_(builder.messages_), item_(item), fields_(std::move(fields)) {}

  Result<void> Read() {
    KVGATE_TRY(const std::string type, fields_.String("type"));
    if (type == "message") return ReadMessage();
    if (type == "reasoning") return ReadReasoning();
    if (type == "function_call") return ReadCall();
    if (type == "function_call_output") return ReadOutput();
    return UnsupportedError(fields_.Path("type"), fmt::format("an item of type '{}' is", type));
  }

 private:
  // The turn that this item is a part of: one answer of ours is one turn; else `joins` says whether
  // it may join the turn that is open.
  Message& AssistantTurn(bool joins) {
    const bool minted = item_.id.find("_i") == std::string::npos;
    const std::string_view answer = minted ? RequestOf(item_.id) : "";
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
      return RangeError(fields_.Path("role"),
                        "must be 'user', 'assistant', 'system' or 'developer'");
    }
    const JsonElement* content = fields_.Find("content");
    if (content == nullptr) return MissingError(fields_.Path("content"));
    KVGATE_TRY(std::string text, ReadParts(*content, fields_.Path("content")));
    if (role == "assistant") {
      const bool silent = LastIs([](const Message& message) {
        return message.content.empty() && message.tool_calls.empty();
      });
      AssistantTurn(silent).content += text;
    } else {
      messages_.push_back({.role = role, .content = std::move(text)});
    }
    return {};
  }

  // What the model wrote, in whichever of its places the client has kept it.
  Result<void> ReadReasoning() {
    KVGATE_TRY(const std::string sealed, fields_.StringOrEmpty("encrypted_content"));
    std::string text = OpenReasoning(sealed);
    for (const char* place : {"content", "summary"}) {
      const JsonElement* parts = fields_.Find(place);
      if (parts == nullptr) continue;
      KVGATE_TRY(std::string more, ReadParts(*parts, fields_.Path(place)));
      if (text.empty()) text = std::move(more);
    }
    if (!text.empty()) AssistantTurn(false).reasoning += text;
    return {};
  }

  Result<void> ReadCall() {
    ToolCall call;
    KVGATE_TRY(call.id, fields_.String("call_id"));
    KVGATE_TRY(call.name, fields_.String("name"));
    KVGATE_TRY(call.arguments, fields_.String("arguments"));
    builder_.calls_.insert(call.id);
    AssistantTurn(true).tool_calls.push_back(std::move(call));
    return {};
  }

  Result<void> ReadOutput() {
    Message result{.role = "tool"};
    KVGATE_TRY(result.tool_call_id, fields_.String("call_id"));
    if (!builder_.calls_.contains(result.tool_call_id)) {
      return RangeError(fields_.Path("call_id"),
                        fmt::format("must be that of a function_call before it, which '{}' is not: "
                                    "No tool call found for it",
                                    result.tool_call_id.substr(0, 80)));
    }
    const JsonElement* output = fields_.Find("output");
    if (output == nullptr) return MissingError(fields_.Path("output"));
    KVGATE_TRY(result.content, ReadParts(*output, fields_.Path("output")));
    messages_.push_back(std::move(result));
    return {};
  }

  PromptBuilder& builder_;
  std::vector<Message>& messages_;
  const ResponsesItem& item_;
  const Fields fields_;
};

void PromptBuilder::AddInstructions(std::string text) {
  if (text.empty()) return;
  messages_.insert(messages_.begin(), Message{.role = "system", .content = std::move(text)});
}

Result<void> PromptBuilder::Add(std::span<const ResponsesItem> items, std::string_view field) {
  simdjson::dom::parser parser;
  const std::string name(field);
  size_t index = 0;
  for (const ResponsesItem& item : items) {
    KVGATE_TRY(const JsonObject object, ParseBody(item.json, limits_, parser));
    KVGATE_TRY(Fields fields,
               Fields::Read(object, IndexPath(name, index++),
                            {"type", "role", "content", "summary", "encrypted_content", "call_id",
                             "name", "arguments", "output"}));
    KVGATE_TRY_VOID(Reader(*this, item, std::move(fields)).Read());
    if (messages_.size() > limits_.messages_max) {
      return RangeError(name, fmt::format("must make at most {} turns", limits_.messages_max));
    }
  }
  return {};
}

}  // namespace kvgate::protocol
