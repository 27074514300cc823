#include "gateway/session/compaction/written.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/session/transcript/bounded_json.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::compaction {

using transcript::Dump;
using transcript::IntegerAt;
using transcript::Json;
using transcript::Kind;
using transcript::MemberOf;
using transcript::Message;
using transcript::RawObject;
using transcript::StringAt;

namespace {

Json AnswerOf(const Compaction& compaction) {
  return transcript::ParseJson(compaction.answer).value_or(Json::object());
}

// A user's message as an item of an answer.
Json UsersItem(std::string_view json, std::string_view request_id, size_t index) {
  Json item = transcript::ParseJson(json).value_or(Json::object());
  Json out = {{"id", fmt::format("msg_kv{}_{}", request_id, index)},
              {"type", "message"},
              {"status", "completed"},
              {"role", "user"},
              {"content", item.value("content", Json())}};
  if (const std::string id = StringAt(item, "id"); !id.empty()) out["id"] = id;
  if (out["content"].is_string()) {
    out["content"] = Json::array({{{"type", "input_text"}, {"text", out["content"]}}});
  }
  return out;
}

std::string WriteCompact(const Compaction& compaction, const Written& written) {
  const Json answer = AnswerOf(compaction);
  Json output = Json::array();
  const std::optional<RawObject> body = RawObject::Read(written.body);
  const std::string_view input = body ? body->At("input") : std::string_view();
  const Result<std::vector<Message>> items =
      transcript::ReadMessages(Dialect::kResponses, input, "input");
  if (items) {
    for (const Message& item : *items) {
      if (item.kind != Kind::kUser) continue;
      output.push_back(UsersItem(item.json, compaction.request_id, output.size()));
    }
  } else if (input.starts_with('"')) {
    const std::string message = fmt::format(R"({{"content":{}}})", input);
    output.push_back(UsersItem(message, compaction.request_id, 0));
  }
  output.push_back(ItemOf(compaction));
  return Dump({{"id", MemberOf(answer, "id")},
               {"object", "response.compaction"},
               {"created_at", MemberOf(answer, "created_at")},
               {"output", std::move(output)},
               {"usage", MemberOf(answer, "usage")}});
}

std::string WriteResponse(const Compaction& compaction, bool streams) {
  const Json item = ItemOf(compaction);
  Json done = AnswerOf(compaction);
  done["status"] = "completed";
  done["incomplete_details"] = nullptr;
  done["output"] = Json::array({item});
  done["store"] = false;
  if (!streams) return Dump(done);
  Json begun = done;
  begun["status"] = "in_progress";
  begun["output"] = Json::array();
  begun["usage"] = nullptr;
  std::string out;
  int number = 0;
  const auto add = [&](const char* type, const Json& members) {
    Json event = {{"type", type}, {"sequence_number", number++}};
    event.update(members);
    AppendEvent(event, out);
  };
  add("response.created", {{"response", begun}});
  add("response.in_progress", {{"response", begun}});
  add("response.output_item.added", {{"output_index", 0}, {"item", item}});
  add("response.output_item.done", {{"output_index", 0}, {"item", item}});
  add("response.completed", {{"response", done}});
  return out;
}

// What was made on demand is signed, and stands in one event.
Json SignedBlock(const Compaction& compaction) {
  return {{"type", "compaction"},
          {"content", compaction.summary},
          {"encrypted_content", nullptr},
          {"signature", compaction.sealed}};
}

std::string WriteMessage(const Compaction& compaction, bool is_signed, bool streams) {
  const Json answer = AnswerOf(compaction);
  // What the call took stands in the iterations alone.
  const Json usage = {{"input_tokens", 0},
                      {"output_tokens", 0},
                      {"cache_creation_input_tokens", 0},
                      {"cache_read_input_tokens", 0},
                      {"iterations", Json::array({CallOf(compaction)})}};
  const Json block = is_signed ? SignedBlock(compaction) : BlockOf(compaction);
  Json message = {{"id", MemberOf(answer, "id")},
                  {"type", "message"},
                  {"role", "assistant"},
                  {"model", MemberOf(answer, "model")},
                  {"content", Json::array({block})},
                  {"stop_reason", "compaction"},
                  {"stop_sequence", nullptr},
                  {"usage", usage}};
  if (!streams) return Dump(message);
  message["content"] = Json::array();
  message["stop_reason"] = nullptr;
  message["usage"].erase("iterations");
  std::string out;
  AppendEvent({{"type", "message_start"}, {"message", message}}, out);
  if (is_signed) {
    AppendEvent({{"type", "content_block_start"}, {"index", 0}, {"content_block", block}}, out);
    AppendEvent({{"type", "content_block_stop"}, {"index", 0}}, out);
  } else {
    AppendBlock(compaction, out);
  }
  AppendEvent({{"type", "message_delta"},
               {"delta", {{"stop_reason", "compaction"}, {"stop_sequence", nullptr}}},
               {"usage", usage}},
              out);
  AppendEvent({{"type", "message_stop"}}, out);
  return out;
}

}  // namespace

std::string WriteAnswer(const Compaction& compaction, const Written& written) {
  switch (written.surface) {
    case Surface::kCompact:
      return WriteCompact(compaction, written);
    case Surface::kSummarize:
    case Surface::kPaused:
      return WriteMessage(compaction, written.surface == Surface::kSummarize, written.streams);
    default:
      return WriteResponse(compaction, written.streams);
  }
}

Json ItemOf(const Compaction& compaction) {
  return {{"id", fmt::format("cmp_kv{}", compaction.request_id)},
          {"type", "compaction"},
          {"encrypted_content", compaction.sealed}};
}

Json BlockOf(const Compaction& compaction) {
  return {{"type", "compaction"},
          {"content", compaction.summary},
          {"encrypted_content", compaction.sealed}};
}

void AppendBlock(const Compaction& compaction, std::string& out) {
  AppendEvent({{"type", "content_block_start"},
               {"index", 0},
               {"content_block",
                {{"type", "compaction"}, {"content", nullptr}, {"encrypted_content", nullptr}}}},
              out);
  AppendEvent({{"type", "content_block_delta"},
               {"index", 0},
               {"delta",
                {{"type", "compaction_delta"},
                 {"content", compaction.summary},
                 {"encrypted_content", compaction.sealed}}}},
              out);
  AppendEvent({{"type", "content_block_stop"}, {"index", 0}}, out);
}

Json CallOf(const Compaction& compaction) {
  const Json answer = AnswerOf(compaction);
  const Json& used = MemberOf(answer, "usage");
  Json call = {{"type", "compaction"}};
  for (const char* name : {"input_tokens", "output_tokens", "cache_creation_input_tokens",
                           "cache_read_input_tokens"}) {
    call[name] = IntegerAt(used, name);
  }
  call["cache_creation"] = nullptr;
  return call;
}

void AppendEvent(const Json& event, std::string& out) {
  dialect::reply::AppendNamedSseEvent(StringAt(event, "type"), Dump(event), out);
}

}  // namespace kvgate::session::compaction
