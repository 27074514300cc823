// MemoryBook: facts and preferences of tenants and of their sessions, durable and sealed in the
// meta store. What a tenant's memory says holds for all its sessions; a session's own says more, or
// says it otherwise. Tenants share nothing.
//
// With a SharedMap, gateways that share it have the same memories. Each read asks it and takes in
// what others have changed, and each change is made on what stands there and set if nobody was
// faster. Where it cannot be asked in time, the gateway goes on with what it has; Exchange says
// later what was changed meanwhile. What two changes come to that knew nothing of each other,
// kept_memory.h says: of one fact the later one holds, and what was removed does not come back for
// 30 days. A value of the store that is damaged is set anew by who has the memory; one that cannot
// be read for want of a secret, or of a newer version, is left there. Both are counted.
//
// Thread-safe; it waits for the disk, and at most Options::shared_wait for the shared store.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/metrics/registry.h"
#include "gateway/session/memory/entry.h"
#include "gateway/session/memory/kept_memory.h"
#include "store/meta/meta_store.h"
#include "store/shared/shared_map.h"

namespace kvgate::session::memory {

class MemoryBook {
 public:
  // Of a tenant's sessions, that have a memory of their own.
  static constexpr size_t kSessionsMax = 10'000;

  struct Place {
    std::string_view tenant = {};
    std::string_view session = {};  // its key; empty: the tenant's own
  };
  struct Options {
    store::meta::MetaStore& meta;  // outlives the book
    // The gateways that share memories have it; not listed. Null: nobody does. Outlives the book.
    store::shared::SharedMap* shared = nullptr;
    std::chrono::milliseconds shared_wait{250};  // of one read or change
    // Asked at the start of memories that are older than `orphan_age_us`: without their session
    // they go.
    std::function<bool(const Place& place)> has_session = {};
    int64_t orphan_age_us = int64_t{30} * 86'400 * 1'000'000;
    std::function<int64_t()> now_us = {};  // microseconds since 1970; empty: the system's clock
  };
  // Reads all rows, seals anew what an older secret has sealed, and drops damaged ones. These and
  // rows whose secret is missing, which stay, are logged as absent.
  static Result<std::unique_ptr<MemoryBook>> Open(Options options);

  // An empty memory where there is none.
  Result<Memory> Get(const Place& place);
  // What holds for a session: the tenant's entries, then the session's, of which those of the same
  // name stand in the tenant's places; and its switch, else the tenant's.
  Result<Memory> Holding(const Place& session);
  // Changes a memory, durably on return. Fails as `change` does, and with kInvalidArgument for one
  // that is too large. `change` is called again if another gateway was faster.
  using Change = std::function<Result<void>(Memory& memory)>;
  Result<Memory> Update(const Place& place, const Change& change);
  // Deletes it. There may be none.
  Result<void> Remove(const Place& place);

  // Says to other gateways what they have not heard, some of it in each call: what was changed
  // while the shared store was away, and what was removed here, should it have forgotten that. For
  // a thread of the background; one at a time.
  void Exchange();
  void Collect(metrics::TextWriter& writer) const;

 private:
  using TimePoint = SteadyClock::time_point;
  // A memory as it stands in the shared store.
  struct Theirs {
    bool is_known = false;  // false: it could not be asked
    store::shared::SharedMap::Value::State state = {};
    std::string version = {};
    KeptMemory kept = {};  // empty unless `state` is kThere
  };
  struct Counts {
    size_t num_said = 0;     // memories that say something
    size_t num_removed = 0;  // of which only removals are remembered
  };

  explicit MemoryBook(Options options) : options_(std::move(options)) {}
  Result<void> Restore();
  std::string KeyOf(const Place& place) const;
  store::meta::MetaWrite WriteOf(const Place& place, const KeptMemory& kept) const;
  std::mutex& MutexOf(const std::string& key) const;
  Result<KeptMemory> ReadRow(const std::string& key) const;
  // Writes `kept` in the place of `before`; a row of removals alone may be left out.
  Result<void> WriteRow(const Place& place, const KeptMemory& before, const KeptMemory& kept);
  bool HasRoom(const std::string& key, const KeptMemory& before, const KeptMemory& kept) const;
  std::vector<Theirs> Ask(std::span<const Place> places, TimePoint deadline);
  // The following REQUIRE the place's mutex held. Agree brings together what is here and there.
  Result<KeptMemory> Agree(const Place& place, Theirs theirs, TimePoint deadline);
  // Sets `kept` in the store and notes if that was done; false: somebody was faster, and `theirs`
  // was asked for again.
  bool Tell(const Place& place, KeptMemory& kept, Theirs& theirs, TimePoint deadline);
  void NoteTold(const std::string& key, const KeptMemory& kept);
  void FindRemovals();
  TimePoint Deadline() const { return SteadyClock::now() + options_.shared_wait; }

  static constexpr size_t kMutexes = 64;
  static constexpr size_t kToldAtOnce = 64;

  const Options options_;
  mutable std::array<std::mutex, kMutexes> mutexes_;  // of places; held while one is changed
  mutable std::mutex mutex_;                          // guards the following
  std::map<std::string, Counts> num_rows_;            // of tenants, by the beginning of their keys
  std::map<std::string, MemoryOwner> untold_;         // by key: others have to hear of them
  std::string life_;                                  // of the shared map, for Exchange alone
  std::string told_last_;                             // a key, for Exchange alone
  std::atomic<bool> has_logged_{false};               // that something could not be read
  std::atomic<bool> has_logged_unkept_{false};        // that something is not kept here
  std::atomic<uint64_t> num_damaged_{0};
  std::atomic<uint64_t> num_foreign_{0};
  std::atomic<uint64_t> num_conflicts_{0};
};

}  // namespace kvgate::session::memory
