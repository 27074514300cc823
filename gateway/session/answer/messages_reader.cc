// The answers of the Messages dialect.
#include <map>
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
using transcript::StringAt;

namespace {

// What a delta of each type continues. The input of a call comes as pieces of its JSON.
struct Continued {
  const char* type;
  const char* from;
  const char* member;
};
constexpr Continued kContinued[] = {{"text_delta", "text", "text"},
                                    {"thinking_delta", "thinking", "thinking"},
                                    {"signature_delta", "signature", "signature"},
                                    {"compaction_delta", "content", "content"},
                                    {"compaction_delta", "encrypted_content", "encrypted_content"}};

store::meta::TurnTokens TokensOf(const Json& usage) {
  const int64_t cached = transcript::IntegerAt(usage, "cache_read_input_tokens");
  return {.input = transcript::IntegerAt(usage, "input_tokens") + cached +
                   transcript::IntegerAt(usage, "cache_creation_input_tokens"),
          .cached = cached,
          .output = transcript::IntegerAt(usage, "output_tokens")};
}

class MessagesReader final : public AnswerReader {
 public:
  State OnEvent(std::string_view data) override {
    if (state_ == State::kBroken) return state_;
    const std::optional<Json> event = transcript::ParseJson(data);
    if (!event) return state_ = State::kBroken;
    const std::string type = StringAt(*event, "type");
    const size_t index = static_cast<size_t>(transcript::IntegerAt(*event, "index"));
    if (type == "error") {
      state_ = State::kBroken;
    } else if (type == "message_start") {
      TakeUsage(MemberOf(MemberOf(*event, "message"), "usage"));
    } else if (type == "content_block_start") {
      blocks_[index] = {.block = MemberOf(*event, "content_block"), .input = {}};
    } else if (type == "content_block_delta") {
      Continue(MemberOf(*event, "delta"), blocks_[index]);
    } else if (type == "message_delta") {
      TakeUsage(MemberOf(*event, "usage"));
      const std::string reason = StringAt(MemberOf(*event, "delta"), "stop_reason");
      if (!reason.empty()) state_ = reason == "refusal" ? State::kBroken : State::kEnding;
    } else if (type == "message_stop") {
      state_ = state_ == State::kEnding ? State::kComplete : State::kBroken;
    }
    return state_;
  }

  bool OnBody(std::string_view body) override {
    const std::optional<RawObject> answer = RawObject::Read(body);
    if (!answer || transcript::IsTooDeep(body)) return false;
    content_ = answer->At("content");
    if (const auto usage = transcript::ParseJson(answer->At("usage"))) TakeUsage(*usage);
    const std::string reason = answer->StringAt("stop_reason");
    return content_.starts_with('[') && !reason.empty() && reason != "refusal";
  }

  RecordedAnswer Take() override {
    if (content_.empty()) {
      Json content = Json::array();
      for (auto& [index, part] : blocks_) {
        if (part.block.is_object()) content.push_back(Finished(std::move(part)));
      }
      content_ = transcript::Dump(content);
    }
    RecordedAnswer answer{.messages = {}, .tokens = tokens_};
    const std::optional<Json> content = transcript::ParseJson(content_);
    if (!content || content->empty()) return answer;  // the dialect has no message without content
    answer.messages.push_back(
        {.kind = Kind::kAssistant, .json = R"({"role":"assistant","content":)" + content_ + "}"});
    return answer;
  }

 private:
  struct Part {
    Json block;
    std::string input;
  };

  static void Continue(const Json& delta, Part& part) {
    const std::string type = StringAt(delta, "type");
    if (type == "input_json_delta") part.input += StringAt(delta, "partial_json");
    if (!part.block.is_object()) return;
    if (type == "citations_delta") {
      Json& citations = part.block["citations"];
      if (!citations.is_array()) citations = Json::array();
      citations.push_back(MemberOf(delta, "citation"));
    }
    for (const Continued& rule : kContinued) {
      const Json& more = MemberOf(delta, rule.from);
      if (type != rule.type || !more.is_string()) continue;
      Json& known = part.block[rule.member];
      if (!known.is_string()) known = "";
      known.get_ref<std::string&>() += more.get_ref<const std::string&>();
    }
  }

  static Json Finished(Part part) {
    const std::optional<Json> input =
        part.input.empty() ? std::nullopt : transcript::ParseJson(part.input);
    if (input) part.block["input"] = *input;
    return std::move(part.block);
  }

  // The start and the end of a stream say it; each number holds until it is said again.
  void TakeUsage(const Json& usage) {
    const store::meta::TurnTokens said = TokensOf(usage);
    if (said.input > 0) {
      tokens_.input = said.input;
      tokens_.cached = said.cached;
    }
    if (said.output > 0) tokens_.output = said.output;
  }

  State state_ = State::kOpen;
  std::map<size_t, Part> blocks_;
  std::string content_;  // a JSON list, as it is written
  store::meta::TurnTokens tokens_;
};

}  // namespace

std::unique_ptr<AnswerReader> MakeMessagesReader() { return std::make_unique<MessagesReader>(); }

}  // namespace kvgate::session::answer
