#include "engine/text/chat/template_capabilities.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::chat {
namespace {

using jinja::value::Data;

// Words that no template contains by itself.
constexpr const char* kTool = "kvprobetool";
constexpr const char* kCall = "kvprobecall";
constexpr const char* kSecondCall = "kvprobesecond";
constexpr const char* kKey = "kvprobekey";
constexpr const char* kValue = "kvprobevalue";
constexpr const char* kResult = "kvproberesult";
constexpr const char* kText = "kvprobetext";
constexpr const char* kUser = "kvprobeuser";
constexpr const char* kThought = "kvprobethought";

Data ProbeTools() {
  return Data::List{Data::Dict{
      {"type", "function"},
      {"function",
       Data::Dict{
           {"name", kTool},
           {"description", "Looks."},
           {"parameters",
            Data::Dict{{"type", "object"},
                       {"properties", Data::Dict{{kKey, Data::Dict{{"type", "string"},
                                                                   {"description", "What."}}}}},
                       {"required", Data::List{kKey}}}}}}}};
}

// The variations of a probe turn with calls.
struct TurnProbe {
  bool as_text = false;
  bool no_content = false;
  const char* content = "";
  bool two_calls = false;
  const char* reasoning_field = nullptr;
};

class Prober {
 public:
  explicit Prober(const ChatFormat& format) : format_(format), tools_(ProbeTools()) {}

  TemplateCapabilities Run() {
    ProbeRoles();
    ProbeToolsVariable();
    ProbeCalls();
    if (traits_.writes_calls) {
      traits_.calls_beside_text = HasCall(Ask({.content = kText}));
      const std::optional<std::string> two = Ask({.two_calls = true});
      traits_.several_calls = HasCall(two) && Has(two, kSecondCall);
    }
    ProbeReasoning();
    return std::move(traits_);
  }

 private:
  static bool Has(const std::optional<std::string>& text, std::string_view word) {
    return text && text->find(word) != std::string::npos;
  }
  // The arguments must be intact: not as a quoted string, and with no part missing.
  static bool HasCall(const std::optional<std::string>& text) {
    return Has(text, kCall) && Has(text, kKey) && Has(text, kValue) &&
           !Has(text, std::string("\\\"") + kKey);
  }

  std::optional<std::string> Render(const std::vector<ChatMessage>& messages,
                                    const std::string& tools_variable = {}) const {
    const std::vector<size_t> no_ends;
    const bool standard = tools_variable == "tools";
    Data::Dict arguments;
    if (!tools_variable.empty() && !standard) arguments.emplace_back(tools_variable, tools_);
    const Data empty_list{Data::List{}};
    const Data* const none = traits_.needs_tool_list ? &empty_list : nullptr;
    auto rendered = format_.Render({.messages = messages,
                                    .tools = standard ? &tools_ : none,
                                    .arguments = arguments.empty() ? nullptr : &arguments,
                                    .wanted_ends = no_ends});
    if (!rendered) return std::nullopt;
    return std::move(rendered->text);
  }

  void ProbeRoles() {
    const ChatMessage user{.role = "user", .content = kUser};
    if (!Render({user})) {
      traits_.needs_tool_list = true;
      traits_.needs_tool_list = Render({user}).has_value();
    }
    const auto front = Render({{.role = "system", .content = kText}, user});
    traits_.has_system = Has(front, kText) && Has(front, kUser);
    const auto late = Render({user,
                              {.role = "assistant", .content = kValue},
                              {.role = "system", .content = kText},
                              {.role = "user", .content = kKey}});
    traits_.has_late_system = Has(late, kText) && late->find(kText) > late->find(kValue);
    const auto twice = Render({user, {.role = "user", .content = kText}});
    traits_.repeats_roles = Has(twice, kText) && Has(twice, kUser);
  }

  void ProbeToolsVariable() {
    for (const char* variable : {"tools", "xml_tools"}) {
      // No system message is sent, so templates that list tools only there do not count.
      if (Has(Render({{.role = "user", .content = kUser}}, variable), kTool)) {
        traits_.tools_variable = variable;
        return;
      }
    }
  }

  // Renders a user's turn, a turn with calls, and their results.
  std::optional<std::string> Ask(const TurnProbe& probe) const {
    const bool as_text = probe.as_text || traits_.arguments_as_text;
    Data::List calls;
    const std::string first_id = "kvprobe01";  // some templates insist on 9 characters
    const std::string second_id = "kvprobe02";
    const auto add = [&](const std::string& id, const char* name) {
      Data arguments(Data::Dict{{kKey, kValue}});
      if (as_text) arguments = std::string("{\"") + kKey + "\": \"" + kValue + "\"}";
      calls.push_back(Data::Dict{
          {"id", id},
          {"type", "function"},
          {"function", Data::Dict{{"name", name}, {"arguments", std::move(arguments)}}}});
    };
    add(first_id, kCall);
    if (probe.two_calls) add(second_id, kSecondCall);
    ChatMessage turn{.role = "assistant", .content = probe.content};
    turn.no_content = turn.content.empty() && (probe.no_content || traits_.calls_need_none);
    if (probe.reasoning_field != nullptr) turn.more.emplace_back(probe.reasoning_field, kThought);
    turn.more.emplace_back("tool_calls", std::move(calls));
    std::vector<ChatMessage> messages = {{.role = "user", .content = kUser}, std::move(turn)};
    const auto answer = [&](const std::string& id, const char* name) {
      messages.push_back(
          {.role = "tool", .content = kResult, .more = {{"tool_call_id", id}, {"name", name}}});
    };
    answer(first_id, kCall);
    if (probe.two_calls) answer(second_id, kSecondCall);
    return Render(messages, traits_.tools_variable);
  }

  void ProbeCalls() {
    for (const bool no_content : {false, true}) {
      for (const bool as_text : {true, false}) {
        const auto text = Ask({.as_text = as_text, .no_content = no_content});
        if (!HasCall(text)) continue;
        traits_.writes_calls = true;
        traits_.writes_results = Has(text, kResult);
        traits_.arguments_as_text = as_text;
        traits_.calls_need_none = no_content;
        return;
      }
    }
    const auto result = Render({{.role = "user", .content = kUser},
                                {.role = "assistant", .content = kText},
                                {.role = "tool", .content = kResult}},
                               traits_.tools_variable);
    traits_.writes_results = Has(result, kResult);
  }

  void ProbeReasoning() {
    for (const char* field : {"reasoning_content", "thinking", "reasoning"}) {
      const auto text =
          traits_.writes_calls
              ? Ask({.reasoning_field = field})
              : Render({{.role = "user", .content = kUser},
                        {.role = "assistant", .content = kText, .more = {{field, kThought}}},
                        {.role = "tool", .content = kResult}});
      if (!Has(text, kThought)) continue;
      traits_.reasoning_field = field;
      traits_.reasoning_beside_text = !traits_.writes_calls || !traits_.calls_beside_text ||
                                      HasCall(Ask({.content = kText, .reasoning_field = field}));
      return;
    }
  }

  const ChatFormat& format_;
  const Data tools_;
  TemplateCapabilities traits_;
};

}  // namespace

TemplateCapabilities ProbeTraits(const ChatFormat& format) { return Prober(format).Run(); }

}  // namespace kvgate::chat
