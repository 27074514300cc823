#include "gateway/session/transcript/front_text.h"

#include <fmt/format.h>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::transcript {
namespace {

std::string Quoted(std::string_view text) {
  std::string json;
  dialect::form::JsonWriter(json).String(text);
  return json;
}

std::string_view TypeOf(Dialect dialect) {
  return dialect == Dialect::kResponses ? "input_text" : "text";
}

bool HasElements(std::string_view list) {
  return list.find_first_not_of(" \t\r\n", 1) != list.rfind(']');
}

// The content with the text in front; empty if it is neither text nor list.
std::string ContentWith(Dialect dialect, std::string_view text, std::string_view content) {
  if (content.starts_with('"') && dialect == Dialect::kChatCompletions) {
    std::string joined = Quoted(std::string(text) + "\n\n");
    joined.pop_back();
    return joined.append(content.substr(1));
  }
  if (content.starts_with('"')) {
    return fmt::format(R"([{},{{"type":"{}","text":{}}}])", TextBlock(dialect, text),
                       TypeOf(dialect), content);
  }
  if (!content.starts_with('[')) return "";
  return fmt::format("[{}{}{}", TextBlock(dialect, text), HasElements(content) ? "," : "",
                     content.substr(1));
}

}  // namespace

std::string TextBlock(Dialect dialect, std::string_view text) {
  return fmt::format(R"({{"type":"{}","text":{}}})", TypeOf(dialect), Quoted(text));
}

bool PutTextInFront(Dialect dialect, std::string_view text, Message& message) {
  const std::string_view json = message.json;
  const std::optional<RawObject> object = RawObject::Read(json);
  if (!object) return false;
  const std::string_view content = object->At("content");
  const std::string with = ContentWith(dialect, text, content);
  if (content.empty() || with.empty()) return false;
  // The value is a view into the message.
  const auto begin = static_cast<size_t>(content.data() - json.data());
  std::string out(json.substr(0, begin));
  out += with;
  out += json.substr(begin + content.size());
  message.json = std::move(out);
  return true;
}

void PutTextInFront(Dialect dialect, std::string_view text, std::vector<Message>& messages) {
  const bool is_user = !messages.empty() && messages.front().kind == Kind::kUser;
  if (is_user && PutTextInFront(dialect, text, messages.front())) return;
  messages.insert(messages.begin(), {.kind = Kind::kUser,
                                     .json = fmt::format(R"({{"role":"user","content":[{}]}})",
                                                         TextBlock(dialect, text))});
}

std::optional<size_t> NewestWords(std::span<const Message> messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    if (messages[i].kind != Kind::kUser) continue;
    const std::optional<RawObject> object = RawObject::Read(messages[i].json);
    const std::string_view content = object ? object->At("content") : std::string_view();
    if (content.starts_with('"') || content.starts_with('[')) return i;
  }
  return std::nullopt;
}

std::string WithoutMark(std::string_view text, std::string_view closing) {
  std::string out;
  for (size_t at = text.find(closing); at != std::string_view::npos; at = text.find(closing)) {
    out += text.substr(0, at);
    out += "< ";
    out += closing.substr(1);
    text.remove_prefix(at + closing.size());
  }
  out += text;
  return out;
}

}  // namespace kvgate::session::transcript
