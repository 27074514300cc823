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

void Shift(Json& event, const char* name, int64_t by) {
  if (event.contains(name)) event[name] = IntegerAt(event, name) + by;
}

}  // namespace

std::string Inserter::TakeBody(std::string_view body) const {
  std::optional<Json> answer = transcript::ParseJson(body);
  if (!answer || !answer->is_object()) return std::string(body);
  const bool is_responses = compaction_.dialect == Dialect::kResponses;
  const char* const list = is_responses ? "output" : "content";
  if (!answer->contains(list) || !(*answer)[list].is_array()) return std::string(body);
  AddInFront((*answer)[list], is_responses ? ItemOf(compaction_) : BlockOf(compaction_));
  if (!is_responses && answer->contains("usage")) AddIterations(compaction_, (*answer)["usage"]);
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
  std::optional<Json> data = transcript::ParseJson(answer::DataOf(event));
  if (!data || !data->is_object()) return event;
  return compaction_.dialect == Dialect::kResponses ? ChangeResponses(*std::move(data))
                                                    : ChangeMessages(*std::move(data));
}

std::string Inserter::ChangeResponses(Json event) {
  std::string out;
  const std::string type = StringAt(event, "type");
  const bool has_failed = type == "error" || type == "response.failed";
  if (!has_failed && !IsBeginning(type)) {
    if (!std::exchange(is_inserted_, true)) {
      int64_t number = IntegerAt(event, "sequence_number");
      const Json item = ItemOf(compaction_);
      for (const char* name : {"response.output_item.added", "response.output_item.done"}) {
        AppendEvent(
            {{"type", name}, {"sequence_number", number++}, {"output_index", 0}, {"item", item}},
            out);
      }
    }
    if (event.contains("response") && event["response"].is_object()) {
      AddInFront(event["response"]["output"], ItemOf(compaction_));
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
  const std::string type = StringAt(event, "type");
  if (type.starts_with("content_block_")) Shift(event, "index", 1);
  if (type == "message_delta" && event.contains("usage")) {
    AddIterations(compaction_, event["usage"]);
  }
  AppendEvent(event, out);
  if (type == "message_start") AppendBlock(compaction_, out);
  return out;
}

}  // namespace kvgate::session::compaction
