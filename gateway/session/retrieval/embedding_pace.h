// EmbeddingPace: of which sessions passages are being embedded, and when a tenant's texts may be
// sent to a model again that failed: one that is down is not asked, or waited for, with every turn.
// Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/lru_map.h"

namespace kvgate::session::retrieval {

class EmbeddingPace {
 public:
  // What is embedded: a slow model may be of use for passages, and answer no question in time.
  enum class Use : uint8_t { kPassages, kQuestion };
  static constexpr size_t kNumUses = static_cast<size_t>(Use::kQuestion) + 1;

  // A session whose passages are being embedded, for as long as this lives.
  class Ticket {
   public:
    Ticket(EmbeddingPace& pace, std::string_view tenant, std::string_view key)
        : pace_(pace), name_(tenant, key) {}
    ~Ticket() { pace_.End(*this); }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

   private:
    friend class EmbeddingPace;
    EmbeddingPace& pace_;
    const std::pair<std::string, std::string> name_;
  };

  // Returns null if that is under way, or a pause lasts.
  std::unique_ptr<Ticket> Begin(std::string_view tenant, std::string_view key);
  bool IsPaused(std::string_view tenant, Use use) const;
  // How a request ended. After a failure comes a pause, twice as long after each further one.
  void Note(std::string_view tenant, Use use, bool is_made);

  struct Counts {
    std::array<uint64_t, kNumUses> num_failed = {};
  };
  Counts counts() const;

 private:
  struct State {
    uint32_t num_failures = 0;  // in a row
    SteadyClock::time_point until = {};
  };
  static constexpr size_t kTenantsMax = 10'000;  // whose failures are remembered
  void End(const Ticket& ticket);
  // REQUIRES: mutex_ held.
  bool IsPausedNow(std::string_view tenant, Use use) const;

  mutable std::mutex mutex_;
  std::set<std::pair<std::string, std::string>> running_;
  struct States : LruMap<std::string, State> {
    States() : LruMap(kTenantsMax) {}
  };
  std::array<States, kNumUses> states_;
  Counts counts_;
};

}  // namespace kvgate::session::retrieval
