#include "gateway/session/compaction/summary_request.h"

#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "gateway/protocol/reply_encoder.h"
#include "gateway/session/summary/summary_call.h"
#include "gateway/session/transcript/bounded_json.h"
#include "gateway/session/transcript/raw_object.h"
#include "gateway/session/transcript/request_body.h"

namespace kvgate::session::compaction {

using summary::SummaryPrompt;
using transcript::Dump;
using transcript::Json;
using transcript::Kind;
using transcript::Member;
using transcript::MemberOf;
using transcript::Message;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session";

Error Nothing(Dialect dialect) {
  const bool is_messages = dialect == Dialect::kMessages;
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   is_messages
                       ? "compaction_nothing_to_summarize: there is nothing to be summarised."
                       : "There is nothing to be compacted: 'input' has no items.",
                   is_messages ? "messages" : "input");
}

// What comes before is kept by the gateway or by the upstream, and is summarised there.
Result<std::string> WriteChained(const SummaryRequest& args, const RawObject& body,
                                 const SummaryPrompt& prompt) {
  const std::string_view input = body.At("input");
  std::vector<Message> messages;
  if (input.starts_with('[')) {
    KVGATE_TRY(messages, transcript::ReadMessages(args.dialect, input, "input"));
  } else if (!input.empty()) {
    messages.push_back({.json = fmt::format(R"({{"role":"user","content":{}}})", input)});
  }
  const Json ask = {{"role", "user"}, {"content", prompt.Ask({.tokens_max = args.tokens_max})}};
  messages.push_back({.json = Dump(ask)});
  const std::vector<Member> members = {
      {.name = "input", .value = transcript::ToList(messages)},
      {.name = "max_output_tokens", .value = std::to_string(args.tokens_max)},
      {.name = "stream", .value = "false"},
      {.name = "stream_options"},
      {.name = "store", .value = "false"}};
  return transcript::WithMembers(args.body, members);
}

// A limit that its caller set holds for the summary, as at the provider; what may be thought is
// added to it again.
int64_t TokensMaxOf(const SummaryRequest& args, const RawObject& body,
                    const transcript::RequestBody& read) {
  if (args.dialect != Dialect::kMessages || read.output_tokens <= 0) return args.tokens_max;
  const std::optional<RawObject> thinking = RawObject::Read(body.At("thinking"));
  const int64_t budget = thinking ? thinking->IntegerAt("budget_tokens") : 0;
  return budget > 0 && budget < read.output_tokens ? read.output_tokens - budget
                                                   : read.output_tokens;
}

Json ItemOf(const Written& written) {
  return {{"id", fmt::format("cmp_kv{}", written.request_id)},
          {"type", "compaction"},
          {"encrypted_content", written.sealed}};
}

// A user's message as an item of an answer.
Json UsersItem(std::string_view json, std::string_view request_id, size_t index) {
  Json item = transcript::ParseJson(json).value_or(Json::object());
  Json out = {{"id", fmt::format("msg_kv{}_{}", request_id, index)},
              {"type", "message"},
              {"status", "completed"},
              {"role", "user"},
              {"content", item.value("content", Json())}};
  if (const std::string id = transcript::StringAt(item, "id"); !id.empty()) out["id"] = id;
  if (out["content"].is_string()) {
    out["content"] = Json::array({{{"type", "input_text"}, {"text", out["content"]}}});
  }
  return out;
}

std::string WriteCompact(const Written& written, const Json& answer) {
  Json output = Json::array();
  const std::optional<RawObject> body = RawObject::Read(written.body);
  const std::string_view input = body ? body->At("input") : std::string_view();
  const Result<std::vector<Message>> items =
      transcript::ReadMessages(Dialect::kResponses, input, "input");
  if (items) {
    for (const Message& item : *items) {
      if (item.kind != Kind::kUser) continue;
      output.push_back(UsersItem(item.json, written.request_id, output.size()));
    }
  } else if (input.starts_with('"')) {
    const std::string message = fmt::format(R"({{"content":{}}})", input);
    output.push_back(UsersItem(message, written.request_id, 0));
  }
  output.push_back(ItemOf(written));
  return Dump({{"id", MemberOf(answer, "id")},
               {"object", "response.compaction"},
               {"created_at", MemberOf(answer, "created_at")},
               {"output", std::move(output)},
               {"usage", MemberOf(answer, "usage")}});
}

