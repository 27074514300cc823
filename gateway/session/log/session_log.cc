#include "gateway/session/log/session_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/responses/response_items.h"
#include "gateway/session/log/kept_turn.h"
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
// An event behind a stored response: "event:N:RESPONSE", N = 1, 2, …
constexpr std::string_view kEventPrefix = "event:";
constexpr size_t kEventsMax = 10'000;
constexpr size_t kPageTurns = 100;
// Times that an entry is made for a conversation to which other gateways add meanwhile.
constexpr int kTipAttemptsMax = 8;
constexpr size_t kTurnsMax = 1'000'000;
constexpr uint64_t kChainBytesMax = uint64_t{256} << 20;

std::string RootIdOf(std::string_view key) { return fmt::format("{}{}", kRootPrefix, key); }
bool IsRoot(std::string_view id) { return id.starts_with(kRootPrefix); }
std::string EventIdOf(std::string_view response, size_t number) {
  return fmt::format("{}{}:{}", kEventPrefix, number, response);
}
// The response that an entry belongs to, which may be an event behind it.
std::string_view ResponseOf(std::string_view id) {
  return id.starts_with(kEventPrefix) ? id.substr(id.rfind(':') + 1) : id;
}
bool IsConversation(std::string_view key) {
  return key.starts_with(dialect::responses::kConversationPrefix);
}
bool IsResponse(std::string_view key) { return key.starts_with(dialect::form::kResponsePrefix); }

// The list of the turn store that a session's entries stand in. Stored responses stand in none, so
// that a conversation's newest entry is none of the responses in it.
std::string ListOf(std::string_view key) {
  if (IsResponse(key)) return {};
  return IsConversation(key) ? std::string(key) : fmt::format("{}{}", kTurnsPrefix, key);
}

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
                          .order = turn.order,
                          .anchor = turn.id};
}

// The root is no turn of the session.
Result<LoggedTurn> ReadTurn(Dialect dialect, const Turn& stored) {
  KVGATE_TRY(LoggedTurn turn, IsKept(stored) ? FromKept(stored) : FromStored(dialect, stored));
  if (IsRoot(turn.parent)) turn.parent.clear();
  return turn;
}

// The newest turn for all gateways; where some were made without the shared store, the order in
// which they came here is another one.
Result<std::optional<LoggedTurn>> SharedHead(const store::meta::TurnStore& turns,
                                             const SharedTurns& shared, std::string_view tenant,
                                             const SessionLog::Root& root) {
  const std::string last = shared.LastOf({.tenant = tenant, .root = RootIdOf(root.key)});
  if (last.empty() || IsRoot(last)) return std::optional<LoggedTurn>();
  const Result<Turn> turn = turns.Get(tenant, last);
  if (!turn) return std::optional<LoggedTurn>();
  KVGATE_TRY(LoggedTurn head, ReadTurn(root.dialect, *turn));
  return std::optional<LoggedTurn>(std::move(head));
}

// Entries of earlier versions do not say how many turns there are up to them.
void CountDepths(std::span<LoggedTurn> turns) {
  uint64_t depth = 0;
  for (LoggedTurn& turn : turns) {
    if (turn.depth == 0) turn.depth = depth + (turn.is_turn() ? 1 : 0);
    depth = turn.depth;
  }
}

Turn RootTurn(const SessionLog::Place& place, Dialect dialect) {
  std::string payload;
  dialect::form::JsonWriter json(payload);
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
          .session = ListOf(place.key),
          .items = ToItems(turn),
          .tokens = turn.tokens,
          .content = {}};
}

}  // namespace

bool IsMintedKey(std::string_view key) { return IsConversation(key) || IsResponse(key); }

std::string TurnIdOf(std::string_view request_id) { return fmt::format("turn_{}", request_id); }

Error SessionLog::NotKept() {
  return MakeError(ErrorCode::kUnsupported, kSource,
                   "Sessions need stored turns, which this server does not keep (store.turns, "
                   "store.disk). With x-kvgate-session-mode: recognise the key is only used to "
                   "recognise the conversation.",
                   "x-kvgate-session");
}

