// The answers of the Responses dialect, whose output items are the input items of later requests.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "gateway/session/answer/answer_reader.h"
#include "gateway/session/transcript/bounded_json.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::answer {

using transcript::Json;
using transcript::MemberOf;
using transcript::RawObject;

namespace {

store::meta::TurnTokens TokensOf(const Json& usage) {
  return {.input = transcript::IntegerAt(usage, "input_tokens"),
          .cached = transcript::IntegerAt(MemberOf(usage, "input_tokens_details"), "cached_tokens"),
          .output = transcript::IntegerAt(usage, "output_tokens")};
}

class ResponsesReader final : public AnswerReader {
 public:
  State OnEvent(std::string_view data) override {
    if (state_ == State::kBroken) return state_;
    const std::optional<RawObject> event = RawObject::Read(data);
    if (!event || transcript::IsTooDeep(data)) return state_ = State::kBroken;
    const std::string type = event->StringAt("type");
    if (type == "response.output_item.done") {
      items_[event->IntegerAt("output_index")] = std::string(event->At("item"));
    } else if (type == "response.completed" || type == "response.incomplete") {
      state_ = ReadResponse(event->At("response")) ? State::kComplete : State::kBroken;
    } else if (type == "response.failed" || type == "error") {
      state_ = State::kBroken;
    }
    return state_;
  }

  bool OnBody(std::string_view body) override {
    return !transcript::IsTooDeep(body) && ReadResponse(body);
  }

  RecordedAnswer Take() override {
    if (output_.empty() || output_ == "[]") {
      std::string list = "[";
      for (const auto& [index, item] : items_) {
        if (list.size() > 1) list += ',';
        list += item;
      }
      output_ = list + "]";
    }
    RecordedAnswer answer{.messages = {}, .tokens = tokens_};
    auto messages = transcript::ReadMessages(Dialect::kResponses, output_, "output");
    if (messages) answer.messages = *std::move(messages);
    return answer;
  }

 private:
  // Returns false if the response failed or was cancelled.
  bool ReadResponse(std::string_view json) {
    const std::optional<RawObject> response = RawObject::Read(json);
    if (!response) return false;
    const std::string status = response->StringAt("status");
    if (status != "completed" && status != "incomplete") return false;
    const auto why = RawObject::Read(response->At("incomplete_details"));
    if (why && why->StringAt("reason") == "content_filter") return false;
    output_ = response->At("output");
    if (const auto usage = transcript::ParseJson(response->At("usage"))) tokens_ = TokensOf(*usage);
    return true;
  }

  State state_ = State::kOpen;
  std::map<int64_t, std::string> items_;
  std::string output_;  // a JSON list, as it is written
  store::meta::TurnTokens tokens_;
};

}  // namespace

std::unique_ptr<AnswerReader> MakeResponsesReader() { return std::make_unique<ResponsesReader>(); }

}  // namespace kvgate::session::answer
