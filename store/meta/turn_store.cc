#include "store/meta/turn_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_fence.h"

namespace kvgate::store::meta {
namespace {

constexpr std::string_view kSource = "store.turns";
constexpr MetaTable kTable = MetaTable::kTurns;
// Turns per write, a bound on how long the writer's lock is held.
constexpr size_t kRemoveMax = 256;
constexpr size_t kListMax = 1000;
// Conversations whose owners are looked up per batch.
constexpr size_t kOwnerBatch = 64;
// Turns with one content that are tried before it counts as not found.
constexpr size_t kContentTries = 8;

Error Wrong(std::string field, std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(detail), std::move(field));
}

Error Missing(std::string_view id) {
  return MakeError(ErrorCode::kNotFound, kSource, fmt::format("There is no turn '{}'.", id), "id");
}

MetaWrite Without(std::string key) { return {.key = std::move(key), .value = std::nullopt}; }

std::string SessionPrefix(const TurnNames& names, std::string_view tenant,
                          std::string_view session) {
  return TurnSessionPrefix(names.Tenant(tenant), names.Session(tenant, session));
}

std::string MemberKey(const TurnPlace& place) {
  return WithOrder(TurnMemberPrefix(place.conversation), place.order);
}

}  // namespace

// Collects turns and all their rows for deletion in one write. REQUIRES: the store's mutex is held.
class TurnStore::Removal {
 public:
  explicit Removal(const TurnStore& store)
      : store_(store), meta_(store.options_.meta), totals_(store.totals_) {}

  Result<void> Add(const TurnPlace& place) {
    KVGATE_TRY(const auto value, meta_.Get(kTable, MemberKey(place)));
    const auto member = value ? DecodeMember(*value) : std::nullopt;
    writes_.push_back(Without(TurnKey(place.order)));
    writes_.push_back(Without(MemberKey(place)));
    if (!member) return {};
    const std::string id_key = TurnIdKey(member->tenant, member->id);
    KVGATE_TRY(const auto owner, meta_.Get(kTable, id_key));
    const auto owned = owner ? DecodePlace(*owner) : std::nullopt;
    if (owned && owned->order == place.order) writes_.push_back(Without(id_key));
    if (member->session) {
      writes_.push_back(
          Without(WithOrder(TurnSessionPrefix(member->tenant, *member->session), place.order)));
    }
    if (member->content) {
      writes_.push_back(
          Without(WithOrder(TurnContentPrefix(member->tenant, *member->content), place.order)));
    }
    KVGATE_TRY_VOID(Account(place.conversation, member->bytes));
    gone_[member->tenant] += member->bytes;
    ++num_turns_;
    return {};
  }

  // Deletes a row that points to a missing turn.
  void AddRow(std::string key) { writes_.push_back(Without(std::move(key))); }

  // Deletes a conversation that is in line for retirement but has no turns.
  void AddEmpty(const InLine& in_line) {
    AddRow(in_line.key);
    AddRow(TurnConversationKey(in_line.conversation));
    totals_.num_conversations = Less(totals_.num_conversations, 1);
  }

  Result<void> Commit() {
    for (const auto& [conversation, state] : conversations_) {
      const bool empty = state.num_turns == 0;
      const std::string key = TurnConversationKey(conversation);
      if (empty) {
        writes_.push_back(Without(key));
        writes_.push_back(Without(TurnAgeKey(state.last_order)));
        totals_.num_conversations = Less(totals_.num_conversations, 1);
      } else {
        writes_.push_back({.key = key, .value = EncodeConversation(state)});
      }
    }
    writes_.push_back({.key = std::string(kTotalsKey), .value = EncodeTotals(totals_)});
    KVGATE_TRY_VOID(meta_.PutAll(kTable, writes_));
    store_.totals_ = totals_;
    for (const auto& [tenant, bytes] : gone_) store_.TakeBytes(tenant, bytes);
    return {};
  }

