#include "gateway/session/log/logged_turn.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/session/transcript/bounded_json.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::log {

using dialect::form::JsonWriter;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session.log";
constexpr std::string_view kRole = "session.turn";
// What an earlier version would misread: it refuses a role that it does not know.
constexpr std::string_view kRoleOfEvents = "session.turn.2";
constexpr std::string_view kRoleOfMemory = "session.turn.3";

std::string_view RoleOf(const LoggedTurn& turn) {
  if (turn.memory || turn.recalled || !turn.results.empty()) return kRoleOfMemory;
  const bool has_summary = turn.compaction && turn.compaction->summary;
  return has_summary || !turn.is_turn() ? kRoleOfEvents : kRole;
}

void WriteFrame(const Frame& frame, JsonWriter& json) {
  json.Key("frame").BeginObject();
  if (!frame.system.empty()) json.Key("system").Raw(frame.system);
  if (!frame.tools.empty()) json.Key("tools").Raw(frame.tools);
  json.Key("head").Raw(transcript::ToList(frame.head));
  json.EndObject();
}

void WriteSummary(const Summary& summary, JsonWriter& json) {
  json.Key("summary").BeginObject().Key("text").String(summary.text);
  json.Key("model").String(summary.model).Key("prompt").String(summary.prompt);
  json.Key("request_id").String(summary.request_id);
  json.Key("input").Integer(summary.tokens.input).Key("cached").Integer(summary.tokens.cached);
  json.Key("output").Integer(summary.tokens.output);
  if (summary.nanodollars) json.Key("nanodollars").Integer(*summary.nanodollars);
  json.EndObject();
}

void WriteCompaction(const Compaction& compaction, JsonWriter& json) {
  json.Key("compaction").BeginObject();
  json.Key("from_turn").String(compaction.from_turn);
  json.Key("from_message").Unsigned(compaction.from_message);
  json.Key("messages").Unsigned(compaction.num_messages);
  json.Key("tokens_before").Integer(compaction.tokens_before);
  json.Key("tokens_after").Integer(compaction.tokens_after);
  if (compaction.summary) WriteSummary(*compaction.summary, json);
  if (compaction.is_fold) json.Key("is_fold").Integer(1);
  json.Key("kept").Raw(transcript::ToList(compaction.kept));
  json.EndObject();
}

void WriteMemory(const LoggedTurn& turn, JsonWriter& json) {
  if (turn.memory) {
    json.Key("memory").BeginObject().Key("whole").Integer(turn.memory->is_whole ? 1 : 0);
    json.Key("facts");
    memory::WriteEntries(turn.memory->entries, json);
    json.EndObject();
  }
  if (turn.recalled) {
    json.Key("recalled").BeginObject().Key("text").String(turn.recalled->text);
    json.Key("passages").BeginArray();
    for (const std::string& passage : turn.recalled->passages) json.String(passage);
    json.EndArray().EndObject();
  }
}

void WriteResults(const LoggedTurn& turn, JsonWriter& json) {
  if (turn.results.empty()) return;
  json.Key("results").BeginArray();
  for (const KeptResult& result : turn.results) {
    json.BeginObject().Key("id").String(result.id).Key("text").String(result.text).EndObject();
  }
  json.EndArray();
}

void ReadResults(const RawObject& object, LoggedTurn& turn) {
  for (const std::string_view element : transcript::ElementsOf(object.At("results"))) {
    const auto result = RawObject::Read(element);
    if (!result) continue;
    turn.results.push_back({.id = result->StringAt("id"), .text = result->StringAt("text")});
  }
}

void WriteSkeleton(const LoggedTurn& turn, JsonWriter& json) {
  if (turn.skeleton && !turn.skeleton->empty()) json.Key("request").Raw(*turn.skeleton);
}

void WritePrompt(const LoggedTurn& turn, JsonWriter& json) {
  if (!turn.prompt) return;
  json.Key("named_prompt").BeginObject().Key("name").String(turn.prompt->name);
  json.Key("version").String(turn.prompt->version);
  if (!turn.prompt->values.empty()) json.Key("values").Raw(turn.prompt->values);
  json.EndObject();
}

std::optional<TurnPrompt> ReadPrompt(const RawObject& object) {
  const auto prompt = RawObject::Read(object.At("named_prompt"));
  if (!prompt) return std::nullopt;
  return TurnPrompt{.name = prompt->StringAt("name"),
                    .version = prompt->StringAt("version"),
                    .values = std::string(prompt->At("values"))};
}

std::optional<std::string> ReadSkeleton(const RawObject& object) {
  const std::string_view skeleton = object.At("request");
  return skeleton.empty() ? std::nullopt : std::optional(std::string(skeleton));
}

