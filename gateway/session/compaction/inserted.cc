#include "gateway/session/compaction/inserted.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "gateway/session/answer/answer_recorder.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::compaction {

using transcript::Dump;
using transcript::IntegerAt;
using transcript::Json;
using transcript::StringAt;

namespace {

constexpr int kEventsOfItem = 2;

// The events of Responses that announce an answer, in front of all its items.
bool IsBeginning(const std::string& type) {
  return type == "response.created" || type == "response.queued" || type == "response.in_progress";
}

// The usage of the answer, with both calls that it took.
void AddIterations(const Compaction& compaction, Json& usage) {
  if (!usage.is_object()) return;
  Json message = {{"type", "message"}};
  for (const char* name : {"input_tokens", "output_tokens", "cache_creation_input_tokens",
                           "cache_read_input_tokens"}) {
    message[name] = IntegerAt(usage, name);
  }
  usage["iterations"] = Json::array({CallOf(compaction), message});
}

void AddInFront(Json& list, Json element) {
  if (list.is_array()) list.insert(list.begin(), std::move(element));
}

// What the edits did, where answers say it; whoever answered may have said what it did itself.
void AddEdits(const std::vector<AppliedEdit>& edits, Json& answer) {
  if (!transcript::MemberOf(answer, "context_management").is_null()) return;
  int64_t num_tokens = 0;
  Json list = Json::array();
  for (const AppliedEdit& edit : edits) {
    const bool clears_thinking = edit.type == kClearThinking;
    list.push_back(
        {{"type", edit.type},
         {clears_thinking ? "cleared_thinking_turns" : "cleared_tool_uses", edit.num_cleared},
         {"cleared_input_tokens", edit.num_tokens}});
    num_tokens += edit.num_tokens;
  }
  const bool is_count = !answer.contains("usage") && answer.contains("input_tokens");
  answer["context_management"] =
      is_count ? Json{{"original_input_tokens", IntegerAt(answer, "input_tokens") + num_tokens}}
               : Json{{"applied_edits", std::move(list)}};
}

void Shift(Json& event, const char* name, int64_t by) {
  if (event.contains(name)) event[name] = IntegerAt(event, name) + by;
}

}  // namespace

std::string Inserter::TakeBody(std::string_view body) const {
  std::optional<Json> answer = transcript::ParseJson(body);
  if (!answer || !answer->is_object()) return std::string(body);
  const bool is_responses = insertion_->dialect == Dialect::kResponses;
  const char* const list = is_responses ? "output" : "content";
  const bool is_answer = answer->contains(list) && (*answer)[list].is_array();
  const bool takes_edits = insertion_->edits && (is_answer || answer->contains("input_tokens"));
  if (!is_answer && !takes_edits) return std::string(body);
  if (takes_edits) AddEdits(*insertion_->edits, *answer);
  if (insertion_->compaction && is_answer) {
    const Compaction& compaction = *insertion_->compaction;
    AddInFront((*answer)[list], is_responses ? ItemOf(compaction) : BlockOf(compaction));
    if (!is_responses && answer->contains("usage")) AddIterations(compaction, (*answer)["usage"]);
  }
  return Dump(*answer);
}

std::string Inserter::TakePiece(std::string_view piece) {
  std::string out;
  events_.Add(piece);
  while (const std::optional<std::string> event = events_.Next()) out += TakeEvent(*event);
  // An upstream whose event never ends takes no more memory than this.
  if (events_.num_pending() > answer::kAnswerBytesMax) out += events_.TakeRest();
  return out;
}

std::string Inserter::Finish() { return TakeEvent(events_.TakeRest()); }

std::string Inserter::TakeEvent(const std::string& event) {
  // Most events pass as they are, unread.
  if (!insertion_->compaction && event.find("message_delta") == std::string::npos) return event;
  std::optional<Json> data = transcript::ParseJson(answer::DataOf(event));
  if (!data || !data->is_object()) return event;
  return insertion_->dialect == Dialect::kResponses ? ChangeResponses(*std::move(data))
                                                    : ChangeMessages(*std::move(data));
}

std::string Inserter::ChangeResponses(Json event) {
  std::string out;
  const Compaction& compaction = *insertion_->compaction;
  const std::string type = StringAt(event, "type");
  const bool has_failed = type == "error" || type == "response.failed";
  if (!has_failed && !IsBeginning(type)) {
    if (!std::exchange(is_inserted_, true)) {
      int64_t number = IntegerAt(event, "sequence_number");
      const Json item = ItemOf(compaction);
      for (const char* name : {"response.output_item.added", "response.output_item.done"}) {
        AppendEvent(
            {{"type", name}, {"sequence_number", number++}, {"output_index", 0}, {"item", item}},
            out);
      }
    }
    if (event.contains("response") && event["response"].is_object()) {
      AddInFront(event["response"]["output"], ItemOf(compaction));
    }
  }
  if (is_inserted_) {
    Shift(event, "sequence_number", kEventsOfItem);
    Shift(event, "output_index", 1);
  }
  AppendEvent(event, out);
  return out;
}

std::string Inserter::ChangeMessages(Json event) const {
  std::string out;
  const std::optional<Compaction>& compaction = insertion_->compaction;
  const std::string type = StringAt(event, "type");
  if (compaction && type.starts_with("content_block_")) Shift(event, "index", 1);
  if (type == "message_delta") {
    if (compaction && event.contains("usage")) AddIterations(*compaction, event["usage"]);
    if (insertion_->edits) AddEdits(*insertion_->edits, event);
  }
  AppendEvent(event, out);
  if (compaction && type == "message_start") AppendBlock(*compaction, out);
  return out;
}

}  // namespace kvgate::session::compaction
