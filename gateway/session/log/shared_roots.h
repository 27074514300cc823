// SharedRoots knows which sessions there are at gateways that share their turns: each says so, in a
// map that they share, of those that it begins or goes on with, so that others can list them and
// remove all of a tenant. A session is named by the id of its root.
//
// Thread-safe; it waits for the store, so it is called on workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/lru_map.h"
#include "store/shared/shared_map.h"

namespace kvgate::session::log {

class SharedRoots {
 public:
  struct Options {
    std::chrono::milliseconds call_time_max{250};
    std::chrono::milliseconds hear_time_max{1'000};
    std::chrono::seconds renewed{86'400};  // one that goes on is said again after so long
  };
  // The map is listed, and outlives it.
  SharedRoots(const Options& options, store::shared::SharedMap& map)
      : options_(options), map_(map) {}
  explicit SharedRoots(store::shared::SharedMap& map) : SharedRoots(Options(), map) {}

  struct Name {
    std::string_view tenant = {};
    std::string_view root = {};
  };
  enum class When : uint8_t { kNotSaidLately, kAnyway };  // kAnyway: the store has forgotten it
  // Says that a session is there. What cannot be said now is said by a later call.
  void Say(const Name& name, When when = When::kNotSaidLately);
  // Hears which were said since the last call, as many as the time allows.
  void Hear();
  // Returns those of a tenant that were heard of, the oldest first.
  std::vector<std::string> Of(std::string_view tenant) const;
  // The session is gone.
  void Drop(const Name& name);

 private:
  static constexpr size_t kSaidMax = 65'536;
  static constexpr size_t kUnsaidMax = 4'096;
  static constexpr size_t kHeardMax = 65'536;  // of all tenants
  static constexpr size_t kKeysAtOnce = 128;

  using Owned = std::pair<std::string, std::string>;  // tenant, root
  void SayUnsaid();
  bool SayOne(const Owned& name);
  // The following REQUIRE mutex_ held.
  void Add(const std::string& tenant, const std::string& root);
  void ForgetHeard();

  const Options options_;
  store::shared::SharedMap& map_;
  std::mutex hearing_mutex_;  // held while the store is asked what was said; before mutex_
  mutable std::mutex mutex_;  // of all that follows; nobody waits for the store with it
  LruMap<std::string, SteadyClock::time_point> said_{kSaidMax};  // by the map's key
  std::deque<Owned> unsaid_;
  store::shared::SharedMap::Position position_;
  // By tenant and root, when it was heard of first: numbers that grow.
  std::unordered_map<std::string, std::unordered_map<std::string, uint64_t>> heard_;
  size_t num_heard_ = 0;
  uint64_t last_number_ = 0;
};

}  // namespace kvgate::session::log