// All that is not a field of every stored turn.
void WriteFields(const LoggedTurn& turn, JsonWriter& json) {
  json.Key("depth").Unsigned(turn.depth).Key("model").String(turn.model);
  json.Key("prompt_bytes").Unsigned(turn.prompt_bytes);
  if (turn.frame) WriteFrame(*turn.frame, json);
  WriteSkeleton(turn, json);
  WritePrompt(turn, json);
  if (turn.compaction) WriteCompaction(*turn.compaction, json);
  if (!turn.undoes.empty()) json.Key("undoes").String(turn.undoes);
  WriteMemory(turn, json);
  WriteResults(turn, json);
  json.Key("input").Raw(transcript::ToList(turn.input));
  json.Key("answer").Raw(transcript::ToList(turn.answer));
}

Result<std::vector<Message>> MessagesAt(Dialect dialect, const RawObject& object,
                                        std::string_view name) {
  const std::string_view list = object.At(name);
  if (list.empty()) return std::vector<Message>();
  return transcript::ReadMessages(dialect, list, name);
}

uint64_t UnsignedAt(const RawObject& object, std::string_view name) {
  return static_cast<uint64_t>(std::max<int64_t>(0, object.IntegerAt(name)));
}

Result<Frame> ReadFrame(Dialect dialect, const RawObject& object) {
  Frame frame{.system = std::string(object.At("system")),
              .tools = std::string(object.At("tools")),
              .head = {}};
  KVGATE_TRY(frame.head, MessagesAt(dialect, object, "head"));
  return frame;
}

Summary ReadSummary(const RawObject& object) {
  Summary summary{.text = object.StringAt("text"),
                  .model = object.StringAt("model"),
                  .prompt = object.StringAt("prompt"),
                  .request_id = object.StringAt("request_id"),
                  .tokens = {.input = object.IntegerAt("input"),
                             .cached = object.IntegerAt("cached"),
                             .output = object.IntegerAt("output")}};
  if (!object.At("nanodollars").empty()) summary.nanodollars = object.IntegerAt("nanodollars");
  return summary;
}

Result<Compaction> ReadCompaction(Dialect dialect, const RawObject& object) {
  Compaction compaction{.from_turn = object.StringAt("from_turn"),
                        .from_message = UnsignedAt(object, "from_message"),
                        .kept = {},
                        .num_messages = UnsignedAt(object, "messages"),
                        .tokens_before = object.IntegerAt("tokens_before"),
                        .tokens_after = object.IntegerAt("tokens_after"),
                        .summary = {},
                        .is_fold = object.IntegerAt("is_fold") == 1};
  if (const auto summary = RawObject::Read(object.At("summary"))) {
    compaction.summary = ReadSummary(*summary);
  }
  KVGATE_TRY(compaction.kept, MessagesAt(dialect, object, "kept"));
  return compaction;
}

Result<std::optional<Compaction>> ReadEvent(Dialect dialect, const RawObject& object) {
  const auto event = RawObject::Read(object.At("compaction"));
  if (!event) return std::optional<Compaction>();
  KVGATE_TRY(Compaction compaction, ReadCompaction(dialect, *event));
  return std::optional(std::move(compaction));
}

Result<void> ReadMemory(const RawObject& object, LoggedTurn& turn) {
  if (const auto memory = RawObject::Read(object.At("memory"))) {
    turn.memory = memory::Shown{.is_whole = memory->IntegerAt("whole") == 1};
    KVGATE_TRY(turn.memory->entries, memory::ReadEntries(memory->At("facts"), "memory.facts"));
  }
  if (const auto recalled = RawObject::Read(object.At("recalled"))) {
    turn.recalled = Recalled{.text = recalled->StringAt("text")};
    for (const std::string_view passage : transcript::ElementsOf(recalled->At("passages"))) {
      turn.recalled->passages.push_back(prompt::parse::TextOrJson(passage));
    }
  }
  return {};
}

Result<LoggedTurn> Read(Dialect dialect, const RawObject& object) {
  LoggedTurn turn{.id = {},
                  .parent = {},
                  .model = object.StringAt("model"),
                  .depth = UnsignedAt(object, "depth"),
                  .prompt_bytes = UnsignedAt(object, "prompt_bytes"),
                  .frame = {},
                  .skeleton = ReadSkeleton(object),
                  .prompt = ReadPrompt(object),
                  .input = {},
                  .answer = {},
                  .compaction = {},
                  .memory = {},
                  .recalled = {},
                  .results = {},
                  .undoes = object.StringAt("undoes"),
                  .tokens = {}};
  KVGATE_TRY(turn.input, MessagesAt(dialect, object, "input"));
  KVGATE_TRY(turn.answer, MessagesAt(dialect, object, "answer"));
  if (const auto frame = RawObject::Read(object.At("frame"))) {
    KVGATE_TRY(turn.frame, ReadFrame(dialect, *frame));
  }
  KVGATE_TRY(turn.compaction, ReadEvent(dialect, object));
  KVGATE_TRY_VOID(ReadMemory(object, turn));
  ReadResults(object, turn);
  return turn;
}

}  // namespace

std::string_view NameOf(Dialect dialect) {
  if (dialect == Dialect::kMessages) return "messages";
  return dialect == Dialect::kResponses ? "responses" : "chat";
}