  uint64_t num_turns() const { return num_turns_; }

 private:
  Result<void> Account(uint64_t conversation, uint64_t bytes) {
    auto found = conversations_.find(conversation);
    if (found == conversations_.end()) {
      KVGATE_TRY(const TurnConversation state, store_.ReadConversation(conversation));
      found = conversations_.emplace(conversation, state).first;
    }
    found->second.bytes = Less(found->second.bytes, bytes);
    found->second.num_turns = Less(found->second.num_turns, 1);
    totals_.bytes = Less(totals_.bytes, bytes);
    totals_.num_turns = Less(totals_.num_turns, 1);
    return {};
  }

  const TurnStore& store_;
  MetaStore& meta_;
  TurnTotals totals_;
  std::map<uint64_t, TurnConversation> conversations_;
  std::map<TurnName, uint64_t> gone_;  // bytes by tenant
  std::vector<MetaWrite> writes_;
  uint64_t num_turns_ = 0;
};

Result<std::unique_ptr<TurnStore>> TurnStore::Open(const Options& options) {
  std::unique_ptr<TurnStore> store(new TurnStore(options));
  KVGATE_TRY_VOID(store->Restore());
  store->RetireOrLog();
  store->thread_ = std::thread([raw = store.get()] { raw->Run(); });
  return store;
}

TurnStore::~TurnStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<void> TurnStore::Restore() {
  KVGATE_TRY(const auto value, options_.meta.Get(kTable, kTotalsKey));
  const auto totals = value ? DecodeTotals(*value) : std::nullopt;
  if (totals) {
    totals_ = *totals;
  } else {
    // Without readable totals they are summed up from the conversations.
    KVGATE_TRY_VOID(options_.meta.Scan(kTable, "v", [&](std::string_view, std::string_view row) {
      const auto state = DecodeConversation(row).value_or(TurnConversation());
      totals_.num_turns += state.num_turns;
      totals_.bytes += state.bytes;
      ++totals_.num_conversations;
      return true;
    }));
  }
  KVGATE_TRY_VOID(options_.meta.Scan(kTable, "M", [&](std::string_view, std::string_view row) {
    if (const auto member = DecodeMember(row)) AddBytes(member->tenant, member->bytes);
    return true;
  }));
  return options_.meta.ScanBack(
      kTable, {.prefix = "t"}, [&](std::string_view key, std::string_view) {
        totals_.next_order = std::max(totals_.next_order, OrderOf(key) + 1);
        return false;
      });
}

void TurnStore::Run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, options_.retire_interval, [this] { return stopping_; })) {
    lock.unlock();
    (void)Attempt(kSource, "dropping old turns", [this] { RetireOrLog(); });
    lock.lock();
  }
}

void TurnStore::RetireOrLog() {
  if (const auto retired = Retire(); !retired) {
    KVGATE_LOG(kWarning, kSource, "dropping old turns: {}", retired.error().ToString());
  }
}

int64_t TurnStore::NowUs() const {
  return options_.now_us ? options_.now_us() : WallClock::NowUs();
}

// --- writing ----------------------------------------------------------------------------------

// Collects turns of one conversation with all their rows for one write. REQUIRES: the store's mutex
// is held.
class TurnStore::Addition {
 public:
  explicit Addition(TurnStore& store) : store_(store) {}

