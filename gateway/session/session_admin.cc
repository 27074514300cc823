#include "gateway/session/session_admin.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/session/log/history.h"
#include "gateway/session/memory/memory_admin.h"
#include "gateway/session/transcript/bounded_json.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session {

using dialect::form::JsonWriter;
using log::LoggedTurn;
using log::SessionLog;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session";
constexpr size_t kPageMax = 100;
constexpr int64_t kMicroseconds = 1'000'000;
constexpr int64_t kExportVersion = 3;  // 1 knew of no summaries, 2 of no memory; both are read

bool IsVersion(int64_t version) { return version >= 1 && version <= kExportVersion; }

Error Wrong(std::string_view field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(why), std::string(field));
}

Result<uint64_t> NumberOf(std::string_view text, std::string_view field, uint64_t unset,
                          uint64_t most) {
  if (text.empty()) return unset;
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < 1 || number > most) {
    return Wrong(field,
                 fmt::format("Invalid value for '{}': it is a number from 1 to {}.", field, most));
  }
  return number;
}

void WriteSession(const SessionLog::Root& root, const std::optional<LoggedTurn>& head,
                  JsonWriter& json) {
  json.Key("key").String(root.key).Key("dialect").String(log::NameOf(root.dialect));
  json.Key("created_at").Integer(root.created_us / kMicroseconds);
  json.Key("updated_at");
  json.Integer((head ? head->created_us : root.created_us) / kMicroseconds);
  json.Key("turns").Unsigned(head ? head->depth : 0).Key("head");
  head ? json.String(head->id) : json.Null();
  json.Key("model").String(head ? head->model : "");
}

void WriteSummary(const log::Summary& summary, JsonWriter& json) {
  json.Key("summary").BeginObject().Key("text").String(summary.text);
  json.Key("model").String(summary.model).Key("prompt").String(summary.prompt);
  json.Key("request_id").String(summary.request_id);
  json.Key("tokens").BeginObject().Key("input").Integer(summary.tokens.input);
  json.Key("cached").Integer(summary.tokens.cached);
  json.Key("output").Integer(summary.tokens.output).EndObject();
  json.Key("nanodollars");
  summary.nanodollars ? json.Integer(*summary.nanodollars) : json.Null();
  json.EndObject();
}

// The bounds that the configuration sets; those that follow from a model's context are left out.
void WriteWindow(const window::Settings& settings, JsonWriter& json) {
  constexpr std::string_view kModes[] = {"summary", "hard", "off"};
  json.Key("window").BeginObject();
  json.Key("mode").String(kModes[static_cast<size_t>(settings.mode)]);
  if (settings.low > 0) json.Key("low").Integer(settings.low);
  if (settings.high > 0) json.Key("high").Integer(settings.high);
  if (settings.hard > 0) json.Key("hard").Integer(settings.hard);
  json.EndObject();
}

void WriteCompaction(const log::Compaction& event, JsonWriter& json) {
  json.BeginObject().Key("mode").String(event.is_fold ? "summary" : "hard");
  json.Key("messages_left_out").Unsigned(event.num_messages);
  json.Key("tokens_before").Integer(event.tokens_before);
  json.Key("tokens_after").Integer(event.tokens_after);
  if (event.is_fold && event.summary) WriteSummary(*event.summary, json);
  json.EndObject();
}

void WriteTurn(const LoggedTurn& turn, JsonWriter& json) {
  json.BeginObject().Key("id").String(turn.id).Key("parent");
  turn.parent.empty() ? json.Null() : json.String(turn.parent);
  json.Key("created_at").Integer(turn.created_us / kMicroseconds);
  json.Key("model").String(turn.model);
  json.Key("tokens").BeginObject().Key("input").Integer(turn.tokens.input);
  json.Key("cached").Integer(turn.tokens.cached);
  json.Key("output").Integer(turn.tokens.output).EndObject();
  json.Key("compaction");
  if (turn.compaction) {
    WriteCompaction(*turn.compaction, json);
  } else {
    json.Null();
  }
  if (!turn.undoes.empty()) json.Key("undoes").String(turn.undoes);
  if (turn.memory) {
    json.Key("memory").BeginObject().Key("is_whole").Bool(turn.memory->is_whole).Key("facts");
    memory::WriteEntries(turn.memory->entries, json);
    json.EndObject();
  }
  if (turn.recalled) json.Key("recalled").String(turn.recalled->text);
  if (!turn.results.empty()) json.Key("results").BeginArray();
  for (const log::KeptResult& result : turn.results) {
    json.BeginObject().Key("id").String(result.id);
    json.Key("bytes").Unsigned(result.text.size()).EndObject();
  }
  if (!turn.results.empty()) json.EndArray();
  json.Key("input").Raw(transcript::ToList(turn.input));
  json.Key("answer").Raw(transcript::ToList(turn.answer)).EndObject();
}

}  // namespace

