#include "store/directory_migration.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "store/meta/pin_format.h"
#include "store/meta/turn_format.h"

namespace kvgate::store {

using meta::Less;
using meta::MetaStore;
using meta::MetaTable;
using meta::TurnMember;
using meta::WithOrder;

namespace {

constexpr MetaTable kTable = MetaTable::kTurns;
// Limits of one step; a single turn may take up to 32 MiB.
constexpr size_t kStepTurns = 64;
constexpr uint64_t kStepBytes = uint64_t{8} << 20;
constexpr size_t kSweepRows = 4096;
// Prefixes of the rows of format 1, which kept tenants, ids, sessions and contents in plain text.
constexpr std::string_view kClearRows[] = {"i", "s", "c", "m"};

struct Row {
  std::string key;
  std::string value;
};

// Turns are visited from the newest to the oldest, a limited number at a time, because the callback
// of a scan must not write.
class TurnMigration {
 public:
  TurnMigration(MetaStore& meta, MigrationReport& report)
      : meta_(meta), report_(report), names_(meta.keyring()) {}

  Result<void> Run() {
    std::string before;
    while (true) {
      KVGATE_TRY(const std::vector<Row> rows, NextRows(before));
      if (rows.empty()) break;
      before = rows.back().key;
      KVGATE_TRY_VOID(Begin());
      for (const Row& row : rows) KVGATE_TRY_VOID(Take(row));
      KVGATE_TRY_VOID(Commit());
    }
    report_.num_conversations = seen_.size();
    for (const std::string_view prefix : kClearRows) KVGATE_TRY_VOID(Sweep(prefix));
    return {};
  }

 private:
  Result<std::vector<Row>> NextRows(const std::string& before) const {
    std::vector<Row> rows;
    uint64_t bytes = 0;
    KVGATE_TRY_VOID(meta_.ScanBack(kTable, {.prefix = "t", .before = before},
                                   [&](std::string_view key, std::string_view value) {
                                     rows.push_back({std::string(key), std::string(value)});
                                     bytes += value.size();
                                     return rows.size() < kStepTurns && bytes < kStepBytes;
                                   }));
    return rows;
  }

  Result<void> Begin() {
    writes_.clear();
    conversations_.clear();
    KVGATE_TRY(const auto value, meta_.Get(kTable, meta::kTotalsKey));
    // If there are no totals, the turn store computes them when it opens.
    totals_ = value ? meta::DecodeTotals(*value) : std::nullopt;
    return {};
  }

  Result<void> Take(const Row& row) {
    const Result<meta::DecodedTurn> decoded = meta::DecodeTurn(row.key, row.value, meta_.keyring());
    if (!decoded && decoded.error().code == ErrorCode::kPermissionDenied) {
      ++report_.num_turns_foreign;
      return {};
    }
    if (!decoded) {
      KVGATE_LOG(kWarning, "store.turns", "{}; it is dropped", decoded.error().detail);
      return Drop(row);
    }
    const meta::TurnRecord& record = decoded->record;
    const meta::TurnPlace place{.order = record.turn.order, .conversation = record.conversation};
    const std::string member_key =
        WithOrder(meta::TurnMemberPrefix(place.conversation), place.order);
    KVGATE_TRY(const auto before, meta_.Get(kTable, member_key));
    const std::optional<TurnMember> old = before ? meta::DecodeMember(*before) : std::nullopt;
    TurnMember member = meta::MemberOf(record.turn, names_, row.key.size() + row.value.size());
    if (old == member && IsSealedWithFirst(meta_.keyring(), row.value)) return {};
    std::string value = meta::EncodeTurn(record, meta_.keyring());
    member.bytes = row.key.size() + value.size();
    if (old) RemoveNames(*old, place);
    KVGATE_TRY_VOID(Account(place.conversation, row.key.size() + row.value.size(), member.bytes));
    Put(row.key, std::move(value));
    Put(member_key, meta::EncodeMember(member));
    PutNames(member, place);
    seen_.insert(place.conversation);
    ++report_.num_turns;
    return {};
  }

