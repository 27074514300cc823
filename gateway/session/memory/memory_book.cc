#include "gateway/session/memory/memory_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "store/directory_migration.h"
#include "store/file/sealed_kinds.h"
#include "store/meta/turn_names.h"

namespace kvgate::session::memory {

using store::file::kMemoryKind;
using store::meta::MetaTable;
using store::meta::MetaWrite;
using store::meta::TurnName;

namespace {

constexpr std::string_view kSource = "session.memory";
constexpr MetaTable kTable = MetaTable::kPrefixes;
constexpr std::string_view kPrefix = "M";
constexpr std::chrono::seconds kRoundTimeMax{2};       // of an exchange; then the next one goes on
constexpr size_t kTenantBytes = 1 + sizeof(TurnName);  // of a key, up to its session

void Append(const TurnName& name, std::string& key) { key.append(name.begin(), name.end()); }

using State = store::shared::SharedMap::Value::State;
using Sharing = KeptMemory::Sharing;

MemoryOwner OwnerOf(const MemoryBook::Place& place) {
  return {.tenant = std::string(place.tenant), .session = std::string(place.session)};
}

Result<ReadMemory> Read(const Keyring& ring, std::string_view key, std::string_view value) {
  KVGATE_TRY(const store::file::UnsealedValue unsealed, Unseal(kMemoryKind, ring, key, value));
  Result<ReadMemory> read = ReadText(unsealed.body);
  return read ? std::move(read) : Damaged(kMemoryKind, read.error().detail);
}

}  // namespace

Result<std::unique_ptr<MemoryBook>> MemoryBook::Open(Options options) {
  if (!options.now_us) options.now_us = WallClock::NowUs;
  std::unique_ptr<MemoryBook> book(new MemoryBook(std::move(options)));
  KVGATE_TRY_VOID(book->Restore());
  return book;
}

std::string MemoryBook::KeyOf(const Place& place) const {
  const store::meta::TurnNames names(options_.meta.keyring());
  std::string key(kPrefix);
  Append(names.Tenant(place.tenant), key);
  Append(names.Session(place.tenant, place.session), key);
  return key;
}

MetaWrite MemoryBook::WriteOf(const Place& place, const KeptMemory& kept) const {
  std::string key = KeyOf(place);
  std::string value = Seal(kMemoryKind, options_.meta.keyring(), key,
                           ToText(OwnerOf(place), kept, /*with_sharing=*/true));
  return {.key = std::move(key), .value = std::move(value)};
}

std::mutex& MemoryBook::MutexOf(const std::string& key) const {
  return mutexes_[std::hash<std::string>()(key) % kMutexes];
}

Result<void> MemoryBook::Restore() {
  const Keyring& ring = options_.meta.keyring();
  std::vector<MetaWrite> writes;
  const int64_t oldest_us = options_.now_us() - options_.orphan_age_us;
  const auto visit = [&](std::string_view key, std::string_view value) {
    Result<ReadMemory> row = Read(ring, key, value);
    if (!row) {
      KVGATE_LOG(kWarning, kSource, "absent: {}", row.error().ToString());
      if (row.error().code == ErrorCode::kDataLoss)
        writes.push_back({.key = std::string(key), .value = std::nullopt});
      return true;
    }
    KeptMemory& kept = row->kept;
    const Place place{.tenant = row->owner.tenant, .session = row->owner.session};
    ForgetRemoved(kept, options_.now_us() - KeptMemory::kRemovedAgeUs);
    const bool says = !kept.memory.is_empty();
    const bool is_old = says && !place.session.empty() && kept.memory.updated_us < oldest_us;
    if (kept.is_empty() || (is_old && options_.has_session && !options_.has_session(place))) {
      writes.push_back({.key = std::string(key), .value = std::nullopt});
      return true;
    }
    MetaWrite anew = WriteOf(place, kept);
    Counts& counts = num_rows_[anew.key.substr(0, kTenantBytes)];
    ++(says ? counts.num_said : counts.num_removed);
    if (kept.sharing != Sharing::kTold) untold_[anew.key] = row->owner;
    const bool is_renamed = anew.key != key;
    if (is_renamed) writes.push_back({.key = std::string(key), .value = std::nullopt});
    if (is_renamed || !store::IsSealedWithFirst(ring, value)) writes.push_back(std::move(anew));
    return true;
  };
  KVGATE_TRY_VOID(options_.meta.Scan(kTable, kPrefix, visit));
  return writes.empty() ? Result<void>() : options_.meta.PutAll(kTable, writes);
}

Result<KeptMemory> MemoryBook::ReadRow(const std::string& key) const {
  KVGATE_TRY(const auto value, options_.meta.Get(kTable, key));
  if (!value) return KeptMemory();
  Result<ReadMemory> row = Read(options_.meta.keyring(), key, *value);
  if (row) return std::move(row->kept);
  KVGATE_LOG(kWarning, kSource, "taken for none: {}", row.error().ToString());
  return KeptMemory();
}

bool MemoryBook::HasRoom(const std::string& key, const KeptMemory& before,
                         const KeptMemory& kept) const {
  if (!before.memory.is_empty() || kept.memory.is_empty()) return true;
  const std::lock_guard lock(mutex_);
  const auto rows = num_rows_.find(key.substr(0, kTenantBytes));
  return rows == num_rows_.end() || rows->second.num_said < kSessionsMax;
}

Result<void> MemoryBook::WriteRow(const Place& place, const KeptMemory& before,
                                  const KeptMemory& kept) {
  MetaWrite write = WriteOf(place, kept);
  const std::string tenant = write.key.substr(0, kTenantBytes);
  std::unique_lock lock(mutex_);
  const Counts now = num_rows_[tenant];
  lock.unlock();
  const bool is_removal = kept.memory.is_empty() && !kept.is_empty();
  const bool has_room = now.num_removed < kSessionsMax || kept.sharing != Sharing::kTold;
  const bool stays = is_removal ? has_room : !kept.is_empty();
  if (!stays) write.value = std::nullopt;
  if (stays || !before.is_empty()) {
    KVGATE_TRY_VOID(options_.meta.PutAll(kTable, {&write, 1}));
  }
  lock.lock();
  Counts& counts = num_rows_[tenant];
  if (!before.is_empty()) --(before.memory.is_empty() ? counts.num_removed : counts.num_said);
  if (stays) ++(is_removal ? counts.num_removed : counts.num_said);
  if (counts.num_removed + counts.num_said == 0) num_rows_.erase(tenant);
  if (!stays || kept.sharing == Sharing::kTold) {
    untold_.erase(write.key);
  } else if (options_.shared != nullptr) {
    untold_[write.key] = OwnerOf(place);
  }
  return {};
}

void MemoryBook::NoteTold(const std::string& key, const KeptMemory& kept) {
  if (kept.sharing != Sharing::kTold && !kept.is_empty()) return;
  const std::lock_guard lock(mutex_);
  untold_.erase(key);
}

std::vector<MemoryBook::Theirs> MemoryBook::Ask(std::span<const Place> places, TimePoint deadline) {
  std::vector<Theirs> all(places.size());
  store::shared::SharedMap* const shared = options_.shared;
  if (shared == nullptr || shared->is_paused() || SteadyClock::now() >= deadline) return all;
  std::vector<std::string> keys;
  for (const Place& place : places) {
    keys.push_back(shared->KeyOf({.tenant = place.tenant, .name = place.session}));
  }
  const auto values = shared->Get(keys, deadline);
  if (!values) return all;
  for (size_t i = 0; i < places.size(); ++i) {
    const store::shared::SharedMap::Value& value = (*values)[i];
    Theirs& theirs = all[i];
    theirs = {.is_known = true, .state = value.state, .version = value.version};
    if (value.state == State::kThere) {
      Result<ReadMemory> read = ReadText(value.bytes);
      if (read) theirs.kept = std::move(read->kept);
      if (!read) theirs.state = State::kForeign;  // it was sealed for this place, as it is
    }
    if (theirs.state == State::kAbsent || theirs.state == State::kThere) continue;
    ++(theirs.state == State::kDamaged ? num_damaged_ : num_foreign_);
    if (has_logged_.exchange(true)) continue;
    KVGATE_LOG(kWarning, kSource,
               "a memory in the shared store cannot be read ({}); others are "
               "not logged, kvgate_shared_memory_unread_total counts them",
               theirs.state == State::kDamaged ? "damaged" : "of another secret or version");
  }
  return all;
}

bool MemoryBook::Tell(const Place& place, KeptMemory& kept, Theirs& theirs, TimePoint deadline) {
  const bool has_other = theirs.state == State::kThere;
  if (theirs.is_known && theirs.state != State::kForeign) {
    const bool is_said = has_other ? IsSame(kept, theirs.kept) : kept.is_empty();
    if (is_said) {
      kept.sharing = kept.is_empty() ? Sharing::kNever : Sharing::kTold;
      return true;
    }
    const std::string text = ToText(OwnerOf(place), kept, /*with_sharing=*/false);
    const auto set = options_.shared->Set({.name = {.tenant = place.tenant, .name = place.session},
                                           .expected = theirs.version,
                                           .bytes = text},
                                          deadline);
    if (set && *set) {
      kept.sharing = Sharing::kTold;
      return true;
    }
    if (set) {
      ++num_conflicts_;
      theirs = Ask({&place, 1}, deadline).front();
      return false;
    }
  }
  // Somebody may know of it, so that what was removed has to be remembered.
  kept.sharing = Sharing::kUntold;
  return true;
}

Result<KeptMemory> MemoryBook::Agree(const Place& place, Theirs theirs, TimePoint deadline) {
  const std::string key = KeyOf(place);
  KVGATE_TRY(const KeptMemory before, ReadRow(key));
  if (!theirs.is_known) return before;
  KeptMemory kept;
  do {
    kept = theirs.state == State::kThere ? Merged(before, theirs.kept) : before;
  } while (!Tell(place, kept, theirs, deadline));
  if (IsSame(kept, before) && kept.sharing == before.sharing) {
    NoteTold(key, kept);
    return kept;
  }
  const Result<void> written =
      HasRoom(key, before, kept)
          ? WriteRow(place, before, kept)
          : MakeError(ErrorCode::kTooLarge, kSource, "its tenant has too many memories");
  if (!written && !has_logged_unkept_.exchange(true)) {
    KVGATE_LOG(kWarning, kSource, "memories of the shared store are not kept here: {}",
               written.error().ToString());
  }
  if (written) has_logged_unkept_ = false;
  return kept;
}

Result<Memory> MemoryBook::Get(const Place& place) {
  const std::lock_guard lock(MutexOf(KeyOf(place)));
  const TimePoint deadline = Deadline();
  KVGATE_TRY(KeptMemory kept, Agree(place, Ask({&place, 1}, deadline).front(), deadline));
  return std::move(kept.memory);
}

// Both places are asked for at once; what is changed here meanwhile is merged with that.
Result<Memory> MemoryBook::Holding(const Place& session) {
  const TimePoint deadline = Deadline();
  const Place places[] = {{.tenant = session.tenant}, session};
  std::vector<Theirs> theirs = Ask(places, deadline);
  Memory held[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::lock_guard lock(MutexOf(KeyOf(places[i])));
    KVGATE_TRY(KeptMemory kept, Agree(places[i], std::move(theirs[i]), deadline));
    held[i] = std::move(kept.memory);
  }
  Memory all = std::move(held[0]);
  Apply(held[1].entries, all.entries);
  if (held[1].retrieves) all.retrieves = held[1].retrieves;
  return all;
}

Result<Memory> MemoryBook::Update(const Place& place, const Change& change) {
  const std::string key = KeyOf(place);
  const std::lock_guard lock(MutexOf(key));
  const TimePoint deadline = Deadline();  // others' changes of this memory take none of its time
  Theirs theirs = Ask({&place, 1}, deadline).front();
  KVGATE_TRY(const KeptMemory before, ReadRow(key));
  KeptMemory next;
  do {
    const KeptMemory now = theirs.state == State::kThere ? Merged(before, theirs.kept) : before;
    Memory memory = now.memory;
    KVGATE_TRY_VOID(change(memory));
    KVGATE_TRY_VOID(CheckSize(memory.entries));
    const int64_t now_us = options_.now_us();
    next = Changed(now, memory, now_us);
    const bool is_shared = options_.shared != nullptr || next.sharing != Sharing::kNever;
    ForgetRemoved(next, is_shared ? now_us - KeptMemory::kRemovedAgeUs : INT64_MAX);
    if (!HasRoom(key, before, next)) {
      return MakeError(ErrorCode::kTooLarge, kSource,
                       fmt::format("There are {} memories already; delete some that are not "
                                   "needed.",
                                   kSessionsMax));
    }
    if (options_.shared == nullptr) {
      if (next.sharing == Sharing::kTold) next.sharing = Sharing::kUntold;
      break;
    }
  } while (!Tell(place, next, theirs, deadline));
  KVGATE_TRY_VOID(WriteRow(place, before, next));
  return std::move(next.memory);
}

Result<void> MemoryBook::Remove(const Place& place) {
  const auto clear = [](Memory& memory) {
    memory = {.updated_us = memory.updated_us};
    return Result<void>();
  };
  KVGATE_TRY(const Memory left, Update(place, clear));
  return {};
}

// Removals are said again to a store that may have forgotten them: some gateway may not have heard
// of one, and would say again what it has.
void MemoryBook::FindRemovals() {
  const auto visit = [this](std::string_view key, std::string_view value) {
    const Result<ReadMemory> row = Read(options_.meta.keyring(), key, value);
    if (!row || !row->kept.has_removals()) return true;
    const std::lock_guard lock(mutex_);
    untold_[std::string(key)] = row->owner;
    return true;
  };
  if (const auto read = options_.meta.Scan(kTable, kPrefix, visit); !read) {
    KVGATE_LOG(kWarning, kSource, "removals may not be said again: {}", read.error().ToString());
  }
}

void MemoryBook::Exchange() {
  if (options_.shared == nullptr || options_.shared->is_paused()) return;
  {
    const std::lock_guard lock(mutex_);
    if (num_rows_.empty()) return;  // who remembers nothing leaves no trace there
  }
  const Result<std::string> life = options_.shared->Life(Deadline());
  if (!life) return;
  if (*life != life_) FindRemovals();
  life_ = *life;
  const TimePoint end = SteadyClock::now() + kRoundTimeMax;
  std::vector<std::pair<std::string, MemoryOwner>> some;
  {
    const std::lock_guard lock(mutex_);
    auto at = untold_.upper_bound(told_last_);
    for (; at != untold_.end() && some.size() < kToldAtOnce; ++at) some.push_back(*at);
  }
  for (const auto& [key, owner] : some) {
    if (SteadyClock::now() >= end) return;
    const Place place{.tenant = owner.tenant, .session = owner.session};
    const TimePoint deadline = Deadline();
    const std::lock_guard lock(MutexOf(key));
    Theirs theirs = Ask({&place, 1}, deadline).front();
    if (!theirs.is_known) return;
    told_last_ = key;
    (void)Agree(place, std::move(theirs), deadline);
  }
  if (some.size() < kToldAtOnce) told_last_.clear();
}

void MemoryBook::Collect(metrics::TextWriter& writer) const {
  if (options_.shared == nullptr) return;
  constexpr std::string_view kUnread = "kvgate_shared_memory_unread_total";
  writer.Family(kUnread, "counter", "Memories in the shared store that could not be read.");
  writer.Sample(kUnread, {{"reason", "damaged"}}, num_damaged_.load());
  writer.Sample(kUnread, {{"reason", "foreign"}}, num_foreign_.load());
  constexpr std::string_view kConflicts = "kvgate_shared_memory_conflicts_total";
  writer.Family(kConflicts, "counter", "Changes of memories in which another gateway was faster.");
  writer.Sample(kConflicts, {}, num_conflicts_.load());
  constexpr std::string_view kUntold = "kvgate_shared_memory_untold";
  writer.Family(kUntold, "gauge", "Memories whose changes other gateways have not heard of.");
  const std::lock_guard lock(mutex_);
  writer.Sample(kUntold, {}, untold_.size());
}

}  // namespace kvgate::session::memory
