#include "gateway/session/prompts/prompt_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/session/transcript/bounded_json.h"
#include "gateway/session/transcript/raw_object.h"
#include "gateway/session/transcript/request_body.h"
#include "gateway/session/transcript/spoken.h"

namespace kvgate::session::prompts {

using transcript::Kind;
using transcript::Message;
using transcript::RawObject;

namespace {

constexpr std::string_view kBreak = "\\n\\n";  // between texts, inside a JSON string
constexpr std::string_view kMark = "cache_control";
constexpr size_t kMarksMax = 4;           // of one request
constexpr size_t kMarkedBytesMin = 4096;  // of a shorter text no provider keeps a prefix

Error Wrong(std::string_view field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, "session.prompts", std::move(why),
                   std::string(field));
}

std::string_view ListNameOf(Dialect dialect) {
  return dialect == Dialect::kResponses ? "input" : "messages";
}

// The text between the quotes of a JSON string.
std::string Inner(std::string_view text) {
  std::string quoted;
  dialect::form::AppendJsonString(text, quoted);
  return quoted.substr(1, quoted.size() - 2);
}

// A JSON string of texts that are escaped already, without those that are empty.
std::string Joined(std::initializer_list<std::string_view> inner) {
  std::string out = "\"";
  for (const std::string_view text : inner) {
    if (text.empty()) continue;
    if (out.size() > 1) out += kBreak;
    out += text;
  }
  return out + '"';
}

std::string Block(std::string_view inner, bool is_marked = false) {
  return fmt::format(R"({{"type":"text","text":"{}"{}}})", inner,
                     is_marked ? R"(,"cache_control":{"type":"ephemeral"})" : "");
}

// Breakpoints are counted by their name, which a text may hold, too: then there is none too many.
bool IsMarked(const PlaceArgs& args) {
  if (!args.is_shared || args.text.size() < kMarkedBytesMin) return false;
  size_t num_marks = 0;
  for (size_t at = args.body.find(kMark); at != std::string_view::npos;
       at = args.body.find(kMark, at + kMark.size())) {
    ++num_marks;
  }
  return num_marks < kMarksMax;
}

bool IsString(std::string_view json) { return json.starts_with('"'); }
bool IsList(std::string_view json) { return json.starts_with('['); }
std::string_view InnerOf(std::string_view json) { return json.substr(1, json.size() - 2); }

std::string ListOf(const std::vector<std::string>& elements) {
  std::string list = "[";
  for (const std::string& element : elements) {
    if (list.size() > 1) list += ',';
    list += element;
  }
  return list + ']';
}

// A content, as JSON, with texts in front of it and behind it; all of them may be empty.
Result<std::string> Around(std::string_view front, std::string_view content, std::string_view back,
                           std::string_view field) {
  const std::string before = Inner(front);
  const std::string after = Inner(back);
  if (content.empty()) return Joined({before, after});
  if (IsString(content)) return Joined({before, InnerOf(content), after});
  if (!IsList(content)) {
    return Wrong(field,
                 fmt::format("Invalid type for '{}': it is a text, or a list of parts.", field));
  }
  std::vector<std::string> parts;
  if (!before.empty()) parts.push_back(Block(before + std::string(kBreak)));
  for (const std::string_view part : transcript::ElementsOf(content)) parts.emplace_back(part);
  if (!after.empty()) parts.push_back(Block(std::string(kBreak) + after));
  return ListOf(parts);
}

Result<std::string> WithBlocks(const PlaceArgs& args, const RawObject& body) {
  const std::string_view own = body.At("system");
  std::vector<std::string> blocks = {Block(Inner(args.text), IsMarked(args))};
  if (IsString(own)) {
    if (own != "\"\"") blocks.push_back(Block(InnerOf(own)));
  } else if (IsList(own)) {
    for (const std::string_view block : transcript::ElementsOf(own)) blocks.emplace_back(block);
  } else if (!own.empty()) {
    return Wrong("system", "Invalid type for 'system': it is a text, or a list of blocks.");
  }
  if (!args.values.empty()) blocks.push_back(Block(Inner(args.values)));
  const transcript::Member member{.name = "system", .value = ListOf(blocks)};
  return transcript::WithMembers(args.body, {&member, 1});
}

Result<std::string> WithInstructions(const PlaceArgs& args, const RawObject& body) {
  const std::string_view own = body.At("instructions");
  if (!own.empty() && !IsString(own)) {
    return Wrong("instructions", "Invalid type for 'instructions': it is a text.");
  }
  KVGATE_TRY(std::string text, Around(args.text, own, args.values, "instructions"));
  const transcript::Member member{.name = "instructions", .value = std::move(text)};
  return transcript::WithMembers(args.body, {&member, 1});
}

bool IsSystem(std::string_view element) {
  const std::optional<RawObject> message = RawObject::Read(element);
  if (!message) return false;
  const std::string role = message->StringAt("role");
  return role == "system" || role == "developer";
}

Result<std::string> WithSystemMessage(const PlaceArgs& args, const RawObject& body) {
  const std::vector<std::string_view> elements = transcript::ElementsOf(body.At("messages"));
  const auto num_head = static_cast<size_t>(
      std::find_if_not(elements.begin(), elements.end(), IsSystem) - elements.begin());
  std::vector<std::string> messages(elements.begin(), elements.end());
  if (num_head == 0) {
    KVGATE_TRY(const std::string content, Around(args.text, "", args.values, ""));
    messages.insert(messages.begin(), fmt::format(R"({{"role":"system","content":{}}})", content));
  }
  for (size_t i = 0; i < num_head; ++i) {
    const std::string_view front = i == 0 ? args.text : "";
    const std::string_view back = i + 1 == num_head ? args.values : "";
    if (front.empty() && back.empty()) continue;
    const std::optional<RawObject> message = RawObject::Read(elements[i]);
    KVGATE_TRY(std::string content,
               Around(front, message->At("content"), back, fmt::format("messages[{}].content", i)));
    const transcript::Member member{.name = "content", .value = std::move(content)};
    messages[i] = transcript::WithMembers(elements[i], {&member, 1});
  }
  const transcript::Member member{.name = "messages", .value = ListOf(messages)};
  return transcript::WithMembers(args.body, {&member, 1});
}

Result<RawObject> ReadBody(std::string_view text) {
  if (transcript::IsTooDeep(text)) {
    return Wrong(
        "", fmt::format("The body is nested deeper than {} levels.", transcript::kJsonDepthMax));
  }
  std::optional<RawObject> body = RawObject::Read(text);
  if (!body) return Wrong("", "The body is no JSON object.");
  return *std::move(body);
}

// An id, or an object that has it.
std::string IdAt(const RawObject& body, std::string_view name) {
  const std::optional<RawObject> object = RawObject::Read(body.At(name));
  return object ? object->StringAt("id") : body.StringAt(name);
}

// The first answer: all that the model said until somebody else speaks.
std::string FirstAnswer(std::span<const Message> messages) {
  const auto is_answer = [](const Message& m) { return m.kind == Kind::kAssistant; };
  const auto begin = std::find_if(messages.begin(), messages.end(), is_answer);
  if (begin == messages.end()) return "";
  const auto end = std::find_if_not(begin, messages.end(), is_answer);
  return "answer " + transcript::ToPlainText({begin, end});
}

}  // namespace

