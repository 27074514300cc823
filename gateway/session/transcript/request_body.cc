#include "gateway/session/transcript/request_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::transcript {

using prompt::parse::JsonScanner;
using prompt::parse::NameIs;
using prompt::parse::Span;

namespace {

constexpr std::string_view kSource = "session";
constexpr size_t kSkeletonBytesMax = size_t{64} << 10;

std::string_view ListNameOf(Dialect dialect) {
  return dialect == Dialect::kResponses ? "input" : "messages";
}

// Empty for a dialect whose system is in the list of messages.
std::string_view SystemNameOf(Dialect dialect) {
  if (dialect == Dialect::kMessages) return "system";
  return dialect == Dialect::kResponses ? "instructions" : "";
}

bool IsOutputLimit(std::string_view name) {
  return NameIs(name, "max_tokens") || NameIs(name, "max_completion_tokens") ||
         NameIs(name, "max_output_tokens");
}

int64_t NumberOf(std::string_view json) {
  int64_t number = 0;
  std::from_chars(json.data(), json.data() + json.size(), number);
  return number;
}

Error Wrong(std::string_view field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(why), std::string(field));
}

// Calls `on_member` with the name and the value of each member; false if the body is no object.
bool EachMember(
    std::string_view body,
    const std::function<void(const JsonScanner::Name& name, std::string_view value)>& on_member) {
  JsonScanner scanner(body);
  return scanner.Object([&](const JsonScanner::Name& member) {
    const std::optional<Span> value = scanner.Value();
    if (!value) return false;
    on_member(member, value->In(body));
    return true;
  });
}

// The input of a Responses request may be one text, which is a user's message.
std::string ListOf(std::string_view value) {
  if (!value.starts_with('"')) return std::string(value);
  return fmt::format(R"([{{"role":"user","content":{}}}])", value);
}

// Moves the leading messages of the system out of the list.
void TakeHead(RequestBody& body) {
  const auto first = std::find_if(body.messages.begin(), body.messages.end(),
                                  [](const Message& m) { return m.kind != Kind::kSystem; });
  body.frame.head.assign(std::make_move_iterator(body.messages.begin()),
                         std::make_move_iterator(first));
  body.messages.erase(body.messages.begin(), first);
}

// Returns the name of the first member that names history which is kept elsewhere.
bool IsElsewhere(std::string_view name, std::string_view value) {
  return value != "null" && (NameIs(name, "previous_response_id") || NameIs(name, "conversation"));
}

void AppendMember(std::string_view name, std::string_view value, std::string& out) {
  if (value.empty()) return;
  out += '"';
  out += name;
  out += "\":";
  out += value;
  out += ',';
}

}  // namespace

bool RequestBody::is_transcript() const {
  return std::any_of(messages.begin(), messages.end(),
                     [](const Message& message) { return message.kind == Kind::kAssistant; });
}

Result<RequestBody> ReadBody(Dialect dialect, std::string_view text) {
  if (IsTooDeep(text)) {
    return Wrong("", fmt::format("The body is nested deeper than {} levels.", kJsonDepthMax));
  }
  const std::string_view list_name = ListNameOf(dialect);
  RequestBody body{.dialect = dialect, .model = {}, .frame = {}, .messages = {}};
  std::optional<std::string_view> list;
  std::string elsewhere;
  int64_t num_answers = 1;
  const bool is_read =
      EachMember(text, [&](const JsonScanner::Name& member, std::string_view value) {
        const std::string_view name = member.span.In(text);
        if (NameIs(name, list_name)) list = value;
        if (NameIs(name, "model")) body.model = prompt::parse::TextOrJson(value);
        if (NameIs(name, "n")) num_answers = NumberOf(value);
        if (IsOutputLimit(name)) body.output_tokens = NumberOf(value);
        if (IsElsewhere(name, value)) elsewhere = name;
        if (value == "null") return;
        if (NameIs(name, "tools")) body.frame.tools = value;
        if (NameIs(name, SystemNameOf(dialect))) body.frame.system = value;
      });
  if (!is_read) return Wrong("", "The body is no JSON object.");
  if (!list) {
    return Wrong(list_name, fmt::format("Missing required parameter: '{}'.", list_name));
  }
  if (num_answers > 1) {
    return Wrong("n", "A session keeps one answer for each turn, so 'n' must be 1.");
  }
  if (!elsewhere.empty()) {
    return Wrong(elsewhere, fmt::format("'{}' and the header x-kvgate-session both name what came "
                                        "before; send one of them.",
                                        elsewhere));
  }
  body.other_bytes = text.size() - list->size();
  KVGATE_TRY(body.messages, ReadMessages(dialect, ListOf(*list), list_name));
  if (dialect != Dialect::kMessages) TakeHead(body);
  return body;
}

std::string WithMembers(std::string_view text, std::span<const Member> members) {
  std::string out = "{";
  std::vector<bool> is_written(members.size());
  EachMember(text, [&](const JsonScanner::Name& member, std::string_view value) {
    const std::string_view name = member.span.In(text);
    const auto found = std::find_if(members.begin(), members.end(),
                                    [&](const Member& other) { return NameIs(name, other.name); });
    if (found == members.end()) {
      AppendMember(name, value, out);
      return;
    }
    is_written[static_cast<size_t>(found - members.begin())] = true;
    AppendMember(name, found->value, out);
  });
  for (size_t i = 0; i < members.size(); ++i) {
    if (!is_written[i]) AppendMember(members[i].name, members[i].value, out);
  }
  if (out.back() == ',') out.pop_back();
  out += '}';
  return out;
}

std::string SkeletonOf(Dialect dialect, std::string_view text) {
  std::string out = "{";
  EachMember(text, [&](const JsonScanner::Name& member, std::string_view value) {
    const std::string_view name = member.span.In(text);
    if (NameIs(name, ListNameOf(dialect))) value = R"([{"role":"user","content":"."}])";
    if (NameIs(name, SystemNameOf(dialect)) || NameIs(name, "tools")) value = "null";
    AppendMember(name, value, out);
  });
  if (out.size() > kSkeletonBytesMax) return {};
  if (out.back() == ',') out.pop_back();
  out += '}';
  return out;
}

std::string WriteBody(Dialect dialect, std::string_view text, const BodyParts& parts) {
  const std::string_view list_name = ListNameOf(dialect);
  const std::string_view system_name = SystemNameOf(dialect);
  std::string list = "[";
  for (const std::span<const Message> some :
       {std::span<const Message>(parts.frame.head), parts.messages}) {
    for (const Message& message : some) {
      if (list.size() > 1) list += ',';
      list += message.json;
    }
  }
  list += ']';
  std::string out = "{";
  bool has_system = system_name.empty();
  bool has_tools = false;
  EachMember(text, [&](const JsonScanner::Name& member, std::string_view value) {
    const std::string_view name = member.span.In(text);
    const bool is_system = !system_name.empty() && NameIs(name, system_name);
    const bool is_tools = NameIs(name, "tools");
    has_system = has_system || is_system;
    has_tools = has_tools || is_tools;
    if (value == "null" && is_tools) value = parts.frame.tools;
    if (value == "null" && is_system) value = parts.frame.system;
    AppendMember(name, NameIs(name, list_name) ? std::string_view(list) : value, out);
  });
  if (!has_tools) AppendMember("tools", parts.frame.tools, out);
  if (!has_system) AppendMember(system_name, parts.frame.system, out);
  if (out.back() == ',') out.pop_back();
  out += '}';
  return out;
}

}  // namespace kvgate::session::transcript
