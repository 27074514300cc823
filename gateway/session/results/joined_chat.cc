// Answers of Chat Completions.
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gateway/session/results/joined_form.h"
#include "gateway/session/results/read_tool.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::results {

using transcript::IntegerAt;
using transcript::Json;
using transcript::MemberOf;
using transcript::StringAt;

namespace {

// Texts of a message that a later round goes on with.
constexpr const char* kTexts[] = {"content", "reasoning_content", "reasoning"};

bool IsRead(const Json& call) { return StringAt(MemberOf(call, "function"), "name") == kReadTool; }

// True for a delta in which nothing is left to be said.
bool SaysNothing(const Json& delta) {
  if (!delta.is_object()) return true;
  for (const auto& [name, value] : delta.items()) {
    const bool is_empty = value.is_null() || (value.is_string() && value == "") ||
                          (value.is_array() && value.empty());
    if (!is_empty) return false;
  }
  return true;
}

class JoinedChat final : public JoinedForm {
 public:
  void TakeEvent(Json event, std::string& out) override {
    if (id_.empty()) id_ = StringAt(event, "id");
    if (is_later_ && event.contains("id")) event["id"] = id_;
    bool is_changed = false;
    bool ends = false;
    bool says_nothing = true;
    if (event.contains("choices") && event["choices"].is_array()) {
      for (Json& choice : event["choices"]) {
        if (!choice.is_object()) continue;
        if (choice.contains("delta")) is_changed = TakeDelta(choice["delta"]) || is_changed;
        ends = ends || !StringAt(choice, "finish_reason").empty();
        says_nothing = says_nothing && SaysNothing(MemberOf(choice, "delta"));
      }
    }
    if (ends || !held_.empty()) {
      held_.push_back(std::move(event));
    } else if (!(is_changed && says_nothing)) {
      Append(event, out);
    }
  }

  // The mark behind the last event.
  void TakeOther(std::string_view event, std::string& out) override {
    (held_.empty() ? out : mark_) += event;
  }

  void TakeBody(Json body) override {
    if (is_later_) {
      body["id"] = id_;
    } else {
      id_ = StringAt(body, "id");
    }
    Json& message = body["choices"].front()["message"];
    if (message.contains("tool_calls") && message["tool_calls"].is_array()) {
      Json calls = Json::array();
      for (Json& call : message["tool_calls"]) {
        if (!IsRead(call)) calls.push_back(std::move(call));
      }
      message["tool_calls"] = std::move(calls);
      if (message["tool_calls"].empty()) message.erase("tool_calls");
    }
    for (const char* const name : kTexts) {
      const std::string before = StringAt(texts_, name);
      if (!before.empty()) message[name] = before + StringAt(message, name);
      if (MemberOf(message, name).is_string()) texts_[name] = message[name];
    }
    body_ = std::move(body);
  }

  void BeginRound() override {
    for (const Json& event : held_) AddUsage(MemberOf(event, "usage"), usage_);
    AddUsage(MemberOf(body_, "usage"), usage_);
    held_.clear();
    mark_.clear();
    hidden_.clear();
    shown_.clear();
    is_later_ = true;
  }

  std::string Finish(bool is_cut) override {
    std::string out;
    for (Json& event : held_) {
      if (MemberOf(event, "usage").is_object()) AddUsage(usage_, event["usage"]);
      if (is_cut) Cut(event);
      Append(event, out);
    }
    return out + mark_;
  }

  Json JoinBodies(bool is_cut) override {
    if (MemberOf(body_, "usage").is_object()) AddUsage(usage_, body_["usage"]);
    if (is_cut) Cut(body_);
    return std::move(body_);
  }

 private:
  static void Append(const Json& event, std::string& out) {
    out += "data: " + transcript::Dump(event) + "\n\n";
  }

  static void Cut(Json& answer) {
    if (!MemberOf(answer, "choices").is_array()) return;
    for (Json& choice : answer["choices"]) {
      if (!StringAt(choice, "finish_reason").empty()) choice["finish_reason"] = "stop";
    }
  }

  // Returns true if something was taken out.
  bool TakeDelta(Json& delta) {
    if (!delta.is_object()) return false;
    const bool had_role = is_later_ && delta.erase("role") > 0;
    if (!MemberOf(delta, "tool_calls").is_array()) return had_role;
    Json calls = Json::array();
    for (Json& call : delta["tool_calls"]) {
      const int64_t index = IntegerAt(call, "index");
      if (IsRead(call)) hidden_.insert(index);
      if (hidden_.contains(index)) continue;
      const auto [place, is_new] = shown_.try_emplace(index, next_index_);
      if (is_new) ++next_index_;
      call["index"] = place->second;
      calls.push_back(std::move(call));
    }
    const bool is_shorter = calls.size() < delta["tool_calls"].size();
    delta["tool_calls"] = std::move(calls);
    if (delta["tool_calls"].empty()) delta.erase("tool_calls");
    return is_shorter || had_role;
  }

  std::string id_;  // of the first round
  bool is_later_ = false;
  std::vector<Json> held_;  // the end of the round
  std::string mark_;
  std::set<int64_t> hidden_;          // indices of calls of the round
  std::map<int64_t, int64_t> shown_;  // the caller's indices of the others
  int64_t next_index_ = 0;
  Json usage_ = Json::object();  // of the rounds before
  Json texts_ = Json::object();  // of the rounds so far
  Json body_;
};

}  // namespace

std::unique_ptr<JoinedForm> MakeJoinedChat() { return std::make_unique<JoinedChat>(); }

}  // namespace kvgate::session::results