// The events of a stream, numbered as Responses does.
class ResponseEvents {
 public:
  void Add(const char* type, const char* name, const Json& value, bool has_index = false) {
    Json event = {{"type", type}, {"sequence_number", num_++}};
    if (has_index) event["output_index"] = 0;
    event[name] = value;
    protocol::AppendNamedSseEvent(type, Dump(event), out);
  }
  std::string out;

 private:
  int num_ = 0;
};

std::string WriteResponse(const Written& written, Json answer) {
  const Json item = ItemOf(written);
  answer["status"] = "completed";
  answer["incomplete_details"] = nullptr;
  answer["output"] = Json::array({item});
  answer["store"] = false;
  if (!written.streams) return Dump(answer);
  Json begun = answer;
  begun["status"] = "in_progress";
  begun["output"] = Json::array();
  begun["usage"] = nullptr;
  ResponseEvents events;
  events.Add("response.created", "response", begun);
  events.Add("response.in_progress", "response", begun);
  events.Add("response.output_item.added", "item", item, true);
  events.Add("response.output_item.done", "item", item, true);
  events.Add("response.completed", "response", answer);
  return std::move(events.out);
}

std::string WriteMessage(const Written& written, const Json& answer) {
  const Json block = {{"type", "compaction"},
                      {"content", written.summary},
                      {"encrypted_content", nullptr},
                      {"signature", written.sealed}};
  Json call = {{"type", "compaction"}};
  const Json& used = MemberOf(answer, "usage");
  for (const char* name : {"input_tokens", "output_tokens", "cache_creation_input_tokens",
                           "cache_read_input_tokens"}) {
    call[name] = transcript::IntegerAt(used, name);
  }
  call["cache_creation"] = nullptr;
  // What the call took stands in the iterations alone.
  const Json usage = {{"input_tokens", 0},
                      {"output_tokens", 0},
                      {"cache_creation_input_tokens", 0},
                      {"cache_read_input_tokens", 0},
                      {"iterations", Json::array({call})}};
  Json message = {{"id", MemberOf(answer, "id")},
                  {"type", "message"},
                  {"role", "assistant"},
                  {"model", MemberOf(answer, "model")},
                  {"content", Json::array({block})},
                  {"stop_reason", "compaction"},
                  {"stop_sequence", nullptr},
                  {"usage", usage}};
  if (!written.streams) return Dump(message);
  std::string out;
  const auto add = [&](const char* type, Json event) {
    event["type"] = type;
    protocol::AppendNamedSseEvent(type, Dump(event), out);
  };
  Json begun = message;
  begun["content"] = Json::array();
  begun["stop_reason"] = nullptr;
  begun["usage"].erase("iterations");
  add("message_start", {{"message", begun}});
  add("content_block_start", {{"index", 0}, {"content_block", block}});
  add("content_block_stop", {{"index", 0}});
  add("message_delta",
      {{"delta", {{"stop_reason", "compaction"}, {"stop_sequence", nullptr}}}, {"usage", usage}});
  add("message_stop", Json::object());
  return out;
}

}  // namespace

Result<std::string> WriteRequest(const SummaryRequest& args) {
  const std::string asking = WithoutAsking(args.dialect, args.body);
  const std::optional<RawObject> body = RawObject::Read(asking);
  if (!body) return Nothing(args.dialect);
  const SummaryPrompt prompt = SummaryPrompt::OfWhole(args.instructions);
  if (!body->At("previous_response_id").empty()) {
    return WriteChained({.dialect = args.dialect, .body = asking, .tokens_max = args.tokens_max},
                        *body, prompt);
  }
  KVGATE_TRY(const transcript::RequestBody read, transcript::ReadBody(args.dialect, asking));
  if (read.messages.empty()) return Nothing(args.dialect);
  return summary::MakeCall({.dialect = args.dialect,
                            .body = asking,
                            .frame = read.frame,
                            .messages = read.messages,
                            .folded = read.messages,
                            .prompt = prompt,
                            .tokens_max = TokensMaxOf(args, *body, read),
                            .only_part = args.only_part})
      .body;
}

Result<log::Summary> ReadSummary(Dialect dialect, std::string_view answer) {
  return summary::ReadAnswer(dialect, answer, std::numeric_limits<int64_t>::max());
}

std::string WriteAnswer(const Written& written) {
  const Json answer = transcript::ParseJson(written.answer).value_or(Json::object());
  if (written.surface == Surface::kCompact) return WriteCompact(written, answer);
  if (written.surface == Surface::kSummarize) return WriteMessage(written, answer);
  return WriteResponse(written, answer);
}

}  // namespace kvgate::session::compaction
