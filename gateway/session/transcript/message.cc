#include "gateway/session/transcript/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::transcript {

using prompt::parse::JsonScanner;
using prompt::parse::NameIs;
using prompt::parse::Span;

namespace {

constexpr std::string_view kSource = "session";
constexpr size_t kMessagesMax = 100'000;

std::string_view Unquoted(std::string_view json) {
  return json.size() >= 2 && json.front() == '"' ? json.substr(1, json.size() - 2) : "";
}

bool EndsWithAny(std::string_view text, std::span<const std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return text.ends_with(end); });
}

// True if a list of content blocks has the result of a call.
bool HasResult(std::string_view content) {
  JsonScanner scanner(content);
  bool found = false;
  const bool is_read = scanner.List([&] {
    return scanner.Peek() == '{' && scanner.Object([&](const JsonScanner::Name& member) {
      const std::optional<Span> value = scanner.Value();
      if (!value) return false;
      found = found || (NameIs(member.span.In(content), "type") &&
                        Unquoted(value->In(content)).ends_with("tool_result"));
      return true;
    });
  });
  return is_read && found;
}

// The members of a message by which its kind is known.
struct Marks {
  std::string_view role;
  std::string_view type;
  std::string_view content;  // as JSON
};

std::optional<Marks> ReadMarks(std::string_view json) {
  Marks marks;
  JsonScanner scanner(json);
  const bool is_read = scanner.Object([&](const JsonScanner::Name& member) {
    const std::optional<Span> value = scanner.Value();
    if (!value) return false;
    const std::string_view name = member.span.In(json);
    if (NameIs(name, "role")) marks.role = Unquoted(value->In(json));
    if (NameIs(name, "type")) marks.type = Unquoted(value->In(json));
    if (NameIs(name, "content")) marks.content = value->In(json);
    return true;
  });
  return is_read ? std::optional(marks) : std::nullopt;
}

std::optional<Kind> KindOfRole(const Marks& marks) {
  if (marks.role == "system" || marks.role == "developer") return Kind::kSystem;
  if (marks.role == "assistant") return Kind::kAssistant;
  if (marks.role == "tool" || marks.role == "function") return Kind::kTool;
  if (marks.role == "user") return HasResult(marks.content) ? Kind::kTool : Kind::kUser;
  return std::nullopt;
}

// Items of the Responses dialect that have no role are a model's, but for the results of calls.
std::optional<Kind> KindOfItem(const Marks& marks) {
  static constexpr std::array<std::string_view, 3> kResults = {"_output", "_approval_response",
                                                               "tool_result"};
  if (marks.type.empty() || marks.type == "message") return KindOfRole(marks);
  return EndsWithAny(marks.type, kResults) ? Kind::kTool : Kind::kAssistant;
}

// --- what is said, in a form that is compared ---------------------------------------------------

void AddText(std::string_view kind, std::string_view text, std::string& said) {
  fmt::format_to(std::back_inserter(said), "{}:{}:", kind, text.size());
  said += text;
}

// Objects with the same members are the same, in whatever order those stand.
std::string Canonical(const Json& json) { return nlohmann::json(json).dump(); }

// Arguments are JSON in a string, whose spelling clients change.
std::string ArgumentsOf(const Json& text) {
  if (!text.is_string()) return Canonical(text);
  const std::optional<Json> parsed = ParseJson(text.get_ref<const std::string&>());
  return parsed ? Canonical(*parsed) : text.get<std::string>();
}

// Texts in a row are one, because clients join and split them.
struct Said {
  std::string out;
  std::string text;
  void EndText() {
    if (!text.empty()) AddText("text", text, out);
    text.clear();
  }
  void Part(std::string_view kind, std::string_view what) {
    EndText();
    AddText(kind, what, out);
  }
};

void AddContent(const Json& content, Said& said);

void AddBlock(const Json& block, Said& said) {
  const std::string type = StringAt(block, "type");
  if (type == "text" || type == "input_text" || type == "output_text") {
    said.text += StringAt(block, "text");
  } else if (type == "refusal") {
    said.text += StringAt(block, "refusal");
  } else if (type == "thinking" || type == "redacted_thinking" || type == "reasoning") {
    return;
  } else if (type == "tool_use") {
    said.Part("call", StringAt(block, "id") + " " + StringAt(block, "name"));
    said.Part("arguments", Canonical(MemberOf(block, "input")));
  } else if (type == "tool_result") {
    said.Part("result", StringAt(block, "tool_use_id"));
    AddContent(MemberOf(block, "content"), said);
  } else {
    Json rest = block;
    rest.erase("cache_control");
    said.Part("block", Canonical(rest));
  }
}