  Result<void> Add(Turn turn) {
    KVGATE_TRY(TurnRecord record, Place(std::move(turn)));
    const TurnPlace place{.order = record.turn.order, .conversation = conversation_};
    const std::string key = TurnKey(place.order);
    std::string value = EncodeTurn(record, store_.options_.meta.keyring());
    const uint64_t bytes = key.size() + value.size();
    state_.bytes += bytes;
    if (state_.bytes > store_.options_.bytes_max) {
      return MakeError(ErrorCode::kTooLarge, kSource,
                       fmt::format("With this turn the conversation has {} bytes; "
                                   "store.turns_bytes allows {} for all of them.",
                                   state_.bytes, store_.options_.bytes_max),
                       "items");
    }
    const TurnMember member = MemberOf(record.turn, store_.names(), bytes);
    KVGATE_TRY_VOID(store_.CheckShare(member.tenant, state_.bytes));
    Put(key, std::move(value));
    Put(TurnIdKey(member.tenant, member.id), EncodePlace(place));
    Put(MemberKey(place), EncodeMember(member));
    if (member.session) {
      Put(WithOrder(TurnSessionPrefix(member.tenant, *member.session), place.order),
          EncodePlace(place));
    }
    if (member.content) {
      Put(WithOrder(TurnContentPrefix(member.tenant, *member.content), place.order),
          EncodePlace(place));
    }
    tenant_ = member.tenant;
    bytes_ += bytes;
    state_.last_order = place.order;
    state_.last_us = record.turn.created_us;
    state_.num_turns += 1;
    orders_.emplace(std::move(record.turn.id), place.order);
    return {};
  }

  Result<void> Write() {
    if (before_.num_turns > 0) writes_.push_back(Without(TurnAgeKey(before_.last_order)));
    Put(TurnConversationKey(conversation_), EncodeConversation(state_));
    Put(TurnAgeKey(state_.last_order),
        EncodeAge({.conversation = conversation_, .last_us = state_.last_us}));
    TurnTotals totals = store_.totals_;
    totals.bytes += bytes_;
    totals.num_turns += orders_.size();
    totals.num_conversations += before_.num_turns == 0 ? 1 : 0;
    Put(std::string(kTotalsKey), EncodeTotals(totals));
    KVGATE_TRY_VOID(store_.options_.meta.PutAll(kTable, writes_));
    store_.totals_ = totals;
    store_.AddBytes(*tenant_, bytes_);
    store_.counts_.num_appended += orders_.size();
    return {};
  }

 private:
  // The turn with its place behind its parent, which is stored or among those added before.
  Result<TurnRecord> Place(Turn turn) {
    const auto taken = store_.Find(turn.tenant, turn.id);
    if (taken || orders_.contains(turn.id)) {
      return Wrong("id", fmt::format("There is a turn '{}' already.", turn.id));
    }
    if (taken.error().code != ErrorCode::kNotFound) return taken.error();
    TurnRecord record;
    const auto added = orders_.find(turn.parent);
    uint64_t conversation = 0;  // none yet
    if (added != orders_.end()) {
      record.parent_order = added->second;
      conversation = conversation_;
    } else if (!turn.parent.empty()) {
      const auto parent = store_.Find(turn.tenant, turn.parent);
      if (!parent && parent.error().code == ErrorCode::kNotFound) {
        return MakeError(ErrorCode::kNotFound, kSource,
                         fmt::format("There is no turn '{}' to go on from.", turn.parent),
                         "parent");
      }
      if (!parent) return parent.error();
      record.parent_order = parent->order;
      conversation = parent->conversation;
    }
    // The order is never reused, even if the write fails, because parts may have reached the disk.
    turn.order = store_.totals_.next_order++;
    if (turn.created_us == 0) turn.created_us = store_.NowUs();
    if (turn.parent.empty()) conversation = turn.order;
    if (orders_.empty()) {
      conversation_ = conversation;
      KVGATE_TRY(before_, store_.ReadConversation(conversation));
      state_ = before_;
    } else if (conversation != conversation_) {
      return Wrong("parent", "Turns that are stored together belong to one conversation.");
    }
    record.conversation = conversation;
    record.turn = std::move(turn);
    return record;
  }
  void Put(std::string key, std::string value) {
    writes_.push_back({.key = std::move(key), .value = std::move(value)});
  }

