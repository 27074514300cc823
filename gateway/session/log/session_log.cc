#include "gateway/session/log/session_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "gateway/protocol/form/json_writer.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::log {

using store::meta::Turn;

namespace {

constexpr std::string_view kSource = "session.log";
// The first turn of each session's tree, which lists it, and is as old as the tree.
constexpr std::string_view kRootPrefix = "session-root:";
constexpr std::string_view kRootsSession = "session-roots";
constexpr std::string_view kRootRole = "session.root";
constexpr std::string_view kTurnsPrefix = "session:";
constexpr size_t kPageTurns = 1000;
constexpr size_t kTurnsMax = 1'000'000;
constexpr uint64_t kChainBytesMax = uint64_t{256} << 20;

std::string RootIdOf(std::string_view key) { return fmt::format("{}{}", kRootPrefix, key); }
std::string TurnsOf(std::string_view key) { return fmt::format("{}{}", kTurnsPrefix, key); }

Error Missing(std::string_view key) {
  return MakeError(ErrorCode::kNotFound, kSource,
                   fmt::format("Session '{}' not found.", key.substr(0, kKeyBytesMax)));
}

Result<SessionLog::Root> ReadRoot(const Turn& turn) {
  std::optional<transcript::RawObject> object;
  if (turn.items.size() == 1 && turn.items.front().role == kRootRole) {
    object = transcript::RawObject::Read(turn.items.front().payload);
  }
  const std::optional<Dialect> dialect =
      object ? DialectNamed(object->StringAt("dialect")) : std::nullopt;
  if (!dialect) {
    return MakeError(ErrorCode::kDataLoss, kSource,
                     fmt::format("'{}' is not the root of a session", turn.id));
  }
  return SessionLog::Root{.key = object->StringAt("key"),
                          .dialect = *dialect,
                          .created_us = turn.created_us,
                          .order = turn.order};
}

// The root is no turn of the session.
Result<LoggedTurn> ReadTurn(Dialect dialect, const Turn& stored) {
  KVGATE_TRY(LoggedTurn turn, FromStored(dialect, stored));
  if (turn.parent.starts_with(kRootPrefix)) turn.parent.clear();
  return turn;
}

Turn RootTurn(const SessionLog::Place& place, Dialect dialect) {
  std::string payload;
  protocol::form::JsonWriter json(payload);
  json.BeginObject().Key("key").String(place.key);
  json.Key("dialect").String(NameOf(dialect)).EndObject();
  return {.id = RootIdOf(place.key),
          .parent = {},
          .tenant = std::string(place.tenant),
          .session = std::string(kRootsSession),
          .items = {{.role = std::string(kRootRole), .payload = std::move(payload)}},
          .tokens = {},
          .content = {}};
}

Turn StoredTurn(const SessionLog::Place& place, const LoggedTurn& turn) {
  return {.id = turn.id,
          .parent = turn.parent.empty() ? RootIdOf(place.key) : turn.parent,
          .tenant = std::string(place.tenant),
          .session = TurnsOf(place.key),
          .items = ToItems(turn),
          .tokens = turn.tokens,
          .content = {}};
}

}  // namespace

std::string TurnIdOf(std::string_view request_id) { return fmt::format("turn_{}", request_id); }

Error SessionLog::NotKept() {
  return MakeError(ErrorCode::kUnsupported, kSource,
                   "Sessions need stored turns, which this server does not keep (store.turns, "
                   "store.disk). With x-kvgate-session-mode: recognise the key is only used to "
                   "recognise the conversation.",
                   "x-kvgate-session");
}

Result<SessionLog::Root> SessionLog::Find(const Place& place) const {
  if (turns_ == nullptr) return Missing(place.key);
  const Result<Turn> turn = turns_->Get(place.tenant, RootIdOf(place.key));
  if (!turn && turn.error().code == ErrorCode::kNotFound) return Missing(place.key);
  if (!turn) return turn.error();
  return ReadRoot(*turn);
}

Result<std::optional<LoggedTurn>> SessionLog::Head(const Place& place, const Root& root) const {
  const std::string session = TurnsOf(place.key);
  KVGATE_TRY(const store::meta::TurnPage page,
             turns_->List({.tenant = place.tenant, .session = session, .limit = 1}));
  if (page.turns.empty()) return std::optional<LoggedTurn>();
  KVGATE_TRY(LoggedTurn head, ReadTurn(root.dialect, page.turns.front()));
  return std::optional(std::move(head));
}

