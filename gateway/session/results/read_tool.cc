#include "gateway/session/results/read_tool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "gateway/session/results/stub.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::results {

using transcript::IntegerAt;
using transcript::Json;
using transcript::Kind;
using transcript::MemberOf;
using transcript::StringAt;

namespace {

constexpr std::string_view kDescription =
    "Reads more of a tool result of which only the beginning and the end are shown.";
// Bytes around a place at which a text was found.
constexpr size_t kAround = 200;

// Another spelling would break the caches of all sessions that have the tool.
Json Parameters() {
  return {
      {"type", "object"},
      {"properties",
       {{"id", {{"type", "string"}, {"description", "The id that the result names."}}},
        {"offset",
         {{"type", "integer"}, {"description", "The byte from which on to read; 0 if missing."}}},
        {"find",
         {{"type", "string"},
          {"description", "A text: the places that have it are shown instead."}}}}},
      {"required", Json::array({"id"})}};
}

Json ToolOf(Dialect dialect) {
  Json tool = Json::object();
  if (dialect == Dialect::kMessages) {
    return {{"name", kReadTool}, {"description", kDescription}, {"input_schema", Parameters()}};
  }
  Json function = {
      {"name", kReadTool}, {"description", kDescription}, {"parameters", Parameters()}};
  if (dialect == Dialect::kChatCompletions) {
    tool["type"] = "function";
    tool["function"] = std::move(function);
    return tool;
  }
  tool["type"] = "function";
  tool.update(function);
  tool["strict"] = false;
  return tool;
}

std::string TextOrJson(const Json& json) {
  return json.is_string() ? json.get<std::string>() : transcript::Dump(json);
}

void AddCalls(Dialect dialect, const Json& message, std::vector<Call>& calls) {
  if (dialect == Dialect::kResponses) {
    if (StringAt(message, "type") != "function_call") return;
    calls.push_back({.id = StringAt(message, "call_id"),
                     .name = StringAt(message, "name"),
                     .arguments = StringAt(message, "arguments")});
    return;
  }
  if (dialect == Dialect::kChatCompletions) {
    for (const Json& call : MemberOf(message, "tool_calls")) {
      const Json& function = MemberOf(call, "function");
      calls.push_back({.id = StringAt(call, "id"),
                       .name = StringAt(function, "name"),
                       .arguments = StringAt(function, "arguments")});
    }
    return;
  }
  const Json& content = MemberOf(message, "content");
  if (!content.is_array()) return;
  for (const Json& block : content) {
    if (StringAt(block, "type") != "tool_use") continue;
    calls.push_back({.id = StringAt(block, "id"),
                     .name = StringAt(block, "name"),
                     .arguments = TextOrJson(MemberOf(block, "input"))});
  }
}

// The places of a text at which another one stands, with what is around them.
std::string Places(std::string_view text, std::string_view wanted, size_t bytes_max) {
  std::string out;
  size_t num = 0;
  size_t shown_end = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    ++num;
    if (at < shown_end) continue;  // it stands in what was shown of the place before
    shown_end = at + wanted.size() + kAround;
    const std::string_view around = PartOf(text, at - std::min(at, kAround), shown_end);
    const std::string place = fmt::format("[byte {}] {}\n", at, around);
    if (out.size() + place.size() <= bytes_max) out += place;
  }
  return fmt::format("[{} places of {} bytes have it]\n{}", num, text.size(), out);
}

}  // namespace

bool HasReadTool(std::string_view tools) {
  return tools.find(fmt::format("\"{}\"", kReadTool)) != std::string_view::npos;
}

std::string WithReadTool(Dialect dialect, std::string_view tools) {
  const std::string tool = transcript::Dump(ToolOf(dialect));
  if (tools.empty() || tools == "null") return fmt::format("[{}]", tool);
  const size_t end = tools.find_last_not_of(" \t\r\n");
  if (HasReadTool(tools) || end == std::string_view::npos || tools[end] != ']') {
    return std::string(tools);
  }
  const std::string_view front = tools.substr(0, end);
  const size_t last = front.find_last_not_of(" \t\r\n");
  const bool is_empty = last == std::string_view::npos || front[last] == '[';
  return fmt::format("{}{}{}]", front, is_empty ? "" : ",", tool);
}

std::vector<Call> CallsOf(Dialect dialect, std::span<const Message> answer) {
  std::vector<Call> calls;
  for (const Message& message : answer) {
    if (message.kind != Kind::kAssistant) continue;
    if (const auto json = transcript::ParseJson(message.json)) AddCalls(dialect, *json, calls);
  }
  return calls;
}

std::vector<Message> ToMessages(Dialect dialect, std::span<const CallResult> results) {
  std::vector<Message> messages;
  Json blocks = Json::array();
  for (const CallResult& result : results) {
    Json message = Json::object();
    if (dialect == Dialect::kMessages) {
      blocks.push_back(
          {{"type", "tool_result"}, {"tool_use_id", result.call_id}, {"content", result.text}});
      continue;
    }
    if (dialect == Dialect::kChatCompletions) {
      message = {{"role", "tool"}, {"tool_call_id", result.call_id}, {"content", result.text}};
    } else {
      message = {
          {"type", "function_call_output"}, {"call_id", result.call_id}, {"output", result.text}};
    }
    messages.push_back({.kind = Kind::kTool, .json = transcript::Dump(message)});
  }
  if (!blocks.empty()) {
    const Json message = {{"role", "user"}, {"content", std::move(blocks)}};
    messages.push_back({.kind = Kind::kTool, .json = transcript::Dump(message)});
  }
  return messages;
}

std::string AnswerCall(std::string_view arguments, const FindText& find, size_t bytes_max) {
  const std::optional<Json> asked = transcript::ParseJson(arguments);
  if (!asked || !asked->is_object()) return "[The arguments are no JSON object.]";
  const std::string id = StringAt(*asked, "id");
  const std::optional<std::string> text = find(id);
  if (!text) {
    return fmt::format("[No result '{}' is kept. A result that is shown in part names its id.]",
                       PartOf(id, 0, kAround));
  }
  const std::string wanted = StringAt(*asked, "find");
  if (!wanted.empty()) return Places(*text, wanted, bytes_max);
  const Json& offset = MemberOf(*asked, "offset");
  if (!offset.is_null() && !offset.is_number_integer()) return "[The offset is no whole number.]";
  const auto begin = static_cast<size_t>(std::max<int64_t>(0, IntegerAt(*asked, "offset")));
  if (begin >= text->size()) return fmt::format("[The result has {} bytes.]", text->size());
  const std::string_view part = PartOf(*text, begin, begin + bytes_max);
  const auto first = static_cast<size_t>(part.data() - text->data());
  return fmt::format("[bytes {} to {} of {}]\n{}", first, first + part.size(), text->size(), part);
}

}  // namespace kvgate::session::results
