// SessionAdmin answers requests about a tenant's own sessions: lists, shows, forks, exports,
// imports and removes them. Its results are JSON bodies. Thread-safe; it waits for the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/ids.h"
#include "base/result.h"
#include "gateway/session/sessions.h"

namespace kvgate::session {

class SessionAdmin {
 public:
  // Removes KV from disk, from this block back to where other prefixes begin; returns how many
  // records went. Empty: there is none to be removed.
  using ForgetKv = std::function<uint64_t(BlockHash last)>;
  explicit SessionAdmin(Sessions& sessions, ForgetKv forget = {})
      : sessions_(sessions), forget_(std::move(forget)) {}

  using Place = log::SessionLog::Place;
  // Both are query parameters; empty means the default.
  struct PageArgs {
    std::string_view limit = {};   // 1 to 100
    std::string_view before = {};  // "next" of the page before
  };
  Result<std::string> List(std::string_view tenant, const PageArgs& page) const;
  // All of these return kNotFound for an unknown session, and one with source kSessionSource (409)
  // if a request holds a session that they change.
  // The newest `limit` turns of its newest branch, and what was left out of its prompt.
  Result<std::string> Show(const Place& place, const PageArgs& page) const;
  // With the KV that nothing else shares.
  Result<std::string> Remove(const Place& place, std::string_view request_id);
  // Removes all sessions of the tenant that no request holds.
  Result<std::string> Purge(std::string_view tenant, std::string_view request_id);
  // `body` is {"key": the new session's, "turn": the last one that it takes over; absent: the
  // head}.
  Result<std::string> Fork(const Place& place, std::string_view body, std::string_view request_id);
  // The newest event by which rounds are left out no longer counts; the answer names it as
  // "undone". Returns kInvalidArgument if there is none.
  Result<std::string> Undo(const Place& place, std::string_view request_id);
  // One line of JSON about the session and its memory, then one for each turn.
  Result<std::string> Export(const Place& place) const;
  // Creates a session of what Export gave, under this key or, if it is empty, under the one that it
  // had. Returns kInvalidArgument, which names the line, for anything else.
  Result<std::string> Import(const Place& place, std::string_view lines,
                             std::string_view request_id);

 private:
  Result<std::shared_ptr<void>> Hold(const Place& place, std::string_view request_id);
  Result<std::string> Describe(const Place& place) const;
  // What is kept in memory of the session, as MemoryAdmin::Put takes it; empty: nothing.
  Result<std::string> MemoryOf(const Place& place) const;
  Result<void> SetMemory(const Place& place, std::string_view body) const;

  // Returns the number of records of KV that went with it.
  Result<uint64_t> RemoveWhole(const Place& place, std::string_view request_id);

  Sessions& sessions_;
  const ForgetKv forget_;
};

}  // namespace kvgate::session