Result<std::shared_ptr<void>> SessionAdmin::Hold(const Place& place, std::string_view request_id) {
  SessionLog::Place at = place;
  auto outcome = sessions_.TryLock(
      {.tenant = at.tenant, .key = at.key, .turn = log::TurnIdOf(request_id), .on_free = {}});
  if (!outcome.lock) return sessions_.Refuse(place.key, outcome.turn);
  return std::move(outcome.lock);
}

Result<std::string> SessionAdmin::MemoryOf(const Place& place) const {
  memory::MemoryBook* const book = sessions_.memory().book();
  if (book == nullptr) return std::string();
  KVGATE_TRY(const memory::Memory kept, book->Get({.tenant = place.tenant, .session = place.key}));
  return kept.is_empty() ? std::string() : memory::ToBody(kept);
}

Result<void> SessionAdmin::SetMemory(const Place& place, std::string_view body) const {
  memory::MemoryBook* const book = sessions_.memory().book();
  if (book == nullptr || body.empty()) return {};
  const auto set = [&](memory::Memory& kept) { return memory::ReadBody(body, kept); };
  KVGATE_TRY(const memory::Memory kept,
             book->Update({.tenant = place.tenant, .session = place.key}, set));
  return {};
}

Result<std::string> SessionAdmin::Describe(const Place& place) const {
  const SessionLog& kept = sessions_.session_log();
  KVGATE_TRY(const SessionLog::Root root, kept.Find(place));
  KVGATE_TRY(const auto head, kept.Head(place, root));
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  WriteSession(root, head, json);
  json.EndObject();
  return out;
}

Result<std::string> SessionAdmin::List(std::string_view tenant, const PageArgs& page) const {
  KVGATE_TRY(const uint64_t limit, NumberOf(page.limit, "limit", 20, kPageMax));
  KVGATE_TRY(const uint64_t before, NumberOf(page.before, "before", 0, UINT64_MAX));
  const SessionLog& kept = sessions_.session_log();
  KVGATE_TRY(const SessionLog::Page found, kept.List(tenant, limit, before));
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const SessionLog::Root& root : found.sessions) {
    KVGATE_TRY(const auto head, kept.Head({.tenant = tenant, .key = root.key}, root));
    json.BeginObject();
    WriteSession(root, head, json);
    json.EndObject();
  }
  json.EndArray().Key("has_more").Bool(found.has_more).Key("next");
  found.has_more ? json.String(std::to_string(found.next)) : json.Null();
  json.EndObject();
  return out;
}

Result<std::string> SessionAdmin::Show(const Place& place, const PageArgs& page) const {
  KVGATE_TRY(const uint64_t limit, NumberOf(page.limit, "limit", kPageMax, kPageMax));
  const SessionLog& kept = sessions_.session_log();
  KVGATE_TRY(const SessionLog::Root root, kept.Find(place));
  KVGATE_TRY(const auto head, kept.Head(place, root));
  std::vector<LoggedTurn> turns;
  if (head) {
    KVGATE_TRY(turns, kept.Load(place, root, head->id, SessionLog::Reach::kThere));
  }
  const uint64_t num_left_out = log::HistoryOf(turns).num_left_out;
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  WriteSession(root, head, json);
  json.Key("messages_left_out").Unsigned(num_left_out);
  WriteWindow(sessions_.window(), json);
  json.Key("data").BeginArray();
  const size_t first = turns.size() - std::min<size_t>(turns.size(), limit);
  for (size_t i = first; i < turns.size(); ++i) WriteTurn(turns[i], json);
  json.EndArray().Key("has_more").Bool(first > 0).EndObject();
  return out;
}

