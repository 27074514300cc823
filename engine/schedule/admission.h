// Admission: lets a waiting sequence run. The prefix in the pool is shared, the part in the host
// arena is copied back, and the part in a store is restored, as far as that is quicker than
// computing; blocks for the whole prompt are acquired. A sequence whose next block another sequence
// is computing waits for that one instead (single_flight.h), and one whose blocks may be in the
// shared store waits for what the store says (look_ups.h).
//
// A hit ends at a resume point, whose windows are available in every KV group. Copies from the host
// arena run beside the steps if the pool is on a device: the sequence and others may reference the
// blocks while they are still being copied. Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/kv/prefix_cache.h"
#include "engine/schedule/bounded_context.h"
#include "engine/schedule/cost_model.h"
#include "engine/schedule/look_ups.h"
#include "engine/schedule/prefix_offers.h"
#include "engine/schedule/restorer.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/single_flight.h"
#include "engine/schedule/window_groups.h"
#include "engine/tier/kv_group.h"
#include "engine/tier/store_tiers.h"

namespace kvgate::schedule {

class Admission {
 public:
  enum class Outcome { kAdmitted, kNoRoom, kOverQuota, kAwaitsAnother };
  // All members outlive it.
  struct Parts {
    const SequenceList& running;
    tier::KvGroups& groups;
    tier::StoreTiers stores = {};
    const CostModel& costs;
    WindowGroups& windows;
    BoundedContext& context;
    SingleFlight& single_flight;
    LookUps& look_ups;
    PrefixOffers& offers;
    Restorer& restorer;
  };
  // tenant_kv_share is the share of the pools for one tenant's running sequences.
  Admission(double tenant_kv_share, const Parts& parts);

  // Counts tokens in the pool or the host arena, which cost next to nothing to restore.
  int CountCachedTokens(const Sequence& sequence) const;
  // Gives the sequence its blocks and starts the loads it needs; the caller then moves it to the
  // running ones. If it is not admitted, or if memory runs out, it keeps waiting and holds nothing.
  Outcome Try(Sequence& sequence);

 private:
  // The cached prefix of a sequence; the tiers' parts follow each other in the order of the
  // members.
  struct Hit {
    kv::PrefixMatch match = {};
    std::vector<kv::BlockRef> on_host = {};
    bool is_cut = false;               // the host has more of it, but computing that is quicker
    tier::StoreTier* store = nullptr;  // of the following; null: none has more
    int num_stored = 0;
    bool loads_whole = false;  // what is stored is useful only as a whole, windows included
    std::vector<tier::LoadItem> stored_windows = {};
    // The last resume point whose windows are in memory. It may be before the end of the blocks in
    // memory until the hit is cut.
    int resume_point = 0;
    int num_in_memory() const { return static_cast<int>(match.blocks.size() + on_host.size()); }
    int num_blocks() const { return num_in_memory() + num_stored; }
  };
  Outcome Admit(Sequence& sequence);
  Hit FindInMemory(Sequence& sequence);
  void CutToHostSpeed(Hit& hit) const;
  bool AwaitsAnother(Sequence& sequence, const Hit& hit);
  bool AwaitsLookUp(Sequence& sequence, const Hit& hit);
  void AddStored(Sequence& sequence, Hit& hit);
  void CutToResumePoint(Sequence& sequence, Hit& hit);
  // What a store has behind the blocks in memory, of a model with windows.
  struct StoredPart {
    tier::StoreTier* store = nullptr;
    int num_stored = 0;
    int resume_point = 0;  // the last one whose windows are in memory or in that store
  };
  std::vector<StoredPart> StoredParts(const Sequence& sequence, const Hit& hit) const;
  bool RunsAlone(const Sequence& sequence) const;
  Outcome CheckRoom(const Sequence& sequence, int num_new) const;
  Outcome CheckWindowRoom(const Sequence& sequence) const;
  void Start(Sequence& sequence, Hit hit);
  void RestoreFromHost(Sequence& sequence, std::vector<kv::BlockRef> on_host);
  void TouchOnDisk(const Sequence& sequence, int num_used);
  void BeginLoad(Sequence& sequence, Hit hit);

  const double tenant_kv_share_;
  const uint32_t tenant_blocks_max_;
  const Parts parts_;
  tier::FullGroup& full_;
};

}  // namespace kvgate::schedule
