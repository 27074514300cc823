#include "gateway/session/compaction/inserted.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "gateway/protocol/reply_encoder.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::compaction {

using transcript::Dump;
using transcript::IntegerAt;
using transcript::Json;
using transcript::StringAt;

namespace {

// The events of Responses that announce an answer, in front of all its items.
bool IsBeginning(const std::string& type) {
  return type == "response.created" || type == "response.queued" || type == "response.in_progress";
}

constexpr int kEventsOfItem = 2;

Json ItemOf(const Insertion& insertion) {
  return {{"id", fmt::format("cmp_kv{}", insertion.request_id)},
          {"type", "compaction"},
          {"encrypted_content", insertion.sealed}};
}

Json BlockOf(const Insertion& insertion) {
  return {{"type", "compaction"},
          {"content", insertion.summary},
          {"encrypted_content", insertion.sealed}};
}

Json IterationOf(const Insertion& insertion) {
  const store::meta::TurnTokens& tokens = insertion.tokens;
  return {{"type", "compaction"},
          {"input_tokens", tokens.input - tokens.cached},
          {"output_tokens", tokens.output},
          {"cache_creation", nullptr},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", tokens.cached}};
}

// The usage of the answer, with both calls that it took.
void AddIterations(const Insertion& insertion, Json& usage) {
  if (!usage.is_object()) return;
  Json message = {{"type", "message"}};
  for (const char* name : {"input_tokens", "output_tokens", "cache_creation_input_tokens",
                           "cache_read_input_tokens"}) {
    message[name] = IntegerAt(usage, name);
  }
  usage["iterations"] = Json::array({IterationOf(insertion), message});
}

void AddInFront(Json& list, Json element) {
  if (list.is_array()) list.insert(list.begin(), std::move(element));
}

void Append(const Json& event, std::string& out) {
  protocol::AppendNamedSseEvent(StringAt(event, "type"), Dump(event), out);
}

void Shift(Json& data, const char* name, int64_t by) {
  if (data.contains(name) && data[name].is_number_integer())
    data[name] = IntegerAt(data, name) + by;
}

// The block as events; in pieces, as it is when it is written.
void AppendBlock(const Insertion& insertion, std::string& out) {
  Append({{"type", "content_block_start"},
          {"index", 0},
          {"content_block",
           {{"type", "compaction"}, {"content", nullptr}, {"encrypted_content", nullptr}}}},
         out);
  Append({{"type", "content_block_delta"},
          {"index", 0},
          {"delta",
           {{"type", "compaction_delta"},
            {"content", insertion.summary},
            {"encrypted_content", insertion.sealed}}}},
         out);
  Append({{"type", "content_block_stop"}, {"index", 0}}, out);
}

}  // namespace

std::string Inserter::TakeBody(std::string_view body) const {
  std::optional<Json> answer = transcript::ParseJson(body);
  if (!answer || !answer->is_object()) return std::string(body);
  const bool is_responses = insertion_.dialect == Dialect::kResponses;
  const char* const list = is_responses ? "output" : "content";
  if (!answer->contains(list) || !(*answer)[list].is_array()) return std::string(body);
  AddInFront((*answer)[list], is_responses ? ItemOf(insertion_) : BlockOf(insertion_));
  if (!is_responses && answer->contains("usage")) AddIterations(insertion_, (*answer)["usage"]);
  return Dump(*answer);
}

std::string Inserter::TakePiece(std::string_view piece) {
  pending_ += piece;
  std::string out;
  size_t begin = 0;
  while (true) {
    const size_t unix_end = pending_.find("\n\n", begin);
    const size_t other_end = pending_.find("\r\n\r\n", begin);
    const size_t end = std::min(unix_end, other_end);
    if (end == std::string::npos) break;
    const size_t size = end - begin + (end == unix_end ? 2 : 4);
    out += TakeEvent(std::string_view(pending_).substr(begin, size));
    begin += size;
  }
  pending_.erase(0, begin);
  return out;
}

std::string Inserter::Finish() { return TakeEvent(std::exchange(pending_, {})); }

std::string Inserter::TakeEvent(std::string_view event) {
  constexpr std::string_view kData = "data:";
  const size_t at = event.starts_with(kData) ? 0 : event.find("\ndata:");
  if (at == std::string_view::npos) return std::string(event);
  const size_t begin = at == 0 ? kData.size() : at + 1 + kData.size();
  const size_t end = std::min(event.find('\n', begin), event.size());
  std::optional<Json> data = transcript::ParseJson(event.substr(begin, end - begin));
  // More lines of data would be a JSON text over several lines, which nobody sends.
  if (!data || !data->is_object()) return std::string(event);
  std::string before;
  std::string behind;
  Change(*data, before, behind);
  return before.append(event.substr(0, begin))
             .append(" ")
             .append(Dump(*data))
             .append(event.substr(end)) +
         behind;
}

void Inserter::Change(Json& data, std::string& before, std::string& behind) {
  if (insertion_.dialect == Dialect::kResponses) {
    ChangeResponses(data, before);
  } else {
    ChangeMessages(data, behind);
  }
}

void Inserter::ChangeResponses(Json& data, std::string& before) {
  const std::string type = StringAt(data, "type");
  if (type == "error" || type == "response.failed" || IsBeginning(type)) return;
  if (!std::exchange(is_inserted_, true)) {
    const int64_t number = IntegerAt(data, "sequence_number");
    const Json item = ItemOf(insertion_);
    int64_t more = 0;
    for (const char* name : {"response.output_item.added", "response.output_item.done"}) {
      Append({{"type", name},
              {"sequence_number", number + more++},
              {"output_index", 0},
              {"item", item}},
             before);
    }
  }
  Shift(data, "sequence_number", kEventsOfItem);
  Shift(data, "output_index", 1);
  if (data.contains("response") && data["response"].is_object()) {
    AddInFront(data["response"]["output"], ItemOf(insertion_));
  }
}

void Inserter::ChangeMessages(Json& data, std::string& behind) {
  const std::string type = StringAt(data, "type");
  if (type == "message_start") AppendBlock(insertion_, behind);
  if (type.starts_with("content_block_")) Shift(data, "index", 1);
  if (type == "message_delta" && data.contains("usage")) AddIterations(insertion_, data["usage"]);
}

std::string WritePaused(const Insertion& insertion, std::string_view model, bool streams) {
  const Json usage = {{"input_tokens", 0},
                      {"output_tokens", 0},
                      {"cache_creation_input_tokens", 0},
                      {"cache_read_input_tokens", 0},
                      {"iterations", Json::array({IterationOf(insertion)})}};
  Json message = {{"id", fmt::format("msg_kv{}", insertion.request_id)},
                  {"type", "message"},
                  {"role", "assistant"},
                  {"model", model},
                  {"content", Json::array({BlockOf(insertion)})},
                  {"stop_reason", "compaction"},
                  {"stop_sequence", nullptr},
                  {"usage", usage}};
  if (!streams) return Dump(message);
  std::string out;
  message["content"] = Json::array();
  message["stop_reason"] = nullptr;
  message["usage"].erase("iterations");
  Append({{"type", "message_start"}, {"message", message}}, out);
  AppendBlock(insertion, out);
  Append({{"type", "message_delta"},
          {"delta", {{"stop_reason", "compaction"}, {"stop_sequence", nullptr}}},
          {"usage", usage}},
         out);
  Append({{"type", "message_stop"}}, out);
  return out;
}

}  // namespace kvgate::session::compaction