Result<uint64_t> SessionAdmin::RemoveWhole(const Place& place, std::string_view request_id) {
  SessionLog& kept = sessions_.session_log();
  KVGATE_TRY(const SessionLog::Root root, kept.Find(place));
  KVGATE_TRY(const auto lock, Hold({.tenant = place.tenant, .key = root.key}, request_id));
  // The newest first: with its KV goes that of the turns before it. A session that cannot be read
  // is removed all the same.
  std::vector<BlockHash> blocks;
  if (forget_) {
    (void)kept.ForEach(place, root, [&](const LoggedTurn& turn) {
      if (turn.kv_block != BlockHash()) blocks.push_back(turn.kv_block);
    });
  }
  KVGATE_TRY_VOID(kept.Remove(place));
  KVGATE_TRY_VOID(sessions_.memory().Forget({.tenant = place.tenant, .key = root.key}));
  uint64_t num_records = 0;
  for (const BlockHash& block : blocks) num_records += forget_(block);
  return num_records;
}

Result<std::string> SessionAdmin::Remove(const Place& place, std::string_view request_id) {
  KVGATE_TRY(const uint64_t num_records, RemoveWhole(place, request_id));
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("key").String(place.key).Key("deleted").Bool(true);
  json.Key("kv_records").Unsigned(num_records).EndObject();
  return out;
}

Result<std::string> SessionAdmin::Purge(std::string_view tenant, std::string_view request_id) {
  uint64_t num_removed = 0;
  uint64_t num_held = 0;
  uint64_t num_records = 0;
  uint64_t before = 0;
  // From the front again until nothing goes: each time, more of other gateways may have come.
  for (bool has_removed = false, has_more = true; has_more;) {
    KVGATE_TRY(const SessionLog::Page page, sessions_.session_log().List(tenant, kPageMax, before));
    for (const SessionLog::Root& root : page.sessions) {
      const Result<uint64_t> removed = RemoveWhole({.tenant = tenant, .key = root.key}, request_id);
      const bool is_held = !removed && removed.error().source == dialect::form::kSessionSource;
      if (!removed && !is_held && removed.error().code != ErrorCode::kNotFound) {
        return removed.error();
      }
      num_removed += removed ? 1 : 0;
      num_records += removed ? *removed : 0;
      num_held += is_held ? 1 : 0;
      has_removed |= removed.has_value();
    }
    before = page.has_more ? page.next : 0;
    has_more = before != 0 || std::exchange(has_removed, false);
    if (before == 0 && has_more) num_held = 0;
  }
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("deleted").Unsigned(num_removed);
  json.Key("in_use").Unsigned(num_held).Key("kv_records").Unsigned(num_records).EndObject();
  return out;
}

Result<std::string> SessionAdmin::Fork(const Place& place, std::string_view body,
                                       std::string_view request_id) {
  const std::optional<RawObject> asked =
      transcript::IsTooDeep(body) ? std::nullopt : RawObject::Read(body);
  if (!asked) return Wrong("", "The body is no JSON object.");
  const std::string key = asked->StringAt("key");
  std::string turn = asked->StringAt("turn");
  KVGATE_TRY_VOID(CheckKey(key, "key"));
  const SessionLog& kept = sessions_.session_log();
  KVGATE_TRY(const SessionLog::Root root, kept.Find(place));
  if (turn.empty()) {
    KVGATE_TRY(const auto head, kept.Head(place, root));
    if (head) turn = head->id;
  }
  KVGATE_TRY(const std::vector<LoggedTurn> all, kept.All(place, root));
  const bool is_there = std::any_of(all.begin(), all.end(),
                                    [&](const LoggedTurn& other) { return other.id == turn; });
  if (!turn.empty() && !is_there) {
    return Wrong("turn", fmt::format("Session '{}' has no turn '{}'.", place.key, turn));
  }
  std::vector<LoggedTurn> turns;
  if (is_there) {
    KVGATE_TRY(turns, kept.Load(place, root, turn, SessionLog::Reach::kBranch));
  }
  const Place at{.tenant = place.tenant, .key = key};
  KVGATE_TRY(const auto lock, Hold(at, request_id));
  KVGATE_TRY_VOID(sessions_.session_log().Create({.place = at,
                                                  .dialect = root.dialect,
                                                  .turns = log::WithoutSilent(std::move(turns)),
                                                  .request_id = request_id}));
  KVGATE_TRY(const std::string memory, MemoryOf({.tenant = place.tenant, .key = root.key}));
  KVGATE_TRY_VOID(SetMemory(at, memory));
  return Describe(at);
}

