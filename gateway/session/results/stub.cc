#include "gateway/session/results/stub.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/digest.h"
#include "base/utf8.h"
#include "gateway/session/results/read_tool.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::results {

using transcript::Json;
using transcript::Kind;
using transcript::MemberOf;
using transcript::StringAt;

namespace {

constexpr size_t kIdDigits = 16;

std::string StubOf(std::string_view text, std::string_view id, size_t bytes_max) {
  const std::string_view beginning = PartOf(text, 0, bytes_max * 3 / 8);
  const std::string_view end = PartOf(text, text.size() - bytes_max / 8, text.size());
  return fmt::format(
      "{}\n[... bytes {} to {} of {} are kept and not shown. To read more, call {} with "
      "{{\"id\":\"{}\"}} and an \"offset\", or a text to \"find\". ...]\n{}",
      beginning, beginning.size(), text.size() - end.size(), text.size(), kReadTool, id, end);
}

bool IsText(const Json& block) {
  const std::string type = StringAt(block, "type");
  return type == "text" || type == "input_text" || type == "output_text";
}

class Stubbing {
 public:
  Stubbing(size_t bytes_max, std::vector<log::KeptResult>& kept)
      : bytes_max_(bytes_max), kept_(kept) {}

  // Returns true if it has changed the content of a result: a text, or a list of blocks.
  bool Change(Json& content) {
    if (content.is_string()) {
      const std::string text = content.get<std::string>();
      if (text.size() <= bytes_max_) return false;
      content = Keep(text);
      return true;
    }
    if (!content.is_array()) return false;
    std::string text;
    for (const Json& block : content) {
      if (IsText(block)) text += StringAt(block, "text");
    }
    if (text.size() <= bytes_max_) return false;
    // The first block of text has the stub, and the others are in it.
    Json blocks = Json::array();
    bool has_stub = false;
    for (Json& block : content) {
      if (IsText(block)) {
        if (std::exchange(has_stub, true)) continue;
        block["text"] = Keep(text);
      }
      blocks.push_back(std::move(block));
    }
    content = std::move(blocks);
    return true;
  }

 private:
  std::string Keep(const std::string& text) {
    const std::string id = IdOf(text);
    const bool is_known = std::any_of(kept_.begin(), kept_.end(),
                                      [&](const log::KeptResult& one) { return one.id == id; });
    if (!is_known) kept_.push_back({.id = id, .text = text});
    return StubOf(text, id, bytes_max_);
  }

  const size_t bytes_max_;
  std::vector<log::KeptResult>& kept_;
};

// Returns true if something of the message was changed.
bool ChangeMessage(Dialect dialect, Json& message, Stubbing& stubbing) {
  if (dialect == Dialect::kResponses) {
    const bool is_result = StringAt(message, "type").ends_with("_output");
    return is_result && message.contains("output") && stubbing.Change(message["output"]);
  }
  if (!message.contains("content")) return false;
  Json& content = message["content"];
  if (dialect == Dialect::kChatCompletions) return stubbing.Change(content);
  bool is_changed = false;
  if (!content.is_array()) return false;
  for (Json& block : content) {
    if (StringAt(block, "type") != "tool_result" || !block.contains("content")) continue;
    is_changed = stubbing.Change(block["content"]) || is_changed;
  }
  return is_changed;
}

}  // namespace

std::string IdOf(std::string_view text) {
  const PrefixDigest digest = ThreadSha256().Update(text).Finish();
  return "res_" + ToHex(digest.bytes).substr(0, kIdDigits);
}

std::string_view PartOf(std::string_view text, size_t begin, size_t end) {
  end = std::min(end, text.size());
  begin = std::min(begin, end);
  while (begin < end && IsUtf8Continuation(text[begin])) ++begin;
  while (end > begin && end < text.size() && IsUtf8Continuation(text[end])) --end;
  return text.substr(begin, end - begin);
}

void StubResults(Dialect dialect, size_t bytes_max, std::vector<Message>& messages,
                 std::vector<log::KeptResult>& kept) {
  Stubbing stubbing(bytes_max, kept);
  for (Message& message : messages) {
    // Most are short.
    if (message.kind != Kind::kTool || message.json.size() <= bytes_max) continue;
    std::optional<Json> json = transcript::ParseJson(message.json);
    if (!json || !json->is_object()) continue;
    if (ChangeMessage(dialect, *json, stubbing)) message.json = transcript::Dump(*json);
  }
}

}  // namespace kvgate::session::results
