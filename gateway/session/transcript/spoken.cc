#include "gateway/session/transcript/spoken.h"

#include <string_view>
#include <vector>

#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::transcript {
namespace {

// A part of a message, told apart from the others by what it is.
struct Part {
  enum class What : uint8_t { kText, kCall, kResult, kOther };
  What what = What::kText;
  std::string text = {};
};
using Parts = std::vector<Part>;
using What = Part::What;

std::string TextOrJson(const Json& json) {
  return json.is_string() ? json.get<std::string>() : Dump(json);
}

void AddContent(const Json& content, What what, Parts& parts);

// A function takes arguments; a tool of a provider's own, or one that takes a text, an input.
void AddCall(const std::string& name, const Json& call, Parts& parts) {
  const Json& arguments = MemberOf(call, "arguments");
  const Json& given = arguments.is_null() ? MemberOf(call, "input") : arguments;
  parts.push_back({.what = What::kCall, .text = name + ": " + TextOrJson(given)});
}

void AddBlock(const Json& block, What what, Parts& parts) {
  const std::string type = StringAt(block, "type");
  if (type == "text" || type == "input_text" || type == "output_text") {
    parts.push_back({.what = what, .text = StringAt(block, "text")});
  } else if (type == "thinking" || type == "redacted_thinking" || type == "reasoning") {
    return;
  } else if (type == "tool_use") {
    AddCall(StringAt(block, "name"), block, parts);
  } else if (type == "tool_result") {
    AddContent(MemberOf(block, "content"), What::kResult, parts);
  } else {
    parts.push_back({.what = What::kOther, .text = "[" + type + "]"});
  }
}

void AddContent(const Json& content, What what, Parts& parts) {
  if (content.is_string()) parts.push_back({.what = what, .text = content.get<std::string>()});
  if (!content.is_array()) return;
  for (const Json& block : content) {
    if (block.is_object()) AddBlock(block, what, parts);
  }
}

// Items of the Responses dialect that are no messages.
void AddItem(const Json& item, const std::string& type, Parts& parts) {
  if (type == "reasoning") return;
  if (type.ends_with("_call")) {
    const std::string name = StringAt(item, "name");
    AddCall(name.empty() ? type : name, item, parts);
  } else if (type.ends_with("_output")) {
    AddContent(MemberOf(item, "output"), What::kResult, parts);
  } else {
    parts.push_back({.what = What::kOther, .text = "[" + type + "]"});
  }
}

Parts PartsOf(const Message& message) {
  Parts parts;
  const std::optional<Json> json = ParseJson(message.json);
  if (!json || !json->is_object()) return parts;
  const std::string type = StringAt(*json, "type");
  if (!type.empty() && type != "message") {
    AddItem(*json, type, parts);
    return parts;
  }
  const What what = StringAt(*json, "role") == "tool" ? What::kResult : What::kText;
  AddContent(MemberOf(*json, "content"), what, parts);
  for (const Json& call : MemberOf(*json, "tool_calls")) {
    const bool is_custom = StringAt(call, "type") == "custom";
    const Json& called = MemberOf(call, is_custom ? "custom" : "function");
    AddCall(StringAt(called, "name"), called, parts);
  }
  return parts;
}

std::string_view SpeakerOf(const Message& message) {
  switch (message.kind) {
    case Kind::kAssistant:
      return "Assistant";
    case Kind::kSystem:
      return "System";
    default:
      return "User";
  }
}

}  // namespace

std::string TextOf(const Message& message) {
  std::string text;
  for (const Part& part : PartsOf(message)) {
    if (part.what == What::kText) text += part.text;
  }
  return text;
}

bool CallsTool(const Message& message) {
  if (message.kind != Kind::kAssistant) return false;
  for (const Part& part : PartsOf(message)) {
    if (part.what == What::kCall) return true;
  }
  return false;
}

std::string ToPlainText(std::span<const Message> messages) {
  std::string text;
  for (const Message& message : messages) {
    for (const Part& part : PartsOf(message)) {
      if (part.text.empty()) continue;
      const bool is_call = part.what == What::kCall;
      text += is_call                      ? "Call of "
              : part.what == What::kResult ? "Result: "
                                           : std::string(SpeakerOf(message)) + ": ";
      text += part.text;
      text += '\n';
    }
  }
  return text;
}

}  // namespace kvgate::session::transcript
