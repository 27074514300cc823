// SharedTurns keeps the turns of sessions in logs that gateways share, so that a session goes on at
// any of them. Each gateway has what it has seen of them in its own turn store, from which it
// reads.
//
// A session's tree has one log (store/shared/shared_logs.h). What others added is taken in before
// the session is read; what is added here is added there first, and of two gateways that go on from
// the same state the slower one is refused. While the store cannot be reached, turns are stored
// here alone, and added to the log once it is: then it may have branches that nobody saw.
//
// Thread-safe; it waits for the store and the disk, so it is called on workers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/lru_map.h"
#include "base/result.h"
#include "gateway/session/log/shared_entry.h"
#include "gateway/session/log/shared_roots.h"
#include "store/meta/turn_store.h"
#include "store/shared/shared_logs.h"

namespace kvgate::session::log {

class SharedTurns {
 public:
  // All outlive it. `sessions` is the map of SharedRoots; without it nobody hears which trees there
  // are.
  SharedTurns(store::meta::TurnStore& turns, store::shared::SharedLogs& logs,
              store::shared::SharedMap* sessions = nullptr)
      : turns_(turns),
        logs_(logs),
        roots_(sessions != nullptr ? std::make_unique<SharedRoots>(*sessions) : nullptr) {}

  // A tree, by the id of its root.
  struct Tree {
    std::string_view tenant = {};
    std::string_view root = {};
  };
  // How many entries others have added to a tree, as far as it is known here.
  using Seen = uint64_t;

  // Returns the root of the tree in which a turn is, from here or from there; empty: it is nowhere.
  std::string RootOf(std::string_view tenant, std::string_view id) const;
  // Takes in what others have added. What cannot be asked stays as it is.
  void Refresh(const Tree& tree);
  // Takes in trees of a tenant that others began and of which nothing is here, the newest of them
  // where there are many; returns how many came.
  size_t TakeInOthers(std::string_view tenant);
  Seen SeenOf(const Tree& tree) const;
  // The id of the newest turn by the log's order, in which all gateways agree; empty: not known.
  std::string LastOf(const Tree& tree) const;
  // Adds turns whose root is that of the tree, or stands first among them. With `seen`, returns
  // kCancelled if others have added to the tree since. Other errors are those of the turn store.
  Result<void> Append(const Tree& tree, std::vector<store::meta::Turn> turns,
                      std::optional<Seen> seen = std::nullopt);
  // Deletes a turn, or a whole tree, everywhere. Returns kUnavailable if the store cannot be
  // reached, because what was deleted here alone would come back.
  Result<void> Delete(const Tree& tree, std::string_view id);
  Result<void> Purge(const Tree& tree);

 private:
  struct State {
    store::shared::SharedLogs::State log = {};  // as far as it was taken in
    Seen num_of_others = 0;
    std::string last = {};  // the id of the newest turn
    bool is_known = false;  // what is here and what is there have been compared
  };
  State StateOf(const std::string& name) const;
  void Keep(const std::string& name, const State& state);
  // The following REQUIRE the tree's mutex held.
  Result<void> TakeIn(const Tree& tree, State& state);
  void Apply(const Tree& tree, const std::vector<SharedEntry>& entries, State& state);
  void Store(std::vector<store::meta::Turn>& turns);
  Result<void> AddOwn(const Tree& tree, const std::vector<SharedEntry>& there, State& state);
  struct Addition {
    std::vector<std::string> entries = {};
    std::vector<std::string> ids = {};  // by which the tree is found from now on
    std::optional<Seen> seen = {};
    bool clears = false;
  };
  Result<void> Publish(const Tree& tree, const Addition& addition, State& state);
  std::mutex& MutexOf(const std::string& name) const;

  static constexpr size_t kStatesMax = 65'536;
  static constexpr size_t kTakenMax = 256;  // of one call of TakeInOthers
  static constexpr size_t kMutexes = 64;

  store::meta::TurnStore& turns_;
  store::shared::SharedLogs& logs_;
  const std::unique_ptr<SharedRoots> roots_;  // null: without a map
  mutable std::array<std::mutex, kMutexes> tree_mutexes_;
  mutable std::mutex states_mutex_;
  mutable LruMap<std::string, State> states_{kStatesMax};
};

}  // namespace kvgate::session::log
