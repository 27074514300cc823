#include "engine/template/tool_text.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <kvgate/check.h>

#include "engine/jinja/template.h"

namespace kvgate::chat {
namespace {

using jinja::Data;
using jinja::Template;

// Written in the templates' own language, so that a tool reads here as it does in those of models.
constexpr const char* kToolsSource =
    "{%- if text %}{{ text }}\n\n{% endif -%}\n"
    "# Tools\n\nYou may call one or more functions to help with the user's request. Their "
    "signatures stand within <tools></tools>:\n<tools>{% for tool in tools %}"
    "{{ '\n' }}{{ tool | tojson }}{% endfor %}{{ '\n' }}</tools>\n\nFor each call return a JSON object with the "
    "function's name and its arguments within <tool_call></tool_call>:\n<tool_call>\n"
    "{\"name\": <function-name>, \"arguments\": <arguments-object>}\n</tool_call>";
constexpr const char* kCallsSource =
    "{{ text }}{% for call in calls %}{% if text or not loop.first %}{{ '\n' }}{% endif %}<tool_call>\n"
    "{\"name\": {{ call.function.name | tojson }}, \"arguments\": "
    "{% if call.function.arguments is string %}{{ call.function.arguments }}"
    "{% else %}{{ call.function.arguments | tojson }}{% endif %}}\n</tool_call>{% endfor %}";

std::unique_ptr<const Template> Parsed(const char* source) {
  auto parsed = Template::Parse(source);
  KVGATE_CHECK(parsed.has_value(), "a template of our own does not parse");
  return std::move(*parsed);
}

// `name` is what the template calls the value beside the text.
Result<std::string> Write(const Template& form, std::string_view name, const Data& value,
                          const std::string& text) {
  const Data text_data(text);
  const std::vector<Template::Variable> variables = {{.name = "text", .value = &text_data},
                                                     {.name = name, .value = &value}};
  auto rendered = form.Render({.variables = variables});
  if (rendered) return std::move(rendered->text);
  return MakeError(ErrorCode::kInternal, "chat", rendered.error().ToString("tools as text"));
}

const Data* Find(const Data::Dict& fields, std::string_view name) {
  for (const auto& [key, value] : fields) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool IsSystem(const ChatMessage& message) {
  return message.role == "system" || message.role == "developer";
}

// The user's message that a result belongs to: the one before, where that holds results already.
void AddResult(const std::string& content, bool joins, std::vector<ChatMessage>& messages) {
  if (!joins) messages.push_back({.role = "user", .content = {}});
  std::string& text = messages.back().content;
  if (!text.empty()) text += '\n';
  text += "<tool_response>\n" + content + "\n</tool_response>";
}

}  // namespace

Result<ToolTextChat> WriteToolsAsText(std::span<const ChatMessage> messages, const Data* tools) {
  static const std::unique_ptr<const Template> tools_form = Parsed(kToolsSource);
  static const std::unique_ptr<const Template> calls_form = Parsed(kCallsSource);
  ToolTextChat chat;
  const bool told = tools == nullptr || (!messages.empty() && IsSystem(messages.front()));
  if (!told) {
    KVGATE_TRY(std::string text, Write(*tools_form, "tools", *tools, {}));
    chat.messages.push_back({.role = "system", .content = std::move(text)});
  }
  bool after_result = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role == "tool") {
      AddResult(message.content, after_result, chat.messages);
      after_result = true;
    } else if (message.role == "user" && after_result) {
      chat.messages.back().content += "\n" + message.content;
      after_result = false;
    } else {
      ChatMessage& written =
          chat.messages.emplace_back(ChatMessage{.role = message.role, .content = message.content});
      if (i == 0 && tools != nullptr && IsSystem(message)) {
        KVGATE_TRY(written.content, Write(*tools_form, "tools", *tools, message.content));
      } else if (const Data* calls = Find(message.more, "tool_calls"); calls != nullptr) {
        KVGATE_TRY(written.content, Write(*calls_form, "calls", *calls, message.content));
      }
      after_result = false;
    }
    chat.places.push_back(chat.messages.size() - 1);
  }
  return chat;
}

}  // namespace kvgate::chat
