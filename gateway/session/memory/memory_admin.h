// MemoryAdmin answers requests about what is kept in memory of a tenant, or of one of its sessions.
// Its results are JSON bodies. Thread-safe; it waits for the disk.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/memory/memory_book.h"

namespace kvgate::session::memory {

class MemoryAdmin {
 public:
  // Null: nothing is kept here, and all fail with kUnsupported.
  explicit MemoryAdmin(MemoryBook* book) : book_(book) {}

  using Place = MemoryBook::Place;
  // {"object":"memory","session":KEY or null,"facts":{…},"retrieval":true, false or
  // null,"updated_at":seconds or null}; for a session also "tenant_facts", which hold for all
  // sessions of its tenant.
  Result<std::string> Show(const Place& place) const;
  // `body` is {"facts":{NAME:VALUE,…},"retrieval":…}. Put replaces all of it; Patch merges it into
  // what is there, as RFC 7396 says: null removes. Fail with kInvalidArgument, which names the
  // field.
  Result<std::string> Put(const Place& place, std::string_view body) const;
  Result<std::string> Patch(const Place& place, std::string_view body) const;
  // Removes all of it.
  Result<std::string> Clear(const Place& place) const;
  // Removes one fact. Returns kNotFound if there is none of that name.
  Result<std::string> Remove(const Place& place, std::string_view name) const;

 private:
  Result<std::string> Write(const Place& place, const Memory& memory) const;

  MemoryBook* const book_;
};

// A memory's facts and switch as a body that Put takes: what goes with an exported session.
std::string ToBody(const Memory& memory);
// Reads such a body in the place of what the memory has. Fails as Put does.
Result<void> ReadBody(std::string_view body, Memory& memory);

}  // namespace kvgate::session::memory