SharedTurns::Seen SessionLog::SeenOf(const Place& place) const {
  if (shared_ == nullptr) return 0;
  return shared_->SeenOf({.tenant = place.tenant, .root = RootIdOf(place.key)});
}

SharedTurns::Seen SessionLog::Refresh(std::string_view tenant, std::string_view id) const {
  if (shared_ == nullptr) return 0;
  const std::string root = shared_->RootOf(tenant, id);
  if (!IsRoot(root)) return 0;
  shared_->Refresh({.tenant = tenant, .root = root});
  return shared_->SeenOf({.tenant = tenant, .root = root});
}

Result<void> SessionLog::Write(std::string_view tenant, std::string_view root,
                               std::vector<Turn> turns, std::optional<SharedTurns::Seen> seen) {
  if (shared_ == nullptr) return turns_->AppendAll(std::move(turns));
  return shared_->Append({.tenant = tenant, .root = root}, std::move(turns), seen);
}

// Its parent says in which tree it is. A tree without a root, of an earlier version, is not shared.
Result<void> SessionLog::WriteBehind(Turn entry, std::optional<SharedTurns::Seen> seen) {
  if (shared_ == nullptr) return turns_->Append(std::move(entry));
  const std::string root = shared_->RootOf(entry.tenant, entry.parent);
  if (!IsRoot(root)) return turns_->Append(std::move(entry));
  const std::string tenant = entry.tenant;
  std::vector<Turn> turns;
  turns.push_back(std::move(entry));
  return Write(tenant, root, std::move(turns), seen);
}

Result<void> SessionLog::Erase(std::string_view tenant, std::string_view root,
                               std::string_view id) {
  if (shared_ == nullptr) return turns_->Delete(tenant, id);
  return shared_->Delete({.tenant = tenant, .root = root}, id);
}

Result<SessionLog::Root> SessionLog::Find(const Place& place) const {
  if (turns_ == nullptr) return Missing(place.key);
  if (shared_ != nullptr && !IsMintedKey(place.key)) {
    shared_->Refresh({.tenant = place.tenant, .root = RootIdOf(place.key)});
  } else {
    Refresh(place.tenant, place.key);
  }
  const Result<Turn> turn = turns_->Get(place.tenant, RootIdOf(place.key));
  if (turn) return ReadRoot(*turn);
  if (turn.error().code != ErrorCode::kNotFound) return turn.error();
  if (!IsMintedKey(place.key)) return Missing(place.key);
  const Result<Turn> first = turns_->FirstOf(place.tenant, place.key);
  if (!first && first.error().code == ErrorCode::kNotFound) return Missing(place.key);
  if (!first) return first.error();
  const std::string key = IsRoot(first->id) ? first->id.substr(kRootPrefix.size()) : first->id;
  const Result<Turn> listed = turns_->Get(place.tenant, RootIdOf(key));
  // A tree whose secret was missing when it was to be listed has no root.
  Root root{.key = key,
            .dialect = Dialect::kResponses,
            .created_us = first->created_us,
            .order = first->order};
  if (listed) {
    KVGATE_TRY(root, ReadRoot(*listed));
  }
  root.turn = place.key;
  root.anchor = place.key;
  return root;
}

Result<std::string> SessionLog::NewestAfter(std::string_view tenant,
                                            std::string_view response) const {
  std::string newest(response);
  for (size_t number = 1; number <= kEventsMax; ++number) {
    std::string next = EventIdOf(response, number);
    const Result<Turn> event = turns_->Get(tenant, next);
    if (!event && event.error().code == ErrorCode::kNotFound) break;
    if (!event) return event.error();
    newest = std::move(next);
  }
  return newest;
}

