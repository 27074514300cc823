// Answers of Messages.
#include <map>
#include <utility>
#include <vector>

#include "gateway/session/compaction/written.h"
#include "gateway/session/results/joined_form.h"
#include "gateway/session/results/read_tool.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::results {

using compaction::AppendEvent;
using transcript::IntegerAt;
using transcript::Json;
using transcript::MemberOf;
using transcript::StringAt;

namespace {

// What the end of an answer says of the input, which its beginning has said of the first round.
constexpr const char* kInputs[] = {"input_tokens", "cache_creation_input_tokens",
                                   "cache_read_input_tokens"};

bool IsRead(const Json& block) {
  return StringAt(block, "type") == "tool_use" && StringAt(block, "name") == kReadTool;
}

class JoinedMessages final : public JoinedForm {
 public:
  void TakeEvent(Json event, std::string& out) override {
    const std::string type = StringAt(event, "type");
    if (type == "message_start") {
      start_ = MemberOf(MemberOf(event, "message"), "usage");
      if (!is_later_) AppendEvent(event, out);
    } else if (type.starts_with("content_block_")) {
      TakeBlock(type == "content_block_start", std::move(event), out);
    } else if (type == "message_delta" || type == "message_stop") {
      held_.push_back(std::move(event));
    } else {
      AppendEvent(event, out);
    }
  }

  void TakeBody(Json body) override {
    if (is_later_) {
      body["id"] = MemberOf(body_, "id");
    }
    for (Json& block : body["content"]) {
      if (!IsRead(block)) content_.push_back(std::move(block));
    }
    start_ = MemberOf(body, "usage");
    body_ = std::move(body);
  }

  void BeginRound() override {
    AddRound();
    held_.clear();
    shown_.clear();
    is_later_ = true;
  }

  std::string Finish(bool is_cut) override {
    if (is_later_) AddRound();
    std::string out;
    for (Json& event : held_) {
      if (StringAt(event, "type") == "message_delta") {
        if (is_later_ && MemberOf(event, "usage").is_object()) TellUsage(event["usage"]);
        if (is_cut && event.contains("delta")) event["delta"]["stop_reason"] = "end_turn";
      }
      AppendEvent(event, out);
    }
    return out;
  }

  Json JoinBodies(bool is_cut) override {
    if (is_later_) {
      AddRound();
      TellUsage(body_["usage"]);
    }
    body_["content"] = std::move(content_);
    if (is_cut) body_["stop_reason"] = "end_turn";
    return std::move(body_);
  }

 private:
  void TakeBlock(bool is_start, Json event, std::string& out) {
    const int64_t index = IntegerAt(event, "index");
    if (is_start && !IsRead(MemberOf(event, "content_block"))) shown_[index] = next_index_++;
    const auto place = shown_.find(index);
    if (place == shown_.end()) return;
    event["index"] = place->second;
    AppendEvent(event, out);
  }

  // Adds the usage of the round that has ended. Its end says the output, and may say the input,
  // where its beginning need not.
  void AddRound() {
    Json usage = std::exchange(start_, Json());
    if (!usage.is_object()) usage = Json::object();
    for (const Json& event : held_) {
      const Json& end = MemberOf(event, "usage");
      if (!end.is_object()) continue;
      for (const auto& [name, value] : end.items()) usage[name] = value;
    }
    AddUsage(usage, usage_);
  }

  // Puts the usage of all rounds in the place of the last one's.
  void TellUsage(Json& usage) const {
    usage["output_tokens"] = IntegerAt(usage_, "output_tokens");
    for (const char* const name : kInputs) {
      if (usage_.contains(name)) usage[name] = usage_[name];
    }
  }

  bool is_later_ = false;
  std::vector<Json> held_;
  std::map<int64_t, int64_t> shown_;  // the caller's indices of blocks of the round
  int64_t next_index_ = 0;
  Json start_;                   // the usage at the beginning of the round
  Json usage_ = Json::object();  // of the rounds that have ended
  Json content_ = Json::array();
  Json body_ = Json::object();
};

}  // namespace

std::unique_ptr<JoinedForm> MakeJoinedMessages() { return std::make_unique<JoinedMessages>(); }

}  // namespace kvgate::session::results
