#include "engine/text/chat/chat_fit.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "engine/text/jinja/template.h"

namespace kvgate::chat {
namespace {

using jinja::Template;
using jinja::value::Data;
using output::CallStyle;

// These are Jinja templates too, so that tools are rendered as in the models' own templates.
constexpr const char* kToolsSource =
    "{%- if text %}{{ text }}\n\n{% endif -%}\n"
    "# Tools\n\nYou may call one or more functions to help with the user's request. Their "
    "signatures stand within <tools></tools>:\n<tools>{% for tool in tools %}"
    "{{ '\\n' }}{{ tool | tojson }}{% endfor %}{{ '\\n' }}</tools>\n\nFor each call return a JSON "
    "object with the function's name and its arguments within <tool_call></tool_call>:\n"
    "<tool_call>\n{\"name\": <function-name>, \"arguments\": <arguments-object>}\n</tool_call>";
// Used if the format writes calls itself, so that the model is shown the format's own form.
constexpr const char* kToolsLikeSource =
    "{%- if text %}{{ text }}\n\n{% endif -%}\n"
    "# Tools\n\nYou may call one or more functions to help with the user's request. Their "
    "signatures stand within <tools></tools>:\n<tools>{% for tool in tools %}"
    "{{ '\\n' }}{{ tool | tojson }}{% endfor %}{{ '\\n' }}</tools>\n\nWrite calls exactly so, with "
    "a "
    "function's name and its arguments as a JSON object:\n{{ example }}";
constexpr const char* kKimiSource =
    "{{ text }}<|tool_calls_section_begin|>{% for call in calls %}<|tool_call_begin|>functions."
    "{{ call.function.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>"
    "{% if call.function.arguments is string %}{{ call.function.arguments }}"
    "{% else %}{{ call.function.arguments | tojson }}{% endif %}<|tool_call_end|>{% endfor %}"
    "<|tool_calls_section_end|>";
constexpr const char* kTagsSource =
    "{{ text }}{% for call in calls %}{% if text or not loop.first %}{{ '\\n' }}{% endif %}"
    "<tool_call>\n{\"name\": {{ call.function.name | tojson }}, \"arguments\": "
    "{% if call.function.arguments is string %}{{ call.function.arguments }}"
    "{% else %}{{ call.function.arguments | tojson }}{% endif %}}\n</tool_call>{% endfor %}";
constexpr const char* kPythonSource =
    "{{ text }}<|tool_call_start|>[{% for call in calls %}{{ call.function.name }}("
    "{% if call.function.arguments is mapping %}{% for key, value in call.function.arguments | "
    "items %}{{ key }}={{ ([value] | string)[1:-1] }}{% if not loop.last %}, {% endif %}"
    "{% endfor %}{% endif %}){% if not loop.last %}, {% endif %}{% endfor %}]<|tool_call_end|>";
constexpr const char* kListSource =
    "{{ text }}<|tool_call|>[{% for call in calls %}{\"name\": {{ call.function.name | tojson }}, "
    "\"arguments\": {% if call.function.arguments is string %}{{ call.function.arguments }}"
    "{% else %}{{ call.function.arguments | tojson }}{% endif %}}"
    "{% if not loop.last %}, {% endif %}{% endfor %}]<|/tool_call|>";

std::unique_ptr<const Template> Parsed(const char* source) {
  auto parsed = Template::Parse(source);
  KVGATE_CHECK(parsed.has_value(), "a template of our own does not parse");
  return std::move(*parsed);
}

const Template& FormOf(CallStyle style) {
  static const std::unique_ptr<const Template> tags = Parsed(kTagsSource);
  static const std::unique_ptr<const Template> python = Parsed(kPythonSource);
  static const std::unique_ptr<const Template> list = Parsed(kListSource);
  static const std::unique_ptr<const Template> kimi = Parsed(kKimiSource);
  switch (style) {
    case CallStyle::kTags:
      return *tags;
    case CallStyle::kPython:
      return *python;
    case CallStyle::kList:
      return *list;
    case CallStyle::kKimi:
      return *kimi;
  }
  return *tags;
}

// Rewrites the content of a message with a template; `name` is the variable that holds `value`.
Result<void> Rewrite(const Template& form, std::string_view name, const Data& value,
                     ChatMessage& message, std::string_view example = {}) {
  const Data text(message.content);
  const Data example_data = Data::Trusted(std::string(example));
  const std::vector<Template::Variable> variables = {{.name = "text", .value = &text},
                                                     {.name = "example", .value = &example_data},
                                                     {.name = name, .value = &value}};
  auto rendered = form.Render({.variables = variables});
  if (!rendered) {
    return MakeError(ErrorCode::kInternal, "chat", rendered.error().ToString("tools as text"));
  }
  message.markers.clear();
  size_t begin = 0;
  for (const Template::InputRange& input : rendered->inputs) {
    if (input.begin > begin) message.markers.push_back({.begin = begin, .end = input.begin});
    begin = input.end;
  }
  const size_t size = rendered->text.size();
  if (begin < size) message.markers.push_back({.begin = begin, .end = size});
  message.content = std::move(rendered->text);
  return {};
}

const Data* Find(const Data::Dict& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const auto& field) { return field.first == name; });
  return found == fields.end() ? nullptr : &found->second;
}