void AddContent(const Json& content, Said& said) {
  if (content.is_string()) said.text += content.get_ref<const std::string&>();
  if (!content.is_array()) return;
  for (const Json& block : content) {
    if (block.is_object()) AddBlock(block, said);
  }
}

void AddItem(const Json& item, const std::string& type, Said& said) {
  if (type == "reasoning") return;
  if (type == "function_call") {
    said.Part("call", StringAt(item, "call_id") + " " + StringAt(item, "name"));
    said.Part("arguments", ArgumentsOf(MemberOf(item, "arguments")));
    return;
  }
  if (type == "function_call_output") {
    said.Part("result", StringAt(item, "call_id"));
    AddContent(MemberOf(item, "output"), said);
    return;
  }
  Json rest = item;
  for (const char* name : {"id", "status"}) rest.erase(name);
  said.Part(type, Canonical(rest));
}

std::optional<std::string> SaidBy(std::string_view json) {
  const std::optional<Json> message = ParseJson(json);
  if (!message || !message->is_object()) return std::nullopt;
  Said said;
  const std::string type = StringAt(*message, "type");
  if (!type.empty() && type != "message") {
    said.Part("type", type);
    AddItem(*message, type, said);
    said.EndText();
    return std::move(said.out);
  }
  const std::string role = StringAt(*message, "role");
  said.Part("role", role == "developer" ? "system" : role);
  if (role == "tool") said.Part("result", StringAt(*message, "tool_call_id"));
  AddContent(MemberOf(*message, "content"), said);
  for (const Json& call : MemberOf(*message, "tool_calls")) {
    const Json& function = MemberOf(call, "function");
    said.Part("call", StringAt(call, "id") + " " + StringAt(function, "name"));
    said.Part("arguments", ArgumentsOf(MemberOf(function, "arguments")));
  }
  said.EndText();
  return std::move(said.out);
}

std::string TextOf(std::string_view json) {
  const std::optional<Json> content = ParseJson(json);
  Said said;
  if (content) AddContent(*content, said);
  said.EndText();
  return std::move(said.out);
}

}  // namespace

Result<std::vector<Message>> ReadMessages(Dialect dialect, std::string_view list,
                                          std::string_view field) {
  std::vector<Message> messages;
  std::optional<size_t> wrong;
  JsonScanner scanner(list);
  const bool is_read = scanner.List([&] {
    if (messages.size() == kMessagesMax) return false;
    const std::optional<Span> value = scanner.Value();
    if (!value) return false;
    const std::string_view json = value->In(list);
    const std::optional<Marks> marks = ReadMarks(json);
    std::optional<Kind> kind;
    if (marks) kind = dialect == Dialect::kResponses ? KindOfItem(*marks) : KindOfRole(*marks);
    if (!kind) {
      wrong = messages.size();
      return false;
    }
    messages.push_back({.kind = *kind, .json = std::string(json)});
    return true;
  });
  if (is_read) return messages;
  if (wrong) {
    return MakeError(
        ErrorCode::kInvalidArgument, kSource,
        fmt::format("Invalid value for '{}[{}]': it is no message of a known role.", field, *wrong),
        fmt::format("{}[{}]", field, *wrong));
  }
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   fmt::format("Invalid value for '{}': it is no list of at most {} messages.",
                               field, kMessagesMax),
                   std::string(field));
}

std::string ToList(std::span<const Message> messages) {
  std::string list = "[";
  for (const Message& message : messages) {
    if (list.size() > 1) list += ',';
    list += message.json;
  }
  list += ']';
  return list;
}

bool SaysTheSame(const Message& a, const Message& b) {
  if (a.kind != b.kind) return false;
  if (a.json == b.json) return true;
  const std::optional<std::string> said = SaidBy(a.json);
  return said && said == SaidBy(b.json);
}

bool IsSameText(std::string_view a, std::string_view b) {
  return a == b || (!a.empty() && !b.empty() && TextOf(a) == TextOf(b));
}

size_t CommonMessages(std::span<const Message> a, std::span<const Message> b) {
  size_t count = 0;
  while (count < a.size() && count < b.size() && SaysTheSame(a[count], b[count])) ++count;
  return count;
}

std::vector<size_t> RoundsOf(std::span<const Message> messages) {
  std::vector<size_t> rounds;
  if (!messages.empty()) rounds.push_back(0);
  for (size_t i = 1; i < messages.size(); ++i) {
    if (messages[i].kind == Kind::kUser && messages[i - 1].kind == Kind::kAssistant) {
      rounds.push_back(i);
    }
  }
  return rounds;
}

}  // namespace kvgate::session::transcript
