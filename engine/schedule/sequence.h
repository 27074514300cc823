// Sequence: one request while the engine works on it: its tokens, its blocks and how far its KV is.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>

#include "engine/kv/block_hasher.h"
#include "engine/kv/block_pool.h"
#include "base/clock.h"

namespace kvgate::schedule {

using Clock = tier::Clock;

enum class SequenceState : uint8_t {
  kWaiting,    // holds no blocks
  kRestoring,  // a load from the store is under way into some of its blocks
  kRunning,
};

// What the owner attaches to a sequence; the scheduler never looks inside.
struct SequenceOwnerData {
  virtual ~SequenceOwnerData() = default;
};

// A stored part of a prompt that was computed anew.
struct GivenUpLoad {
  enum class Reason : uint8_t {
    kNone,
    kNotWorthIt,  // computing was expected to be quicker: it was never begun
    kLate,        // it fell behind computing
    kDamaged,     // a record was not what it should be, or gone
  };
  Reason reason = Reason::kNone;
  int num_tokens = 0;
  double load_seconds = 0;     // expected, if never begun; else taken so far
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

// What a sequence holds in a KV group whose layers see a window only: the blocks from `first` on.
// Those before have slid out.
struct HeldWindow {
  int first = 0;
  std::vector<kv::BlockRef> blocks;  // of the blocks first, first + 1, ...
  std::vector<BlockId> block_table;  // as kernels take it; before `first` anything
  int end() const { return first + static_cast<int>(blocks.size()); }
};

struct Sequence {
  RequestId id;
  std::string salt;
  std::vector<TokenId> tokens;  // the prompt, then what was sampled
  int num_prompt_tokens = 0;
  int num_stable_tokens = 0;  // of the prompt: what others will probably begin with
  std::unique_ptr<SequenceOwnerData> owner;

  SequenceState state = SequenceState::kWaiting;
  uint32_t tenant = 0;            // the salt's number, see WaitingLine
  bool is_long = false;           // the lane, decided when it came
  int num_cached_at_arrival = 0;  // of its prompt, in memory
  int num_passed_over = 0;        // others of its lane that went first
  int num_bypassed = 0;           // others that were admitted while there was no room for it
  // While it waits for another sequence to compute tokens that both begin with: which, and how
  // many.
  RequestId waits_for{};
  int num_tokens_awaited = 0;
  bool was_single_flight = false;

  // KV. Tokens [0, num_computed) have theirs in blocks; block i holds positions [32 i, 32 i + 32).
  int num_computed = 0;
  // Tokens that a context policy took out of `blocks`, whole blocks of them: what is left has moved
  // up, and token t is in slot t - num_dropped_tokens. From the first drop on the blocks are the
  // sequence's own, and the prefix cache gets nothing of it any more.
  int num_dropped_tokens = 0;
  std::vector<uint64_t> block_mass;  // see SequenceRows; empty where no policy asks for it
  int first_mass_token = 0;          // whose attention counts in it; no hit goes farther
  std::vector<kv::BlockRef> blocks;
  std::vector<BlockId> block_table;  // the ids of `blocks`, as kernels take them
  kv::BlockKey root;
  std::vector<kv::BlockKey> keys;   // of full blocks of `tokens`, as far as they were needed
  int num_offered_blocks = 0;       // full blocks offered to the prefix cache
  int num_stored_blocks = 0;        // leading blocks on disk, or on their way there
  std::vector<HeldWindow> windows;  // one for each group beside group 0
  // Tokens behind which another prompt may go on (besides the prompt's own end and that of its
  // stable part): the windows before them are worth keeping.
  std::vector<int> places;
  bool skips_disk = false;             // a load of windows has failed: it is not tried again
  uint64_t load_ticket = 0;            // while kRestoring
  int num_restoring_blocks = 0;        // asked of the store, behind num_computed
  double restore_compute_seconds = 0;  // what computing them instead would take
  GivenUpLoad given_up;                // the last one
  // While blocks of its prefix are being copied from host memory: it is in no step until that is
  // done. See Backend::WriteKvBlocks.
  uint64_t copy_ticket = 0;
  // While its owner waits for what the next token needs: it is in no step.
  bool awaits_mask = false;

  // Where the prompt's beginning came from, at the first admission.
  bool admitted_before = false;
  int num_device_tokens = 0;
  int num_host_tokens = 0;
  int num_disk_tokens = 0;
  int num_prefilled_tokens = 0;  // of the prompt, computed; again after a preemption counts again
  int num_preemptions = 0;

  Clock::time_point submitted_at;
  Clock::time_point admitted_at;
  Clock::time_point restore_began_at;
  Clock::time_point restored_at;
  Clock::time_point first_token_at;

  int num_tokens() const { return static_cast<int>(tokens.size()); }
  int num_pending() const { return num_tokens() - num_computed; }
  int num_slots() const { return num_computed - num_dropped_tokens; }
  bool counts_mass() const { return !block_mass.empty() && num_computed >= first_mass_token; }
  // The next step samples from the last token's logits and needs no more than one token.
  bool is_decoding() const { return num_pending() == 1 && num_tokens() > num_prompt_tokens; }
};

}  // namespace kvgate::schedule