  // Drops a turn that cannot be decoded. The row that lists it tells which conversation it belongs
  // to.
  Result<void> Drop(const Row& row) {
    ++report_.num_turns_damaged;
    const uint64_t order = meta::OrderOf(row.key);
    writes_.push_back({.key = row.key, .value = std::nullopt});
    std::optional<std::string> listed;
    for (const std::string_view prefix : {"m", "M"}) {
      KVGATE_TRY_VOID(meta_.Scan(kTable, prefix, [&](std::string_view key, std::string_view) {
        if (meta::OrderOf(key) == order) listed = std::string(key);
        return !listed;
      }));
      if (listed) break;
    }
    if (!listed) return {};
    const uint64_t conversation = meta::OrderOf(std::string_view(*listed).substr(0, 9));
    KVGATE_TRY(const auto value, meta_.Get(kTable, *listed));
    const auto member = value ? meta::DecodeMember(*value) : std::nullopt;
    if (member) RemoveNames(*member, {.order = order, .conversation = conversation});
    writes_.push_back({.key = *listed, .value = std::nullopt});
    KVGATE_TRY_VOID(Account(conversation, row.key.size() + row.value.size(), 0));
    return {};
  }

  // `bytes_after` of 0 means that the turn is removed.
  Result<void> Account(uint64_t conversation, uint64_t bytes_before, uint64_t bytes_after) {
    auto found = conversations_.find(conversation);
    if (found == conversations_.end()) {
      KVGATE_TRY(const auto value, meta_.Get(kTable, meta::TurnConversationKey(conversation)));
      const auto state = value ? meta::DecodeConversation(*value) : std::nullopt;
      found = conversations_.emplace(conversation, state.value_or(meta::TurnConversation())).first;
    }
    const auto change = [&](uint64_t& bytes) { bytes = Less(bytes, bytes_before) + bytes_after; };
    change(found->second.bytes);
    if (totals_) change(totals_->bytes);
    if (bytes_after > 0) return {};
    found->second.num_turns = Less(found->second.num_turns, 1);
    if (totals_) totals_->num_turns = Less(totals_->num_turns, 1);
    return {};
  }

  Result<void> Commit() {
    for (const auto& [conversation, state] : conversations_) {
      if (state.num_turns > 0) {
        Put(meta::TurnConversationKey(conversation), meta::EncodeConversation(state));
        continue;
      }
      writes_.push_back({.key = meta::TurnConversationKey(conversation), .value = std::nullopt});
      writes_.push_back({.key = meta::TurnAgeKey(state.last_order), .value = std::nullopt});
      if (totals_) totals_->num_conversations = Less(totals_->num_conversations, 1);
    }
    if (writes_.empty()) return {};
    if (totals_) Put(std::string(meta::kTotalsKey), meta::EncodeTotals(*totals_));
    return meta_.PutAll(kTable, writes_);
  }

  void Put(std::string key, std::string value) {
    writes_.push_back({.key = std::move(key), .value = std::move(value)});
  }
  void PutNames(const TurnMember& member, const meta::TurnPlace& place) {
    Put(meta::TurnIdKey(member.tenant, member.id), meta::EncodePlace(place));
    if (member.session) {
      Put(WithOrder(meta::TurnSessionPrefix(member.tenant, *member.session), place.order),
          meta::EncodePlace(place));
    }
    if (member.content) {
      Put(WithOrder(meta::TurnContentPrefix(member.tenant, *member.content), place.order),
          meta::EncodePlace(place));
    }
  }
  // These deletions precede writes that may put the same row again: within a batch the later one
  // wins.
  void RemoveNames(const TurnMember& member, const meta::TurnPlace& place) {
    const auto remove = [&](std::string key) {
      writes_.push_back({.key = std::move(key), .value = std::nullopt});
    };
    remove(meta::TurnIdKey(member.tenant, member.id));
    if (member.session) {
      remove(WithOrder(meta::TurnSessionPrefix(member.tenant, *member.session), place.order));
    }
    if (member.content) {
      remove(WithOrder(meta::TurnContentPrefix(member.tenant, *member.content), place.order));
    }
  }