Result<std::string> SessionAdmin::Undo(const Place& place, std::string_view request_id) {
  SessionLog& kept = sessions_.session_log();
  KVGATE_TRY(const SessionLog::Root root, kept.Find(place));
  KVGATE_TRY(const auto lock, Hold({.tenant = place.tenant, .key = root.key}, request_id));
  const log::SharedTurns::Seen seen = kept.SeenOf(place);
  KVGATE_TRY(const auto head, kept.Head(place, root));
  std::string undone;
  if (head) {
    KVGATE_TRY(const std::vector<LoggedTurn> turns,
               kept.Load(place, root, head->id, SessionLog::Reach::kBranch));
    undone = log::HistoryOf(turns).event;
  }
  if (undone.empty()) return Wrong("", "Nothing is left out of this session's prompt.");
  const Result<void> added = kept.Append(place, root.dialect,
                                         {.id = log::TurnIdOf(request_id),
                                          .parent = head->id,
                                          .model = head->model,
                                          .depth = head->depth,
                                          .undoes = undone},
                                         seen);
  if (!added && added.error().code == ErrorCode::kCancelled) return sessions_.Refuse(place.key, {});
  if (!added) return added.error();
  // Else the next turn would make the same again.
  sessions_.folds().PutOff({.tenant = std::string(place.tenant), .key = std::string(place.key)},
                           head->depth);
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("key").String(place.key).Key("undone").String(undone).EndObject();
  return out;
}

Result<std::string> SessionAdmin::Export(const Place& place) const {
  const SessionLog& kept = sessions_.session_log();
  KVGATE_TRY(const SessionLog::Root root, kept.Find(place));
  KVGATE_TRY(std::vector<LoggedTurn> all, kept.All(place, root));
  const std::vector<LoggedTurn> turns = log::WithoutSilent(std::move(all));
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("kvgate_session").Integer(kExportVersion);
  json.Key("key").String(root.key).Key("dialect").String(log::NameOf(root.dialect));
  json.Key("created_at").Integer(root.created_us / kMicroseconds);
  json.Key("turns").Unsigned(turns.size());
  KVGATE_TRY(const std::string memory, MemoryOf({.tenant = place.tenant, .key = root.key}));
  if (!memory.empty()) json.Key("memory").Raw(memory);
  json.EndObject();
  out += '\n';
  for (const LoggedTurn& turn : turns) {
    out += log::ToLine(turn);
    out += '\n';
  }
  return out;
}

Result<std::string> SessionAdmin::Import(const Place& place, std::string_view lines,
                                         std::string_view request_id) {
  std::string key(place.key);
  std::optional<log::Dialect> dialect;
  std::vector<LoggedTurn> turns;
  uint64_t num_turns = 0;
  std::string memory;
  for (size_t number = 1; !lines.empty(); ++number) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (!dialect) {
      const auto head = RawObject::Read(line);
      if (head && IsVersion(head->IntegerAt("kvgate_session"))) {
        dialect = log::DialectNamed(head->StringAt("dialect"));
        if (key.empty()) key = head->StringAt("key");
        memory = head->At("memory");
        num_turns = static_cast<uint64_t>(std::max<int64_t>(0, head->IntegerAt("turns")));
      }
      if (!dialect) return Wrong("", fmt::format("Line {} begins no exported session.", number));
      continue;
    }
    Result<LoggedTurn> turn = log::FromLine(*dialect, line);
    if (!turn) return Wrong("", fmt::format("Line {}: {}", number, turn.error().detail));
    turns.push_back(*std::move(turn));
  }
  if (!dialect || turns.size() != num_turns) {
    return Wrong("",
                 fmt::format("It has {} turns of {}: it is not whole.", turns.size(), num_turns));
  }
  KVGATE_TRY_VOID(CheckKey(key, "key"));
  const Place at{.tenant = place.tenant, .key = key};
  KVGATE_TRY(const auto lock, Hold(at, request_id));
  KVGATE_TRY_VOID(sessions_.session_log().Create(
      {.place = at, .dialect = *dialect, .turns = turns, .request_id = request_id}));
  KVGATE_TRY_VOID(SetMemory(at, memory));
  return Describe(at);
}

}  // namespace kvgate::session