  TurnStore& store_;
  uint64_t conversation_ = 0;
  TurnConversation before_ = {};            // as it is stored
  TurnConversation state_ = {};             // with what was added
  std::map<std::string, uint64_t> orders_;  // of the added turns, by id
  std::optional<TurnName> tenant_;
  uint64_t bytes_ = 0;
  std::vector<MetaWrite> writes_;
};

Result<void> TurnStore::Append(Turn turn) {
  std::vector<Turn> turns;
  turns.push_back(std::move(turn));
  return AppendAll(std::move(turns));
}

Result<void> TurnStore::AppendAll(std::vector<Turn> turns) {
  if (!options_.enabled) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     "Turns are not kept: store.turns is false in the configuration.");
  }
  for (const Turn& turn : turns) KVGATE_TRY_VOID(CheckTurn(turn, options_.turn_bytes_max));
  if (turns.empty()) return {};
  const std::lock_guard lock(mutex_);
  Addition addition(*this);
  for (Turn& turn : turns) KVGATE_TRY_VOID(addition.Add(std::move(turn)));
  KVGATE_TRY_VOID(addition.Write());
  MakeRoom();
  return {};
}

// The turn is already stored, so an error is only logged and the rest is retired later.
void TurnStore::MakeRoom() {
  while (totals_.bytes > options_.bytes_max) {
    const auto more = RetireSome();
    if (!more) {
      KVGATE_LOG(kWarning, kSource, "making room: {}", more.error().ToString());
      break;
    }
    if (!*more) break;
  }
}

Result<void> TurnStore::Delete(std::string_view tenant, std::string_view id) {
  const std::lock_guard lock(mutex_);
  KVGATE_TRY(const TurnPlace place, Find(tenant, id));
  Removal removal(*this);
  KVGATE_TRY_VOID(removal.Add(place));
  removal.AddRow(IdKey(tenant, id));
  KVGATE_TRY_VOID(removal.Commit());
  counts_.num_deleted += removal.num_turns();
  return {};
}

Result<uint64_t> TurnStore::PurgeTenant(std::string_view tenant) {
  return Purge(TurnIdPrefix(names().Tenant(tenant)));
}

Result<uint64_t> TurnStore::PurgeSession(std::string_view tenant, std::string_view session) {
  return Purge(SessionPrefix(names(), tenant, session));
}

Result<uint64_t> TurnStore::PurgeConversation(std::string_view tenant, std::string_view id) {
  KVGATE_TRY(const TurnPlace place, Find(tenant, id));
  return Purge(TurnMemberPrefix(place.conversation));
}

Result<uint64_t> TurnStore::Purge(const std::string& prefix) {
  uint64_t num_turns = 0;
  while (true) {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<std::string, std::string>> rows;
    // The first turn of a conversation, which may list it, goes last.
    KVGATE_TRY_VOID(options_.meta.ScanBack(kTable, {.prefix = prefix},
                                           [&](std::string_view key, std::string_view value) {
                                             rows.emplace_back(key, value);
                                             return rows.size() < kRemoveMax;
                                           }));
    if (rows.empty()) return num_turns;
    Removal removal(*this);
    for (auto& [key, value] : rows) {
      if (const auto place = PlaceOf(key, value)) KVGATE_TRY_VOID(removal.Add(*place));
      removal.AddRow(std::move(key));
    }
    KVGATE_TRY_VOID(removal.Commit());
    num_turns += removal.num_turns();
    counts_.num_deleted += removal.num_turns();
  }
}

// --- retention --------------------------------------------------------------------------------

Result<uint64_t> TurnStore::Retire() {
  uint64_t num_turns = 0;
  while (true) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return num_turns;
    const uint64_t before = counts_.num_retired;
    KVGATE_TRY(const bool more, RetireSome());
    num_turns += counts_.num_retired - before;
    if (!more) return num_turns;
  }
}