  Result<void> Sweep(std::string_view prefix) {
    while (true) {
      std::vector<meta::MetaWrite> gone;
      KVGATE_TRY_VOID(meta_.Scan(kTable, prefix, [&](std::string_view key, std::string_view) {
        gone.push_back({.key = std::string(key), .value = std::nullopt});
        return gone.size() < kSweepRows;
      }));
      if (gone.empty()) return {};
      KVGATE_TRY_VOID(meta_.PutAll(kTable, gone));
    }
  }

  MetaStore& meta_;
  MigrationReport& report_;
  const meta::TurnNames names_;
  std::unordered_set<uint64_t> seen_;
  // State of the current step.
  std::vector<meta::MetaWrite> writes_;
  std::map<uint64_t, meta::TurnConversation> conversations_;
  std::optional<meta::TurnTotals> totals_;
};

// Ids of the turns with which conversations of stored responses begin.
constexpr std::string_view kResponsePrefixes[] = {"resp_kv", "conv_kv"};
constexpr size_t kStepConversations = 256;

// One conversation at a time is visited from the oldest on, so that sessions are listed in the
// order in which they began.
class SessionMigration {
 public:
  SessionMigration(MetaStore& meta, MigrationReport& report)
      : meta_(meta), report_(report), names_(meta.keyring()) {}

  Result<void> Run() {
    KVGATE_TRY(const auto value, meta_.Get(kTable, meta::kTotalsKey));
    totals_ = value ? meta::DecodeTotals(*value) : std::nullopt;
    KVGATE_TRY(next_order_, NextOrder());
    std::string from = meta::TurnConversationKey(0);
    while (true) {
      std::vector<uint64_t> conversations;
      const auto visit = [&](std::string_view key, std::string_view) {
        conversations.push_back(meta::OrderOf(key));
        return conversations.size() < kStepConversations;
      };
      KVGATE_TRY_VOID(meta_.ScanFrom(kTable, {.prefix = "v", .from = from}, visit));
      if (conversations.empty()) return {};
      from = meta::TurnConversationKey(conversations.back() + 1);
      for (const uint64_t conversation : conversations) KVGATE_TRY_VOID(Take(conversation));
    }
  }

 private:
  // Totals that cannot be read are made again by the turn store; orders are never used twice.
  Result<uint64_t> NextOrder() const {
    uint64_t next = totals_ ? totals_->next_order : 1;
    KVGATE_TRY_VOID(
        meta_.ScanBack(kTable, {.prefix = "t"}, [&](std::string_view key, std::string_view) {
          next = std::max(next, meta::OrderOf(key) + 1);
          return false;
        }));
    return next;
  }

  Result<void> Take(uint64_t conversation) {
    const std::string key = meta::TurnKey(conversation);
    KVGATE_TRY(const auto value, meta_.Get(kTable, key));
    if (!value) return {};
    // A turn of a missing secret stays as it is, and the turn store reports a damaged one.
    const Result<meta::DecodedTurn> decoded = meta::DecodeTurn(key, *value, meta_.keyring());
    if (!decoded) return {};
    const meta::Turn& first = decoded->record.turn;
    const bool is_response =
        std::any_of(std::begin(kResponsePrefixes), std::end(kResponsePrefixes),
                    [&](std::string_view prefix) { return first.id.starts_with(prefix); });
    return is_response ? AddRoot(first, conversation) : Result<void>();
  }