std::string_view TextOf(const Data* data) {
  const auto* text = data == nullptr ? nullptr : std::get_if<std::string>(&data->value());
  return text == nullptr ? std::string_view() : *text;
}

// Returns null if the turn has no calls.
const Data::List* CallsOf(const ChatMessage& message) {
  const Data* calls = Find(message.more, "tool_calls");
  return calls == nullptr ? nullptr : std::get_if<Data::List>(&calls->value());
}

std::string_view IdOf(const Data& call) {
  const auto* fields = std::get_if<Data::Dict>(&call.value());
  return fields == nullptr ? std::string_view() : TextOf(Find(*fields, "id"));
}

void SetField(ChatMessage& message, std::string_view name, Data value) {
  for (auto& [key, old] : message.more) {
    if (key == name) old = std::move(value);
  }
}

void DropField(ChatMessage& message, std::string_view name) {
  std::erase_if(message.more, [&](const auto& field) { return field.first == name; });
}

bool IsSystem(const ChatMessage& message) {
  return message.role == "system" || message.role == "developer";
}

// Appends the text of a neighbouring turn and keeps its markers.
void Append(const ChatMessage& more, ChatMessage& message) {
  if (!message.content.empty() && !more.content.empty()) message.content += '\n';
  const size_t offset = message.content.size();
  message.content += more.content;
  for (const Data::Part& range : more.markers) {
    message.markers.push_back({.begin = range.begin + offset, .end = range.end + offset});
  }
}

class Fitter {
 public:
  explicit Fitter(const FitArgs& args)
      : args_(args),
        traits_(args.traits),
        tools_as_text_(args.tools != nullptr && traits_.tools_variable.empty()),
        results_as_text_(!traits_.writes_results ||
                         (!traits_.writes_calls && traits_.tools_variable.empty())) {}

  Result<FittedChat> Run() {
    chat_.places.resize(args_.messages.size());
    chat_.tools_as_text = tools_as_text_;
    const bool has_front = !args_.messages.empty() && IsSystem(args_.messages.front());
    if (tools_as_text_ && !has_front) KVGATE_TRY_VOID(AddSystem({.role = "system", .content = {}}));
    size_t next = 0;
    while (next < args_.messages.size()) {
      KVGATE_TRY(next, Take(next));
    }
    FlushSystem();
    for (size_t i = 1; i < chat_.places.size(); ++i) {
      chat_.places[i] = std::max(chat_.places[i], chat_.places[i - 1]);
    }
    return std::move(chat_);
  }

 private:
  // Processes one message, or a turn with calls and its results. Returns the index of the next
  // message.
  Result<size_t> Take(size_t i) {
    const ChatMessage& message = args_.messages[i];
    const Data::List* calls = CallsOf(message);
    if (calls != nullptr && traits_.writes_calls) {
      if (calls->size() > 1 && !traits_.several_calls) return TakeOneByOne(i, *calls);
      AddTurn(message, i);
      return i + 1;
    }
    if (i == 0 && IsSystem(message)) {
      KVGATE_TRY_VOID(AddSystem(message));
    } else if (IsSystem(message) && !traits_.has_late_system) {
      Add({.role = "user", .content = message.content}, i, traits_.repeats_roles);
    } else if (message.role == "tool" && results_as_text_) {
      AddResult(message, i);
      return i + 1;
    } else if (calls != nullptr) {
      ChatMessage turn = message;
      KVGATE_TRY_VOID(Rewrite(FormOf(args_.style), "calls", *Find(turn.more, "tool_calls"), turn));
      DropField(turn, "tool_calls");
      Add(std::move(turn), i, true);
    } else {
      Add(message, i, traits_.repeats_roles || message.role == "tool");
    }
    after_result_ = false;
    if (!chat_.messages.empty()) chat_.places[i] = chat_.messages.size() - 1;
    return i + 1;
  }

