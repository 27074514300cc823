// MemoryBook: facts and preferences of tenants and of their sessions, durable and sealed in the
// meta store. What a tenant's memory says holds for all its sessions; a session's own says more, or
// says it otherwise. Tenants share nothing. Thread-safe; it waits for the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/memory/entry.h"
#include "store/meta/meta_store.h"

namespace kvgate::session::memory {

// What is kept of a session, or of a tenant.
struct Memory {
  Entries entries = {};
  std::optional<bool> retrieves = {};  // its switch of retrieval; absent: as configured
  int64_t updated_us = 0;              // since 1970; 0: there is none
  bool is_empty() const { return entries.empty() && !retrieves; }
};

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
  Result<Memory> Get(const Place& place) const;
  // What holds for a session: the tenant's entries, then the session's, of which those of the same
  // name stand in the tenant's places; and its switch, else the tenant's.
  Result<Memory> Holding(const Place& session) const;
  // Changes a memory, durably on return. Fails as `change` does, and with kInvalidArgument for one
  // that is too large.
  using Change = std::function<Result<void>(Memory& memory)>;
  Result<Memory> Update(const Place& place, const Change& change);
  // Deletes it. There may be none.
  Result<void> Remove(const Place& place);

 private:
  explicit MemoryBook(Options options) : options_(std::move(options)) {}
  Result<void> Restore();
  std::string KeyOf(const Place& place) const;
  store::meta::MetaWrite WriteOf(const Place& place, const Memory& memory) const;

  const Options options_;
  std::mutex mutex_;                        // held by writers
  std::map<std::string, size_t> num_rows_;  // of tenants, by the beginning of their keys
};

}  // namespace kvgate::session::memory
