// KeptMemory: a memory as it is kept: with the times at which its facts were set or removed, so
// that gateways which share it agree on what it says.
//
// The later of two changes of one fact holds, and a removal is a change; of two at the same
// microsecond the removal, or the value that is the greater text. Changes of different facts both
// hold. A change is later than all that was known where it was made, also where clocks differ; only
// of two that were made without knowing of each other the clocks decide. In whatever order, and
// however often, memories that fit together are merged, the result is the same. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/memory/entry.h"

namespace kvgate::session::memory {

// The memory of a session, or of a tenant.
struct Memory {
  Entries entries = {};
  std::optional<bool> retrieves = {};  // its switch of retrieval; absent: as configured
  int64_t updated_us = 0;              // since 1970; 0: there is none
  bool is_empty() const { return entries.empty() && !retrieves; }
};

struct KeptMemory {
  static constexpr size_t kRemovedMax = 128;  // names that are remembered as removed; older leave
  static constexpr int64_t kRemovedAgeUs = int64_t{30} * 86'400 * 1'000'000;  // and for how long

  enum class Sharing {
    kNever,   // no other gateway knows of it
    kTold,    // it stands in the shared store as here
    kUntold,  // it stood there, and was changed since
  };

  Memory memory = {};
  // By name, in microseconds since 1970: when a fact was set, or removed if it is not there.
  std::map<std::string, int64_t, std::less<>> changed_us = {};
  int64_t switched_us = 0;  // when the switch was set or removed; 0: never
  Sharing sharing = Sharing::kNever;

  // It says nothing, not even that something was removed.
  bool is_empty() const { return memory.is_empty() && changed_us.empty() && switched_us == 0; }
  bool has_removals() const {
    return changed_us.size() > memory.entries.size() || (!memory.retrieves && switched_us != 0);
  }
};

// The place of a memory, as it is written in it.
struct MemoryOwner {
  std::string tenant = {};
  std::string session = {};
};

// `kept` with what `next` says instead, said at `now_us`. What `next` does not have is removed.
KeptMemory Changed(const KeptMemory& kept, const Memory& next, int64_t now_us);
// Both together. Facts beyond a memory's limits are left out, those first that were
// set earliest. Facts stand in the order of `theirs`, then of `ours`.
KeptMemory Merged(const KeptMemory& ours, const KeptMemory& theirs);
// Forgets what was removed before this time.
void ForgetRemoved(KeptMemory& kept, int64_t before_us);
// True if both say the same, with the same times and in the same order.
bool IsSame(const KeptMemory& a, const KeptMemory& b);

// JSON, as store/FORMAT.md says; `with_sharing` where it stays on this gateway's disk.
std::string ToText(const MemoryOwner& owner, const KeptMemory& kept, bool with_sharing);
struct ReadMemory {
  MemoryOwner owner = {};
  KeptMemory kept = {};
};
// Fails with kDataLoss or kInvalidArgument for what is no such text.
Result<ReadMemory> ReadText(std::string_view text);

}  // namespace kvgate::session::memory