  // Writes one turn per call, each followed by its results.
  Result<size_t> TakeOneByOne(size_t i, const Data::List& calls) {
    size_t end = i + 1;
    while (end < args_.messages.size() && args_.messages[end].role == "tool") ++end;
    std::vector<bool> taken(end, false);
    for (size_t c = 0; c < calls.size(); ++c) {
      ChatMessage turn = args_.messages[i];
      if (c > 0) turn.content.clear();
      if (c > 0 && !traits_.reasoning_field.empty()) DropField(turn, traits_.reasoning_field);
      SetField(turn, "tool_calls", Data::List{calls[c]});
      AddTurn(std::move(turn), i);
      for (size_t j = i + 1; j < end; ++j) {
        const bool answers = TextOf(Find(args_.messages[j].more, "tool_call_id")) == IdOf(calls[c]);
        if (taken[j] || !(answers || c + 1 == calls.size())) continue;
        taken[j] = true;
        KVGATE_TRY_VOID(Take(j));
      }
    }
    return end;
  }

  void AddTurn(ChatMessage turn, size_t from) {
    if (!traits_.reasoning_beside_text && !traits_.reasoning_field.empty() &&
        !turn.content.empty()) {
      if (const Data* thought = Find(turn.more, traits_.reasoning_field); thought != nullptr) {
        std::string joined = std::string(TextOf(thought)) + "\n\n" + turn.content;
        SetField(turn, traits_.reasoning_field, Data(std::move(joined)));
        turn.content.clear();
      }
    }
    if (!turn.content.empty() && !traits_.calls_beside_text) {
      ChatMessage text{.role = turn.role, .content = std::exchange(turn.content, {})};
      Add(std::move(text), from, true);
    }
    turn.no_content = turn.content.empty() && traits_.calls_need_none;
    Add(std::move(turn), from, true);
    after_result_ = false;
  }

  Result<void> AddSystem(ChatMessage message) {
    if (tools_as_text_) {
      static const std::unique_ptr<const Template> tags = Parsed(kToolsSource);
      static const std::unique_ptr<const Template> like = Parsed(kToolsLikeSource);
      const bool own = traits_.writes_calls && !args_.call_example.empty();
      KVGATE_TRY_VOID(
          Rewrite(own ? *like : *tags, "tools", *args_.tools, message, args_.call_example));
    }
    if (traits_.has_system) {
      chat_.messages.push_back(std::move(message));
    } else {
      system_ = std::move(message);
    }
    return {};
  }

  // Adjacent results, and a user's text after them, become one user message.
  void AddResult(const ChatMessage& result, size_t from) {
    ChatMessage message{.role = "user",
                        .content = "<tool_response>\n" + result.content + "\n</tool_response>"};
    Add(std::move(message), from, !after_result_ && traits_.repeats_roles);
    after_result_ = true;
  }

  // A pending system message is prepended to the next user turn. Turns of the same role are joined
  // unless `alone`.
  void Add(ChatMessage message, size_t from, bool alone) {
    if (message.role == "user" && !system_.content.empty()) {
      ChatMessage both = std::exchange(system_, {});
      both.role = "user";
      if (!message.content.empty()) both.content += '\n';
      Append(message, both);
      message = std::move(both);
    }
    std::vector<ChatMessage>& messages = chat_.messages;
    const bool joins = (!alone || (after_result_ && message.role == "user")) && !messages.empty() &&
                       messages.back().role == message.role && CallsOf(messages.back()) == nullptr;
    if (joins) {
      Append(message, messages.back());
    } else {
      messages.push_back(std::move(message));
    }
    chat_.places[from] = messages.size() - 1;
  }

  void FlushSystem() {
    if (system_.content.empty()) return;
    system_.role = "user";
    chat_.messages.push_back(std::exchange(system_, {}));
  }

  const FitArgs& args_;
  const TemplateCapabilities& traits_;
  const bool tools_as_text_;
  const bool results_as_text_;
  bool after_result_ = false;  // the last message holds results as text
  ChatMessage system_;         // pending until a user's turn
  FittedChat chat_;
};

}  // namespace

Result<FittedChat> FitChat(const FitArgs& args) { return Fitter(args).Run(); }

}  // namespace kvgate::chat