Result<std::optional<LoggedTurn>> SessionLog::Head(const Place& place, const Root& root) const {
  std::optional<LoggedTurn> head;
  if (!root.turn.empty()) {
    KVGATE_TRY(const std::string newest, NewestAfter(place.tenant, root.turn));
    KVGATE_TRY(const Turn turn, turns_->Get(place.tenant, newest));
    KVGATE_TRY(head, ReadTurn(root.dialect, turn));
  } else if (shared_ != nullptr) {
    KVGATE_TRY(head, SharedHead(*turns_, *shared_, place.tenant, root));
  }
  if (!head && root.turn.empty()) {
    // Where the session was made of what was there before, its root may be the newest entry.
    KVGATE_TRY(const store::meta::TurnPage page,
               turns_->List({.tenant = place.tenant, .conversation_of = root.anchor, .limit = 2}));
    for (const Turn& turn : page.turns) {
      if (IsRoot(turn.id) || head) continue;
      KVGATE_TRY(head, ReadTurn(root.dialect, turn));
    }
  }
  if (head && head->depth == 0) {
    KVGATE_TRY(const std::vector<LoggedTurn> branch, Load(place, root, head->id, Reach::kThere));
    if (!branch.empty()) head->depth = branch.back().depth;
  }
  return head;
}

