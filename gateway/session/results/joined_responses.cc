// Answers of the Responses dialect.
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

bool IsRead(const Json& item) {
  return StringAt(item, "type") == "function_call" && StringAt(item, "name") == kReadTool;
}

// A response says the tools of its request again.
void HideTool(Json& response) {
  if (!MemberOf(response, "tools").is_array()) return;
  Json tools = Json::array();
  for (Json& tool : response["tools"]) {
    if (StringAt(tool, "name") != kReadTool) tools.push_back(std::move(tool));
  }
  response["tools"] = std::move(tools);
}

class JoinedResponses final : public JoinedForm {
 public:
  void TakeEvent(Json event, std::string& out) override {
    const std::string type = StringAt(event, "type");
    if (MemberOf(event, "response").is_object()) {
      if (id_.empty()) id_ = StringAt(event["response"], "id");
      HideTool(event["response"]);
    }
    if (type == "response.completed" || type == "response.incomplete") {
      held_.push_back(std::move(event));
      return;
    }
    const bool is_beginning =
        type == "response.created" || type == "response.queued" || type == "response.in_progress";
    if (is_later_ && is_beginning) return;
    if (event.contains("output_index")) {
      const int64_t index = IntegerAt(event, "output_index");
      if (type == "response.output_item.added" && !IsRead(MemberOf(event, "item"))) {
        shown_[index] = next_index_++;
      }
      const auto place = shown_.find(index);
      if (place == shown_.end()) return;
      event["output_index"] = place->second;
      if (type == "response.output_item.done") output_.push_back(event["item"]);
    }
    Send(std::move(event), out);
  }

  void TakeBody(Json body) override {
    if (is_later_) {
      body["id"] = id_;
    } else {
      id_ = StringAt(body, "id");
    }
    TakeOutput(body);
    HideTool(body);
    body_ = std::move(body);
  }

  void BeginRound() override {
    for (Json& event : held_) AddEnd(event);
    AddUsage(MemberOf(body_, "usage"), usage_);
    held_.clear();
    shown_.clear();
    num_before_ = output_.size();
    is_later_ = true;
  }

  std::string Finish(bool /*is_cut*/) override {
    std::string out;
    for (Json& event : held_) {
      Json& response = event["response"];
      if (!response.is_object()) response = Json::object();
      // A stream need not say its items one by one.
      if (output_.size() == num_before_) TakeOutput(response);
      response["output"] = output_;
      if (is_later_) {
        response["id"] = id_;
        if (MemberOf(response, "usage").is_object()) AddUsage(usage_, response["usage"]);
      }
      Send(std::move(event), out);
    }
    return out;
  }

  Json JoinBodies(bool /*is_cut*/) override {
    if (MemberOf(body_, "usage").is_object()) AddUsage(usage_, body_["usage"]);
    body_["output"] = std::move(output_);
    return std::move(body_);
  }

 private:
  void Send(Json event, std::string& out) {
    if (event.contains("sequence_number")) event["sequence_number"] = next_number_++;
    AppendEvent(event, out);
  }

  // Adds the items of a response that the caller gets.
  void TakeOutput(const Json& response) {
    const Json& output = MemberOf(response, "output");
    if (!output.is_array()) return;
    for (const Json& item : output) {
      if (!IsRead(item)) output_.push_back(item);
    }
  }

  void AddEnd(Json& event) {
    const Json& response = MemberOf(event, "response");
    if (output_.size() == num_before_) TakeOutput(response);
    AddUsage(MemberOf(response, "usage"), usage_);
  }

  std::string id_;  // of the first round
  bool is_later_ = false;
  std::vector<Json> held_;
  std::map<int64_t, int64_t> shown_;  // the caller's indices of items of the round
  int64_t next_index_ = 0;
  int64_t next_number_ = 0;
  Json output_ = Json::array();  // of all rounds, as the caller gets it
  size_t num_before_ = 0;        // of those, items of the rounds before
  Json usage_ = Json::object();  // of the rounds before
  Json body_;
};

}  // namespace

std::unique_ptr<JoinedForm> MakeJoinedResponses() { return std::make_unique<JoinedResponses>(); }

}  // namespace kvgate::session::results