std::optional<Dialect> DialectNamed(std::string_view name) {
  for (const Dialect dialect :
       {Dialect::kChatCompletions, Dialect::kMessages, Dialect::kResponses}) {
    if (NameOf(dialect) == name) return dialect;
  }
  return std::nullopt;
}

std::vector<store::meta::TurnItem> ToItems(const LoggedTurn& turn) {
  std::string payload;
  JsonWriter json(payload);
  json.BeginObject();
  WriteFields(turn, json);
  if (!turn.attempt.empty()) json.Key("attempt").String(turn.attempt);
  if (turn.kv_block != BlockHash()) json.Key("kv_block").String(ToHex(turn.kv_block));
  json.EndObject();
  return {{.role = std::string(RoleOf(turn)), .payload = std::move(payload)}};
}

Result<LoggedTurn> FromStored(Dialect dialect, const store::meta::Turn& stored) {
  Result<LoggedTurn> turn = MakeError(ErrorCode::kInternal, kSource, "");
  const std::string_view role =
      stored.items.size() == 1 ? std::string_view(stored.items.front().role) : std::string_view();
  if (role == kRole || role == kRoleOfEvents || role == kRoleOfMemory) {
    const auto object = RawObject::Read(stored.items.front().payload);
    if (object) turn = Read(dialect, *object);
    const Result<BlockHash> block =
        object ? ParseBlockHash(object->StringAt("kv_block")) : BlockHash();
    if (turn && block) turn->kv_block = *block;
    if (turn) turn->attempt = object->StringAt("attempt");
  }
  if (!turn) {
    return MakeError(ErrorCode::kDataLoss, kSource,
                     fmt::format("the turn '{}' is not of a session's form", stored.id));
  }
  turn->id = stored.id;
  turn->parent = stored.parent;
  turn->created_us = stored.created_us;
  turn->tokens = stored.tokens;
  return turn;
}

store::meta::TurnItem ToNote(const LoggedTurn& turn) {
  std::string payload;
  JsonWriter json(payload);
  json.BeginObject().Key("depth").Unsigned(turn.depth).Key("model").String(turn.model);
  json.Key("prompt_bytes").Unsigned(turn.prompt_bytes);
  WriteSkeleton(turn, json);
  WritePrompt(turn, json);
  if (turn.compaction) WriteCompaction(*turn.compaction, json);
  if (turn.kv_block != BlockHash()) json.Key("kv_block").String(ToHex(turn.kv_block));
  json.EndObject();
  return {.role = std::string(kNoteRole), .payload = std::move(payload)};
}

Result<void> ReadNote(Dialect dialect, std::string_view note, LoggedTurn& turn) {
  const auto object = RawObject::Read(note);
  if (!object) return MakeError(ErrorCode::kDataLoss, kSource, "a note is no JSON object");
  turn.depth = UnsignedAt(*object, "depth");
  turn.model = object->StringAt("model");
  turn.prompt_bytes = UnsignedAt(*object, "prompt_bytes");
  turn.skeleton = ReadSkeleton(*object);
  turn.prompt = ReadPrompt(*object);
  KVGATE_TRY(turn.compaction, ReadEvent(dialect, *object));
  if (const std::string block = object->StringAt("kv_block"); !block.empty()) {
    KVGATE_TRY(turn.kv_block, ParseBlockHash(block));
  }
  return {};
}

std::string ToLine(const LoggedTurn& turn) {
  std::string line;
  JsonWriter json(line);
  json.BeginObject();
  json.Key("id").String(turn.id).Key("parent").String(turn.parent);
  json.Key("created_us").Integer(turn.created_us);
  json.Key("tokens").BeginObject();
  json.Key("input").Integer(turn.tokens.input).Key("cached").Integer(turn.tokens.cached);
  json.Key("output").Integer(turn.tokens.output).EndObject();
  WriteFields(turn, json);
  json.EndObject();
  // Line breaks stand only between values, where a space means the same.
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line;
}

Result<LoggedTurn> FromLine(Dialect dialect, std::string_view line) {
  const std::optional<RawObject> object =
      transcript::IsTooDeep(line) ? std::nullopt : RawObject::Read(line);
  if (!object) return MakeError(ErrorCode::kInvalidArgument, kSource, "It is no JSON object.");
  KVGATE_TRY(LoggedTurn turn, Read(dialect, *object));
  turn.id = object->StringAt("id");
  turn.parent = object->StringAt("parent");
  turn.created_us = object->IntegerAt("created_us");
  if (const auto tokens = RawObject::Read(object->At("tokens"))) {
    turn.tokens = {.input = tokens->IntegerAt("input"),
                   .cached = tokens->IntegerAt("cached"),
                   .output = tokens->IntegerAt("output")};
  }
  const bool is_event = turn.compaction || !turn.undoes.empty();
  if (turn.id.empty() || (!turn.is_turn() && !is_event)) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     "A turn of a session has an id and an input.");
  }
  return turn;
}

}  // namespace kvgate::session::log