Result<std::vector<LoggedTurn>> SessionLog::Load(const Place& place, const Root& root,
                                                 std::string_view id, Reach reach) const {
  std::vector<LoggedTurn> turns;  // the newest first
  std::optional<std::string> from;
  std::set<std::string> undone;
  std::optional<Error> failure;
  // Decodes each turn as it is met, and says when the branch is known as far back as it is needed.
  const auto is_first = [&](const Turn& stored) {
    if (IsRoot(stored.id)) return true;
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
  const bool is_missing = !chain && chain.error().code == ErrorCode::kNotFound;
  if (!chain && !(is_missing && reach == Reach::kThere)) return chain.error();
  if (failure) return *failure;
  std::reverse(turns.begin(), turns.end());
  ApplyRemovals(turns);
  CountDepths(turns);
  return turns;
}

Result<void> SessionLog::Append(const Place& place, Dialect dialect, const LoggedTurn& turn,
                                std::optional<SharedTurns::Seen> seen) {
  if (!keeps()) return NotKept();
  if (IsMintedKey(place.key)) return AppendEvent(place, turn);
  const Result<Turn> root = turns_->Get(place.tenant, RootIdOf(place.key));
  if (!root && root.error().code != ErrorCode::kNotFound) return root.error();
  std::vector<Turn> turns;
  if (!root) turns.push_back(RootTurn(place, dialect));
  turns.push_back(StoredTurn(place, turn));
  return Write(place.tenant, RootIdOf(place.key), std::move(turns), seen);
}

// It stands where later requests look for it: behind the response, or at the conversation's end.
Result<void> SessionLog::AppendEvent(const Place& place, const LoggedTurn& event) {
  const Error elsewhere = MakeError(ErrorCode::kCancelled, kSource,
                                    "the session has gone on elsewhere since the event began");
  const std::string_view response = ResponseOf(event.parent);
  Turn entry = StoredTurn(place, event);
  if (!IsResponse(response)) {
    return AppendAtTip(place, [&](const std::string& tip) -> Result<Turn> {
      if (tip != event.parent) return elsewhere;
      return entry;
    });
  }
  const std::lock_guard lock(mutex_);
  const SharedTurns::Seen seen = Refresh(place.tenant, response);
  KVGATE_TRY(const std::string newest, NewestAfter(place.tenant, response));
  if (newest != event.parent) return elsewhere;
  size_t number = 1;
  while (turns_->Get(place.tenant, EventIdOf(response, number))) ++number;
  entry.id = EventIdOf(response, number);
  entry.session.clear();
  return WriteBehind(std::move(entry), seen);
}

Result<void> SessionLog::AppendKept(const Place& place, Turn entry, bool follows_events) {
  if (!keeps()) return NotKept();
  if (!entry.parent.empty()) {
    const std::lock_guard lock(mutex_);
    if (const std::string_view response = ResponseOf(entry.parent);
        follows_events && IsResponse(response)) {
      KVGATE_TRY(entry.parent, NewestAfter(place.tenant, std::string(response)));
    }
    return WriteBehind(std::move(entry));
  }
  std::vector<Turn> turns = {RootTurn(place, Dialect::kResponses)};
  entry.parent = turns.front().id;
  turns.push_back(std::move(entry));
  return Write(place.tenant, RootIdOf(place.key), std::move(turns));
}

Result<std::string> SessionLog::Tip(const Place& place) const {
  if (turns_ == nullptr || !IsConversation(place.key)) return Missing(place.key);
  Refresh(place.tenant, place.key);
  KVGATE_TRY(store::meta::TurnPage page,
             turns_->List({.tenant = place.tenant, .session = ListOf(place.key), .limit = 1}));
  if (page.turns.empty()) return Missing(place.key);
  return std::move(page.turns.front().id);
}

Result<void> SessionLog::AppendAtTip(const Place& place, const MakeEntry& make) {
  if (!keeps()) return NotKept();
  const std::lock_guard lock(mutex_);
  for (int attempt = 1;; ++attempt) {
    KVGATE_TRY(const std::string tip, Tip(place));
    const SharedTurns::Seen seen = SeenOf(place);
    KVGATE_TRY(Turn entry, make(tip));
    entry.parent = tip;
    const Result<void> added = WriteBehind(std::move(entry), seen);
    const bool is_late = !added && added.error().code == ErrorCode::kCancelled;
    if (!is_late || attempt == kTipAttemptsMax) return added;
  }
}

Result<void> SessionLog::RemoveIfEmpty(std::string_view tenant, std::string_view root_id) {
  const auto page = turns_->List({.tenant = tenant, .conversation_of = root_id, .limit = 2});
  if (!page && page.error().code == ErrorCode::kNotFound) return {};
  if (!page) return page.error();
  if (page->turns.size() != 1 || !IsRoot(page->turns.front().id)) return {};
  return Erase(tenant, root_id, root_id);
}

Result<void> SessionLog::RemoveKept(std::string_view tenant, std::string_view id) {
  if (turns_ == nullptr) return Missing(id);
  KVGATE_TRY(const Root root, Find({.tenant = tenant, .key = id}));
  KVGATE_TRY(std::string newest, NewestAfter(tenant, id));
  const std::string root_id = RootIdOf(root.key);
  // The newest event first, so that after a kill those that are left are found.
  while (newest != id) {
    KVGATE_TRY_VOID(Erase(tenant, root_id, newest));
    KVGATE_TRY(newest, NewestAfter(tenant, id));
  }
  KVGATE_TRY_VOID(Erase(tenant, root_id, id));
  return RemoveIfEmpty(tenant, root_id);
}

Result<void> SessionLog::RemoveConversation(const Place& place) {
  const std::lock_guard lock(mutex_);
  KVGATE_TRY([[maybe_unused]] const std::string tip, Tip(place));
  if (shared_ != nullptr) KVGATE_TRY_VOID(EraseListed(place));
  KVGATE_TRY([[maybe_unused]] const uint64_t num_turns,
             turns_->PurgeSession(place.tenant, ListOf(place.key)));
  return RemoveIfEmpty(place.tenant, RootIdOf(place.key));
}

// Deletes the entries of a conversation everywhere, one by one.
Result<void> SessionLog::EraseListed(const Place& place) {
  for (bool has_more = true; has_more;) {
    KVGATE_TRY(
        const store::meta::TurnPage page,
        turns_->List({.tenant = place.tenant, .session = ListOf(place.key), .limit = kPageTurns}));
    has_more = page.has_more;
    for (const Turn& turn : page.turns) {
      KVGATE_TRY_VOID(Erase(place.tenant, RootIdOf(place.key), turn.id));
    }
  }
  return {};
}

Result<void> SessionLog::Create(const CreateArgs& args) {
  if (!keeps()) return NotKept();
  const Error taken =
      MakeError(ErrorCode::kInvalidArgument, kSource,
                fmt::format("There is a session '{}' already.", args.place.key), "key");
  if (Find(args.place)) return taken;
  const SharedTurns::Seen seen = SeenOf(args.place);
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
  const Result<void> made =
      Write(args.place.tenant, RootIdOf(args.place.key), std::move(turns), seen);
  return !made && made.error().code == ErrorCode::kCancelled ? taken : made;
}

Result<SessionLog::Page> SessionLog::List(std::string_view tenant, size_t limit,
                                          uint64_t before) const {
  Page page;
  if (turns_ == nullptr) return page;
  if (shared_ != nullptr && before == 0) shared_->TakeInOthers(tenant);
  KVGATE_TRY(
      const store::meta::TurnPage found,
      turns_->List({.tenant = tenant, .session = kRootsSession, .limit = limit, .before = before}));
  for (const Turn& turn : found.turns) {
    KVGATE_TRY(Root root, ReadRoot(turn));
    page.next = turn.order;
    if (shared_ != nullptr) {
      shared_->Refresh({.tenant = tenant, .root = turn.id});
      if (!turns_->Get(tenant, turn.id)) continue;  // another gateway has removed it
    }
    page.sessions.push_back(std::move(root));
  }
  page.has_more = found.has_more;
  return page;
}

Result<void> SessionLog::ForEach(const Place& place, const Root& root,
                                 const std::function<void(LoggedTurn)>& visit) const {
  uint64_t before = 0;
  bool has_more = true;
  while (has_more) {
    KVGATE_TRY(const store::meta::TurnPage page, turns_->List({.tenant = place.tenant,
                                                               .conversation_of = root.anchor,
                                                               .limit = kPageTurns,
                                                               .before = before}));
    for (const Turn& stored : page.turns) {
      before = stored.order;
      if (IsRoot(stored.id)) continue;
      KVGATE_TRY(LoggedTurn turn, ReadTurn(root.dialect, stored));
      visit(std::move(turn));
    }
    has_more = page.has_more && !page.turns.empty();
  }
  return {};
}

Result<std::vector<LoggedTurn>> SessionLog::All(const Place& place, const Root& root) const {
  std::vector<LoggedTurn> turns;
  KVGATE_TRY_VOID(ForEach(place, root, [&](LoggedTurn turn) { turns.push_back(std::move(turn)); }));
  std::reverse(turns.begin(), turns.end());
  ApplyRemovals(turns);
  std::map<std::string_view, uint64_t> depths;
  for (LoggedTurn& turn : turns) {
    if (turn.depth == 0) turn.depth = depths[turn.parent] + (turn.is_turn() ? 1 : 0);
    depths[turn.id] = turn.depth;
  }
  return turns;
}

Result<void> SessionLog::Remove(const Place& place) {
  KVGATE_TRY(const Root root, Find(place));
  const std::lock_guard lock(mutex_);
  const std::string root_id = RootIdOf(root.key);
  if (shared_ != nullptr && turns_->Get(place.tenant, root_id)) {
    return shared_->Purge({.tenant = place.tenant, .root = root_id});
  }
  const Result<uint64_t> purged = turns_->PurgeConversation(place.tenant, root.anchor);
  if (!purged && purged.error().code == ErrorCode::kNotFound) return Missing(place.key);
  return purged ? Result<void>() : purged.error();
}

std::vector<LoggedTurn> WithoutSilent(std::vector<LoggedTurn> turns) {
  std::map<std::string, std::string> parents;  // of those that go
  std::vector<LoggedTurn> rest;
  for (LoggedTurn& turn : turns) {
    const auto gone = parents.find(turn.parent);
    if (gone != parents.end()) turn.parent = gone->second;
    const bool is_event = turn.compaction || !turn.undoes.empty();
    if (turn.is_turn() || is_event) {
      rest.push_back(std::move(turn));
    } else {
      parents.emplace(turn.id, turn.parent);
    }
  }
  return rest;
}

}  // namespace kvgate::session::log
