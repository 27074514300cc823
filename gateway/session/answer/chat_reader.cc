// The answers of Chat Completions.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "gateway/session/answer/answer_reader.h"
#include "gateway/session/transcript/bounded_json.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::answer {

using transcript::Json;
using transcript::Kind;
using transcript::MemberOf;
using transcript::RawObject;

namespace {

// Members that name something. Chunks repeat them, while they continue the text of all others.
bool IsName(const std::string& name) {
  static constexpr std::array<std::string_view, 7> kNames = {"role", "type",   "id",  "index",
                                                             "name", "format", "mode"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void Merge(const Json& delta, Json& message);

// Elements with an index continue those of the same one; others are added.
void MergeList(const Json& delta, Json& list) {
  for (const Json& element : delta) {
    const Json& index = MemberOf(element, "index");
    const auto same = std::find_if(list.begin(), list.end(), [&](const Json& other) {
      return index.is_number() && MemberOf(other, "index") == index;
    });
    if (same == list.end()) {
      list.push_back(element);
    } else {
      Merge(element, *same);
    }
  }
}

void Merge(const Json& delta, Json& message) {
  if (!delta.is_object()) return;
  for (const auto& [name, value] : delta.items()) {
    if (value.is_null()) continue;
    Json& known = message[name];
    if (value.is_string() && known.is_string() && !IsName(name)) {
      known.get_ref<std::string&>() += value.get_ref<const std::string&>();
    } else if (value.is_array() && (known.is_array() || known.is_null())) {
      if (known.is_null()) known = Json::array();
      MergeList(value, known);
    } else if (value.is_object() && known.is_object()) {
      Merge(value, known);
    } else if (!(value.is_string() && value.get_ref<const std::string&>().empty() && IsName(name) &&
                 !known.is_null())) {
      known = value;
    }
  }
}

store::meta::TurnTokens TokensOf(const Json& usage) {
  return {
      .input = transcript::IntegerAt(usage, "prompt_tokens"),
      .cached = transcript::IntegerAt(MemberOf(usage, "prompt_tokens_details"), "cached_tokens"),
      .output = transcript::IntegerAt(usage, "completion_tokens")};
}

// Requests have no use for these, and some providers refuse them.
void Clean(Json& message) {
  for (const char* name : {"refusal", "annotations", "audio", "function_call", "tool_calls"}) {
    const Json& member = MemberOf(message, name);
    if (member.is_null() || (member.is_array() && member.empty())) message.erase(name);
  }
  if (!message.contains("tool_calls")) return;
  for (Json& call : message["tool_calls"]) {
    if (call.is_object()) call.erase("index");
  }
}

class ChatReader final : public AnswerReader {
 public:
  State OnEvent(std::string_view data) override {
    if (state_ == State::kBroken) return state_;
    if (data == "[DONE]") {
      // A stream that ends without having said why the model ended was cut.
      state_ = state_ == State::kEnding ? State::kComplete : State::kBroken;
      return state_;
    }
    const std::optional<Json> chunk = transcript::ParseJson(data);
    if (!chunk || !MemberOf(*chunk, "error").is_null()) return state_ = State::kBroken;
    if (const Json& usage = MemberOf(*chunk, "usage"); usage.is_object()) tokens_ = TokensOf(usage);
    for (const Json& choice : MemberOf(*chunk, "choices")) {
      Merge(MemberOf(choice, "delta"), message_);
      const std::string reason = transcript::StringAt(choice, "finish_reason");
      if (reason == "content_filter" || reason == "error") return state_ = State::kBroken;
      if (!reason.empty()) state_ = State::kEnding;
    }
    return state_;
  }

  bool OnBody(std::string_view body) override {
    const std::optional<Json> answer = transcript::ParseJson(body);
    if (!answer) return false;
    const Json& choices = MemberOf(*answer, "choices");
    if (!choices.is_array() || choices.empty()) return false;
    const std::string reason = transcript::StringAt(choices.front(), "finish_reason");
    message_ = MemberOf(choices.front(), "message");
    tokens_ = TokensOf(MemberOf(*answer, "usage"));
    return message_.is_object() && !reason.empty() && reason != "content_filter" &&
           reason != "error";
  }

  RecordedAnswer Take() override {
    if (!message_.contains("role")) message_["role"] = "assistant";
    Clean(message_);
    if (!message_.contains("content")) message_["content"] = nullptr;
    return {.messages = {{.kind = Kind::kAssistant, .json = transcript::Dump(message_)}},
            .tokens = tokens_};
  }

 private:
  State state_ = State::kOpen;
  Json message_ = Json::object();
  store::meta::TurnTokens tokens_;
};

}  // namespace

std::unique_ptr<AnswerReader> MakeChatReader() { return std::make_unique<ChatReader>(); }

}  // namespace kvgate::session::answer