Result<std::vector<LoggedTurn>> SessionLog::Load(const Place& place, const Root& root,
                                                 std::string_view id, Reach reach) const {
  std::vector<LoggedTurn> turns;  // the newest first
  std::optional<std::string> from;
  std::set<std::string> undone;
  std::optional<Error> failure;
  // Decodes each turn as it is met, and says when the branch is known as far back as it is needed.
  const auto is_first = [&](const Turn& stored) {
    if (stored.id.starts_with(kRootPrefix)) return true;
    Result<LoggedTurn> turn = ReadTurn(root.dialect, stored);
    if (!turn) {
      failure = turn.error();
      return true;
    }
    undone.insert(turn->undoes);
    if (reach == Reach::kPrompt && turn->compaction && !from && !undone.contains(turn->id)) {
      from = turn->compaction->from_turn.empty() ? turn->id : turn->compaction->from_turn;
    }
    turns.push_back(*std::move(turn));
    return from == turns.back().id;
  };
  const auto chain = turns_->Chain({.tenant = place.tenant,
                                    .id = id,
                                    .turns_max = kTurnsMax,
                                    .bytes_max = kChainBytesMax,
                                    .is_first = is_first});
  if (!chain) return chain.error();
  if (failure) return *failure;
  std::reverse(turns.begin(), turns.end());
  return turns;
}

Result<void> SessionLog::Append(const Place& place, Dialect dialect, const LoggedTurn& turn) {
  if (!keeps()) return NotKept();
  const Result<Root> root = Find(place);
  if (!root && root.error().code != ErrorCode::kNotFound) return root.error();
  std::vector<Turn> turns;
  if (!root) turns.push_back(RootTurn(place, dialect));
  turns.push_back(StoredTurn(place, turn));
  return turns_->AppendAll(std::move(turns));
}

Result<void> SessionLog::Create(const CreateArgs& args) {
  if (!keeps()) return NotKept();
  if (Find(args.place)) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     fmt::format("There is a session '{}' already.", args.place.key), "key");
  }
  std::map<std::string, std::string> new_ids = {{"", ""}};
  std::vector<Turn> turns = {RootTurn(args.place, args.dialect)};
  for (const LoggedTurn& turn : args.turns) {
    LoggedTurn copy = turn;
    copy.id = TurnIdOf(fmt::format("{}-{}", args.request_id, new_ids.size()));
    const auto parent = new_ids.find(turn.parent);
    const auto from = turn.compaction ? new_ids.find(turn.compaction->from_turn) : new_ids.end();
    const auto undoes = new_ids.find(turn.undoes);
    if (parent == new_ids.end() || (turn.compaction && from == new_ids.end()) ||
        undoes == new_ids.end()) {
      return MakeError(ErrorCode::kInvalidArgument, kSource,
                       fmt::format("The turn '{}' goes on from one that is not there.", turn.id));
    }
    copy.parent = parent->second;
    copy.undoes = undoes->second;
    copy.kv_block = {};  // it goes with the session that it was computed for
    if (copy.compaction) copy.compaction->from_turn = from->second;
    new_ids.emplace(turn.id, copy.id);
    turns.push_back(StoredTurn(args.place, copy));
  }
  return turns_->AppendAll(std::move(turns));
}

Result<SessionLog::Page> SessionLog::List(std::string_view tenant, size_t limit,
                                          uint64_t before) const {
  Page page;
  if (turns_ == nullptr) return page;
  KVGATE_TRY(
      const store::meta::TurnPage found,
      turns_->List({.tenant = tenant, .session = kRootsSession, .limit = limit, .before = before}));
  for (const Turn& turn : found.turns) {
    KVGATE_TRY(Root root, ReadRoot(turn));
    page.sessions.push_back(std::move(root));
  }
  page.has_more = found.has_more;
  return page;
}

Result<std::vector<LoggedTurn>> SessionLog::All(const Place& place, const Root& root) const {
  std::vector<LoggedTurn> turns;
  const std::string session = TurnsOf(place.key);
  uint64_t before = 0;
  bool has_more = true;
  while (has_more) {
    KVGATE_TRY(
        const store::meta::TurnPage page,
        turns_->List(
            {.tenant = place.tenant, .session = session, .limit = kPageTurns, .before = before}));
    for (const Turn& stored : page.turns) {
      KVGATE_TRY(LoggedTurn turn, ReadTurn(root.dialect, stored));
      turns.push_back(std::move(turn));
      before = stored.order;
    }
    has_more = page.has_more && !page.turns.empty();
  }
  std::reverse(turns.begin(), turns.end());
  return turns;
}

Result<void> SessionLog::Remove(const Place& place) {
  if (turns_ == nullptr) return Missing(place.key);
  const Result<uint64_t> purged = turns_->PurgeSession(place.tenant, TurnsOf(place.key));
  if (!purged) return purged.error();
  const Result<void> deleted = turns_->Delete(place.tenant, RootIdOf(place.key));
  if (!deleted && deleted.error().code == ErrorCode::kNotFound) return Missing(place.key);
  return deleted;
}

}  // namespace kvgate::session::log