  Result<void> AddRoot(const meta::Turn& first, uint64_t conversation) {
    meta::TurnRecord root{
        .turn = {.id = "session-root:" + first.id,
                 .parent = {},
                 .tenant = first.tenant,
                 .session = "session-roots",
                 .items = {{.role = "session.root",
                            .payload = "{\"key\":\"" + first.id + "\",\"dialect\":\"responses\"}"}},
                 .tokens = {},
                 .content = {},
                 .order = next_order_,
                 .created_us = first.created_us},
        .parent_order = 0,
        .conversation = conversation};
    const meta::TurnPlace place{.order = next_order_, .conversation = conversation};
    const std::string key = meta::TurnKey(next_order_);
    std::string value = meta::EncodeTurn(root, meta_.keyring());
    const TurnMember member = meta::MemberOf(root.turn, names_, key.size() + value.size());
    const std::string id_key = meta::TurnIdKey(member.tenant, member.id);
    KVGATE_TRY(const auto there, meta_.Get(kTable, id_key));
    KVGATE_TRY(const auto row, meta_.Get(kTable, meta::TurnConversationKey(conversation)));
    auto state = row ? meta::DecodeConversation(*row) : std::nullopt;
    if (there || !state) return {};
    state->bytes += member.bytes;
    state->num_turns += 1;
    const std::string encoded = meta::EncodePlace(place);
    std::vector<meta::MetaWrite> writes = {
        {.key = key, .value = std::move(value)},
        {.key = id_key, .value = encoded},
        {.key = WithOrder(meta::TurnMemberPrefix(conversation), place.order),
         .value = meta::EncodeMember(member)},
        {.key = WithOrder(meta::TurnSessionPrefix(member.tenant, *member.session), place.order),
         .value = encoded},
        {.key = meta::TurnConversationKey(conversation),
         .value = meta::EncodeConversation(*state)}};
    if (totals_) {
      totals_->bytes += member.bytes;
      totals_->num_turns += 1;
      totals_->next_order = next_order_ + 1;
      writes.push_back({std::string(meta::kTotalsKey), meta::EncodeTotals(*totals_)});
    }
    KVGATE_TRY_VOID(meta_.PutAll(kTable, writes));
    ++next_order_;
    ++report_.num_sessions;
    return {};
  }

  MetaStore& meta_;
  MigrationReport& report_;
  const meta::TurnNames names_;
  std::optional<meta::TurnTotals> totals_;
  uint64_t next_order_ = 1;
};

}  // namespace

// A sealed body starts behind the head of 16 bytes, with one byte of version and its secret's id.
bool IsSealedWithFirst(const Keyring& ring, std::string_view value) {
  const Keyring::KeyId id = ring.sealing_key_id();
  return value.size() > 17 + id.size() && std::memcmp(value.data() + 17, id.data(), id.size()) == 0;
}

Result<void> MigrateTurns(MetaStore& meta, MigrationReport& report) {
  return TurnMigration(meta, report).Run();
}

Result<void> MigrateSessions(MetaStore& meta, MigrationReport& report) {
  return SessionMigration(meta, report).Run();
}

Result<void> MigratePins(MetaStore& meta, MigrationReport& report) {
  std::vector<std::string> keys;
  KVGATE_TRY_VOID(meta.Scan(MetaTable::kPins, "", [&](std::string_view key, std::string_view) {
    keys.emplace_back(key);
    return true;
  }));
  for (const std::string& key : keys) {
    KVGATE_TRY(const auto value, meta.Get(MetaTable::kPins, key));
    if (!value) continue;
    const auto unsealed = file::Unseal(file::kPinKind, meta.keyring(), key, *value);
    // The pin book reports damaged pins and drops them.
    if (!unsealed || IsSealedWithFirst(meta.keyring(), *value)) continue;
    KVGATE_TRY_VOID(meta.Put(MetaTable::kPins, key,
                             file::Seal(file::kPinKind, meta.keyring(), key, unsealed->body)));
    ++report.num_pins;
  }
  return {};
}

}  // namespace kvgate::store