Result<std::optional<TurnStore::InLine>> TurnStore::NextToRetire() const {
  const bool too_much = totals_.bytes > options_.bytes_max;
  if (const auto tenant = TenantOverShare(); too_much && tenant) {
    KVGATE_TRY(const auto own, OldestOf(*tenant));
    if (own) return own;
  }
  const int64_t now_us = NowUs();
  const int64_t oldest_us =
      now_us - std::chrono::duration_cast<std::chrono::microseconds>(options_.retention).count();
  std::optional<InLine> next;
  KVGATE_TRY_VOID(
      options_.meta.Scan(kTable, "o", [&](std::string_view key, std::string_view value) {
        const TurnAge age = DecodeAge(value).value_or(TurnAge());
        // A turn from the future, written while the clock was ahead, must not keep later ones
        // forever.
        if (!too_much && age.last_us > now_us) return true;
        if (too_much || age.last_us < oldest_us) {
          next = InLine{.key = std::string(key), .conversation = age.conversation};
        }
        return false;
      }));
  return next;
}

uint64_t TurnStore::share_bytes() const {
  return static_cast<uint64_t>(static_cast<double>(options_.bytes_max) * options_.tenant_share);
}

void TurnStore::AddBytes(const TurnName& tenant, uint64_t bytes) const {
  tenants_[tenant].bytes += bytes;
}

void TurnStore::TakeBytes(const TurnName& tenant, uint64_t bytes) const {
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return;
  found->second.bytes = Less(found->second.bytes, bytes);
  if (found->second.bytes == 0) tenants_.erase(found);
}