Result<BodyView> ViewOf(Dialect dialect, std::string_view text) {
  KVGATE_TRY(const RawObject body, ReadBody(text));
  BodyView view;
  if (dialect == Dialect::kMessages) view.has_system = !body.At("system").empty();
  if (dialect == Dialect::kResponses) {
    view.has_system = !body.At("instructions").empty();
    view.continues = IdAt(body, "previous_response_id");
    if (view.continues.empty()) view.continues = IdAt(body, "conversation");
  }
  const std::string_view field = ListNameOf(dialect);
  const std::string_view list = body.At(field);
  if (IsString(list) && dialect == Dialect::kResponses) {
    view.opening = body.StringAt(field);
    return view;
  }
  if (list.empty() && dialect == Dialect::kResponses) return view;
  if (list.empty()) {
    return Wrong(field, fmt::format("Missing required parameter: '{}'.", field));
  }
  KVGATE_TRY(const std::vector<Message> messages, transcript::ReadMessages(dialect, list, field));
  const auto first = std::find_if(messages.begin(), messages.end(),
                                  [](const Message& m) { return m.kind == Kind::kUser; });
  if (first != messages.end()) view.opening = transcript::TextOf(*first);
  view.answered = FirstAnswer(messages);
  const bool has_head = !messages.empty() && messages.front().kind == Kind::kSystem;
  view.has_system = view.has_system || (has_head && dialect != Dialect::kMessages);
  return view;
}

Result<std::string> WithPrompt(const PlaceArgs& args) {
  KVGATE_TRY(const RawObject body, ReadBody(args.body));
  if (args.dialect == Dialect::kMessages) return WithBlocks(args, body);
  if (args.dialect == Dialect::kResponses) return WithInstructions(args, body);
  return WithSystemMessage(args, body);
}

}  // namespace kvgate::session::prompts
