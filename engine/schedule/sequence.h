// Sequence: one request while the engine works on it: its tokens, its blocks and its progress.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "engine/kv/block_hasher.h"
#include "engine/kv/block_pool.h"
#include "kernels/backend.h"

namespace kvgate::schedule {

using Clock = SteadyClock;

// Returns how many KV blocks hold the KV of that many tokens.
inline int BlocksFor(int num_tokens) {
  return (num_tokens + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
}

enum class SequenceState : uint8_t {
  kWaiting,    // holds no blocks
  kRestoring,  // a load from the store is under way into some of its blocks
  kRunning,
};

// Data that the owner attaches to a sequence; the scheduler does not read it.
struct SequenceOwnerData {
  virtual ~SequenceOwnerData() = default;
};

// A stored part of a prompt that was computed anew.
struct GivenUpLoad {
  enum class Reason : uint8_t {
    kNone,
    kNotWorthIt,  // computing was expected to be quicker, so the load never began
    kLate,        // it fell behind computing
    kDamaged,     // a record was missing or corrupt
  };
  Reason reason = Reason::kNone;
  int num_tokens = 0;
  double load_seconds = 0;     // time spent so far; the expected time if the load never began
  double compute_seconds = 0;  // expected
};

constexpr std::string_view NameOf(GivenUpLoad::Reason reason) {
  switch (reason) {
    case GivenUpLoad::Reason::kNone:
      return "";
    case GivenUpLoad::Reason::kNotWorthIt:
      return "not_worth_it";
    case GivenUpLoad::Reason::kLate:
      return "late";
    case GivenUpLoad::Reason::kDamaged:
      return "damaged";
  }
  return "";
}

// The blocks that a sequence holds in one KV group.
struct HeldBlocks {
  int first = 0;                     // those before it have slid out of the group's window
  std::vector<kv::BlockRef> blocks;  // blocks first, first + 1, ...
  // The table that kernels take; its entries before `first` are arbitrary.
  std::vector<BlockId> block_table;

  int end() const { return first + static_cast<int>(blocks.size()); }
  // Adds blocks at the end; changes nothing if it throws.
  void Append(std::vector<kv::BlockRef> added) {
    blocks.reserve(blocks.size() + added.size());
    block_table.reserve(block_table.size() + added.size());
    for (kv::BlockRef& block : added) {
      block_table.push_back(block.id());
      blocks.push_back(std::move(block));
    }
  }
  void Release() {
    kv::ReleaseLastToFirst(blocks);
    block_table.clear();
    first = 0;
  }
};

struct Sequence {
  RequestId id;
  std::string salt;
  std::vector<TokenId> tokens;  // the prompt, then the sampled tokens
  int num_prompt_tokens = 0;
  int num_stable_tokens = 0;  // leading prompt tokens that other requests will probably share
  std::unique_ptr<SequenceOwnerData> owner;

  SequenceState state = SequenceState::kWaiting;
  uint32_t tenant = 0;            // number of its salt, see WaitingQueue
  bool is_long = false;           // its lane, decided on arrival
  int num_cached_at_arrival = 0;  // prompt tokens that were cached in memory then
  int num_passed_over = 0;        // times that another sequence of its lane went first
  int num_bypassed = 0;           // sequences admitted while there was no room for this one
  // The leader that this sequence waits for, and the number of leading tokens that both share and
  // the leader must compute first; 0 means that it waits for none.
  RequestId waits_for{};
  int num_tokens_awaited = 0;
  bool was_single_flight = false;

  // KV. Tokens [0, num_computed) have KV in blocks; block i holds positions [32 i, 32 i + 32).
  std::vector<HeldBlocks> held = std::vector<HeldBlocks>(1);  // by KV group
  int num_computed = 0;
  // Tokens that a context policy removed from the blocks, in whole ones. The remaining blocks have
  // moved up: token t is in slot t - num_dropped_tokens. From the first drop on the blocks belong
  // to the sequence alone, which offers nothing more to the prefix cache.
  int num_dropped_tokens = 0;
  std::vector<uint64_t> block_mass;  // see SequenceRows; empty unless the policy needs it
  int first_mass_token = 0;  // first token whose attention counts in it; hits end at or before it
  kv::BlockKey root;
  std::vector<kv::BlockKey> keys;  // of the full blocks of `tokens`, as far as needed
  int num_offered_blocks = 0;      // full blocks offered to the prefix cache
  int num_stored_blocks = 0;       // leading blocks on disk or being written
  int num_shared_blocks = 0;       // the same in the shared store
  // Token counts at which another prompt may resume (besides the ends of the prompt and of its
  // stable part): the windows before them are worth keeping.
  std::vector<int> resume_points;
  bool skips_stores = false;           // a load of windows failed, so no store is tried again
  bool was_looked_up = false;          // the shared store was asked which blocks it has
  uint64_t look_up_ticket = 0;         // while it is being asked; the sequence waits
  uint64_t load_ticket = 0;            // while kRestoring
  int num_restoring_blocks = 0;        // requested from the store, following num_computed
  double restore_compute_seconds = 0;  // predicted time to compute them instead
  GivenUpLoad given_up;                // the last one
  // Set while blocks of its prefix are being copied from host memory; the sequence is in no step
  // until then. See Backend::WriteKvBlocks.
  uint64_t copy_ticket = 0;
  // True while the grammar mask for the next token is computed elsewhere; the sequence is in no
  // step.
  bool awaits_mask = false;

  // The origin of the prompt's prefix at the first admission.
  bool admitted_before = false;
  int num_device_tokens = 0;
  int num_host_tokens = 0;
  int num_disk_tokens = 0;
  int num_shared_tokens = 0;
  // Computed prompt tokens; those computed again after a preemption count again.
  int num_prefilled_tokens = 0;
  int num_preemptions = 0;

  Clock::time_point submitted_at;
  Clock::time_point admitted_at;
  Clock::time_point restore_began_at;
  Clock::time_point restored_at;
  Clock::time_point first_token_at;

  const kv::BlockKey& ParentKey(int block) const {
    return block == 0 ? root : keys[static_cast<size_t>(block) - 1];
  }
  void AddResumePoint(int num_tokens) {
    if (std::ranges::find(resume_points, num_tokens) == resume_points.end()) {
      resume_points.push_back(num_tokens);
    }
  }
  // The blocks of the full KV group, which hold all tokens but those dropped.
  HeldBlocks& full() { return held[kv::kFullGroup]; }
  const HeldBlocks& full() const { return held[kv::kFullGroup]; }
  int num_tokens() const { return static_cast<int>(tokens.size()); }
  int num_pending() const { return num_tokens() - num_computed; }
  int num_slots() const { return num_computed - num_dropped_tokens; }
  int num_slots_left() const { return full().end() * kernels::kKvBlockTokens - num_slots(); }
  bool counts_mass() const { return !block_mass.empty() && num_computed >= first_mass_token; }
  // True if the next step computes just one token, the last one sampled.
  bool is_decoding() const { return num_pending() == 1 && num_tokens() > num_prompt_tokens; }
};

using SequenceList = std::list<std::unique_ptr<Sequence>>;

// Returns the sequence with this id; null if there is none.
inline Sequence* FindById(const SequenceList& sequences, RequestId id) {
  const auto it =
      std::ranges::find_if(sequences, [id](const auto& sequence) { return sequence->id == id; });
  return it != sequences.end() ? it->get() : nullptr;
}

}  // namespace kvgate::schedule