std::optional<TurnName> TurnStore::TenantOverShare() const {
  const auto most = std::max_element(
      tenants_.begin(), tenants_.end(),
      [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
  if (most == tenants_.end() || most->second.bytes <= share_bytes()) return std::nullopt;
  return most->first;
}

// A conversation is retired as a whole, so it must not grow until those of others have to go.
Result<void> TurnStore::CheckShare(const TurnName& tenant, uint64_t conversation_bytes) const {
  const uint64_t share = share_bytes();
  if (conversation_bytes <= share) return {};
  uint64_t others = 0;
  for (const auto& [name, use] : tenants_) {
    if (name != tenant) others += std::min(use.bytes, share);
  }
  if (conversation_bytes + others <= options_.bytes_max) return {};
  return MakeError(ErrorCode::kTooLarge, kSource,
                   fmt::format("With this turn the conversation has {} bytes; store.tenant_share "
                               "leaves {} for all of one tenant's while others keep {}.",
                               conversation_bytes, share, others),
                   "items");
}

Result<std::optional<TurnName>> TurnStore::OwnerOf(uint64_t conversation) const {
  std::optional<TurnName> owner;
  KVGATE_TRY_VOID(options_.meta.Scan(kTable, TurnMemberPrefix(conversation),
                                     [&](std::string_view, std::string_view value) {
                                       const auto member = DecodeMember(value);
                                       if (member) owner = member->tenant;
                                       return !member.has_value();
                                     }));
  return owner;
}

// Orders before `oldest_order` were checked and belong to other tenants for good, because a
// conversation that continues moves to the end of the line.
Result<std::optional<TurnStore::InLine>> TurnStore::OldestOf(const TurnName& tenant) const {
  uint64_t& begin = tenants_[tenant].oldest_order;
  while (true) {
    std::vector<InLine> batch;
    KVGATE_TRY_VOID(
        options_.meta.Scan(kTable, "o", [&](std::string_view key, std::string_view value) {
          const uint64_t order = OrderOf(key);
          if (order < begin) return true;
          if (order + 1 >= totals_.next_order) return false;
          const TurnAge age = DecodeAge(value).value_or(TurnAge());
          batch.push_back({.key = std::string(key), .conversation = age.conversation});
          return batch.size() < kOwnerBatch;
        }));
    for (InLine& in_line : batch) {
      KVGATE_TRY(const auto owner, OwnerOf(in_line.conversation));
      if (owner == tenant) return std::optional(std::move(in_line));
      begin = OrderOf(in_line.key) + 1;
    }
    if (batch.size() < kOwnerBatch) return std::optional<InLine>();
  }
}

Result<bool> TurnStore::RetireSome() {
  KVGATE_TRY(const auto next, NextToRetire());
  if (!next) return false;
  std::vector<TurnPlace> places;
  KVGATE_TRY_VOID(options_.meta.Scan(
      kTable, TurnMemberPrefix(next->conversation), [&](std::string_view key, std::string_view) {
        places.push_back({.order = OrderOf(key), .conversation = next->conversation});
        return places.size() < kRemoveMax;
      }));
  Removal removal(*this);
  for (const TurnPlace& place : places) KVGATE_TRY_VOID(removal.Add(place));
  if (places.empty()) removal.AddEmpty(*next);
  KVGATE_TRY_VOID(removal.Commit());
  counts_.num_retired += removal.num_turns();
  return true;
}

// --- reading ----------------------------------------------------------------------------------

std::string TurnStore::IdKey(std::string_view tenant, std::string_view id) const {
  return TurnIdKey(names().Tenant(tenant), names().Id(tenant, id));
}

Result<TurnPlace> TurnStore::Find(std::string_view tenant, std::string_view id) const {
  if (tenant.size() > kTurnTextMax || id.size() > kTurnTextMax) return Missing(id.substr(0, 64));
  KVGATE_TRY(const auto value, options_.meta.Get(kTable, IdKey(tenant, id)));
  const auto place = value ? DecodePlace(*value) : std::nullopt;
  if (!place) return Missing(id);
  return *place;
}

Result<TurnConversation> TurnStore::ReadConversation(uint64_t conversation) const {
  KVGATE_TRY(const auto value, options_.meta.Get(kTable, TurnConversationKey(conversation)));
  const auto state = value ? DecodeConversation(*value) : std::nullopt;
  return state.value_or(TurnConversation());
}

Result<std::optional<TurnRecord>> TurnStore::Read(const TurnPlace& place) const {
  const std::string key = TurnKey(place.order);
  KVGATE_TRY(const auto value, options_.meta.Get(kTable, key));
  if (!value) return std::optional<TurnRecord>();
  Result<DecodedTurn> decoded = DecodeTurn(key, *value, options_.meta.keyring());
  if (decoded) return std::optional(std::move(decoded->record));
  // The turn is intact but its secret is missing: it counts as absent until the secret is back.
  if (decoded.error().code == ErrorCode::kPermissionDenied) return std::optional<TurnRecord>();
  KVGATE_LOG(kWarning, kSource, "{}; it is dropped", decoded.error().detail);
  const std::lock_guard lock(mutex_);
  Removal removal(*this);
  KVGATE_TRY_VOID(removal.Add(place));
  KVGATE_TRY_VOID(removal.Commit());
  counts_.num_damaged += removal.num_turns();  // 0 if another thread has dropped it already
  return std::optional<TurnRecord>();
}

Result<Turn> TurnStore::Get(std::string_view tenant, std::string_view id) const {
  KVGATE_TRY(const TurnPlace place, Find(tenant, id));
  KVGATE_TRY(auto record, Read(place));
  if (!record || record->turn.tenant != tenant || record->turn.id != id) return Missing(id);
  return std::move(record->turn);
}

Result<std::vector<Turn>> TurnStore::Chain(const ChainArgs& args) const {
  KVGATE_TRY(TurnPlace place, Find(args.tenant, args.id));
  std::string id(args.id);
  std::vector<Turn> turns;
  uint64_t bytes = 0;
  while (place.order != 0) {
    KVGATE_TRY(auto record, Read(place));
    if (!record || record->turn.tenant != args.tenant || record->turn.id != id) return Missing(id);
    bytes += PayloadBytes(record->turn);
    if (turns.size() == args.turns_max || bytes > args.bytes_max) {
      return MakeError(
          ErrorCode::kTooLarge, kSource,
          fmt::format("The conversation up to '{}' has more than {} turns or {} bytes.", args.id,
                      args.turns_max, args.bytes_max),
          "id");
    }
    place.order = record->parent_order;
    id = record->turn.parent;
    turns.push_back(std::move(record->turn));
    if (args.is_first && args.is_first(turns.back())) break;
  }
  std::reverse(turns.begin(), turns.end());
  return turns;
}

// Places are collected before any turn is read, because a visit must not call the meta store.
Result<std::vector<TurnPlace>> TurnStore::Places(const PlacesArgs& args) const {
  std::vector<TurnPlace> places;
  KVGATE_TRY_VOID(options_.meta.ScanBack(kTable, {.prefix = args.prefix, .before = args.before},
                                         [&](std::string_view key, std::string_view value) {
                                           if (const auto place = PlaceOf(key, value)) {
                                             places.push_back(*place);
                                           }
                                           return places.size() < args.limit;
                                         }));
  return places;
}

Result<TurnPage> TurnStore::List(const ListArgs& args) const {
  if (args.limit < 1 || args.limit > kListMax) {
    return Wrong("limit", fmt::format("limit must be from 1 to {}, not {}.", kListMax, args.limit));
  }
  TurnPage page;
  if (args.tenant.size() > kTurnTextMax || args.session.size() > kTurnTextMax) return page;
  std::string prefix;
  if (args.conversation_of.empty()) {
    prefix = SessionPrefix(names(), args.tenant, args.session);
  } else {
    KVGATE_TRY(const TurnPlace place, Find(args.tenant, args.conversation_of));
    prefix = TurnMemberPrefix(place.conversation);
  }
  KVGATE_TRY(const auto places,
             Places({.prefix = prefix,
                     .before = args.before == 0 ? "" : WithOrder(prefix, args.before),
                     .limit = args.limit + 1}));
  uint64_t bytes = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    page.has_more = i == args.limit;
    if (page.has_more) break;
    KVGATE_TRY(auto record, Read(places[i]));
    if (!record || record->turn.tenant != args.tenant) continue;
    bytes += PayloadBytes(record->turn);
    page.has_more = bytes > args.bytes_max && !page.turns.empty();
    if (page.has_more) break;
    page.turns.push_back(std::move(record->turn));
  }
  return page;
}

Result<Turn> TurnStore::FirstOf(std::string_view tenant, std::string_view id) const {
  KVGATE_TRY(const TurnPlace place, Find(tenant, id));
  KVGATE_TRY(auto record, Read({.order = place.conversation, .conversation = place.conversation}));
  if (!record || record->turn.tenant != tenant) return Missing(id);
  return std::move(record->turn);
}

Result<Turn> TurnStore::FindByContent(std::string_view tenant, const PrefixDigest& content) const {
  if (tenant.size() <= kTurnTextMax) {
    KVGATE_TRY(const auto places,
               Places({.prefix = TurnContentPrefix(names().Tenant(tenant),
                                                   names().Content(tenant, content)),
                       .limit = kContentTries}));
    for (const TurnPlace& place : places) {
      KVGATE_TRY(auto record, Read(place));
      if (record && record->turn.tenant == tenant && record->turn.content == content) {
        return std::move(record->turn);
      }
    }
  }
  return MakeError(ErrorCode::kNotFound, kSource, "There is no turn of this content.");
}

TurnStats TurnStore::Stats() const {
  const std::lock_guard lock(mutex_);
  TurnStats stats = counts_;
  stats.enabled = options_.enabled;
  stats.num_turns = totals_.num_turns;
  stats.num_conversations = totals_.num_conversations;
  stats.bytes = totals_.bytes;
  stats.bytes_max = options_.bytes_max;
  return stats;
}

}  // namespace kvgate::store::meta
