// StateTable: the states that a text can bring an automaton to, each made once and numbered, and
// where each byte leads from each of them, remembered. Not thread-safe.
//
// A state is a set of nodes, each with the set of stacks it may stand on. A stack is a frame and
// the set of stacks below it, so equal parts are kept once and an ambiguous grammar's stacks do not
// multiply (a graph-structured stack: Tomita 1985; Scott and Johnstone, "GLL Parsing", 2010).
// States, and sets of stacks, are equal if and only if their numbers are.
//
// What one byte may cost is bounded: between SetLimits and the end of the work, or of the memory,
// every function answers; behind it states are kStopped, and what was asked for can be asked again
// with more.
//
// Stacks have at most kFramesMax frames: what would need more is not taken, and that is known
// before (Node::min_frames), so a state that was reached can always come to an end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/text/grammar/mask/automaton.h"

namespace kvgate::grammar {

using StateId = uint32_t;

class StateTable {
 public:
  static constexpr StateId kDead = 0;              // no text goes on from here
  static constexpr StateId kStopped = UINT32_MAX;  // not known: a limit came before
  static constexpr uint32_t kFramesMax = Automaton::kFramesMax;

  // The automaton outlives the table.
  explicit StateTable(const Automaton& automaton);

  // From now on: so much more work, and so much memory in all.
  void SetLimits(uint64_t work_max, size_t bytes_max) {
    work_end_ = work_max < UINT64_MAX - work_ ? work_ + work_max : UINT64_MAX;
    bytes_max_ = bytes_max;
  }
  bool is_out_of_work() const { return work_ >= work_end_; }
  bool is_out_of_memory() const { return bytes() > bytes_max_; }
  bool is_stopped() const { return is_out_of_work() || is_out_of_memory(); }
  // What a user of the states does with them.
  void ChargeWork(uint64_t work) { work_ += work; }

  StateId Start();
  // REQUIRES: the state is none that is stopped.
  StateId Next(StateId state, uint8_t byte) {
    const size_t slot = size_t{state} * num_classes_ + automaton_.class_of(byte);
    const StateId known = next_[slot];
    return known != kUnset ? known : Compute(state, byte, slot);
  }
  bool can_end(StateId state) const { return states_[state].can_end; }
  // It can end and not go on.
  bool is_complete(StateId state) const { return states_[state].is_complete; }
  // Some way to it went below what Canonical left of the stacks.
  bool is_unknown(StateId state) const { return states_[state].is_unknown; }
  // Of the shortest text that leads to an end.
  uint32_t min_bytes(StateId state) const { return states_[state].min_bytes; }

  // A state that all states share which the next kHorizonBytes bytes cannot tell apart: only the
  // upper frames of the stacks, and counts that are far from their bounds all alike. As long as
  // what follows is not longer and does not come to an unknown state, it is taken from here exactly
  // if it is taken from `state`.
  StateId Canonical(StateId state);
  // Of a canonical state: it is that of itself alone, so that all is decided from it.
  bool is_exact(StateId canonical) const { return states_[canonical].is_exact; }
  static constexpr uint32_t kHorizonBytes = 24;
  static constexpr uint32_t kHorizonFrames = 4;

  // The same state of another table of the same automaton.
  StateId Import(const StateTable& other, StateId state);

  size_t num_states() const { return states_.size(); }
  // Of memory, roughly.
  size_t bytes() const {
    constexpr size_t kMapEntryBytes = 48;
    return frame_pool_.capacity() * sizeof(Frame) + item_pool_.capacity() * sizeof(Item) +
           stacks_.capacity() * sizeof(Stacks) + states_.capacity() * sizeof(State) +
           next_.capacity() * sizeof(StateId) + reached_at_.capacity() * sizeof(uint32_t) +
           (stacks_.size() + states_.size()) * kMapEntryBytes +
           (unions_.size() + truncations_.size()) * kMapEntryBytes + large_union_bytes_;
  }
  // Grows with every step of work that was done: bounds what a grammar may cost.
  uint64_t work() const { return work_; }

 private:
  using StacksId = uint32_t;
  static constexpr StacksId kNoStacks = 0;
  static constexpr uint32_t kUnset = UINT32_MAX;

  struct Frame {
    NodeId node = 0;     // where to go on
    uint32_t count = 0;  // of a kRepeat: how often it has been gone through
    StacksId below = 0;
    friend bool operator==(const Frame&, const Frame&) = default;
    uint64_t key() const { return uint64_t{node} << 32 | count; }
  };
  struct Stacks {
    uint32_t begin = 0;  // frames, ascending by key, each key once
    uint32_t end = 0;
    uint32_t depth = 0;
    uint32_t min_bytes = 0;
    bool is_whole = true;  // nothing is left out of it, nor may be
  };
  struct Item {
    NodeId node = 0;
    StacksId stacks = 0;
    friend bool operator==(const Item&, const Item&) = default;
  };
  struct State {
    uint32_t begin = 0;  // items, ascending by node, each node once
    uint32_t end = 0;
    uint32_t min_bytes = 0;
    StateId canonical = kUnset;
    bool can_end = false;
    bool is_complete = false;
    bool is_unknown = false;
    bool is_exact = false;
  };

  std::span<const Frame> frames(StacksId id) const;
  std::span<const Item> items(StateId id) const;
  StacksId InternStacks(const std::vector<Frame>& sorted);
  StacksId StacksOf(Frame frame);
  StateId InternState(const std::vector<Item>& sorted);
  // Of all of them at once: in turn each union would be made that is not asked for, which takes
  // the square of their number. The vector is used up.
  StacksId Unite(std::vector<StacksId>& all);
  StacksId UniteFrames(std::span<const StacksId> all);
  bool IsWhole(const Frame& frame) const;
  StacksId Truncate(StacksId id, uint32_t frames_left);
  StacksId ImportStacks(const StateTable& other, StacksId id,
                        std::unordered_map<StacksId, StacksId>& known);
  uint32_t ClampCount(const Node& node, uint32_t count) const;
  uint32_t FrameMinBytes(const Frame& frame) const;
  // Frames of equal keys become one.
  void SortAndUnite(std::vector<Frame>& frames);

  StateId Compute(StateId state, uint8_t byte, size_t slot);
  // Reaching: the nodes that are come to without a byte. What a node is come to with is united when
  // its turn has come, not before.
  struct Reached {
    NodeId node = 0;
    StacksId stacks = kUnset;     // that it was passed with
    uint32_t additions = kUnset;  // the last of what came since
    bool is_pending = false;
  };
  struct Addition {
    StacksId stacks = 0;
    uint32_t before = kUnset;
  };
  bool TakeAdditions(Reached& reached);
  void Reach(NodeId node, StacksId stacks);
  void Pass(NodeId node, StacksId stacks);
  void PassRepeat(NodeId node, uint32_t count, StacksId stacks);
  StateId FinishReaching();
  void ForgetReaching();

  const Automaton& automaton_;
  const size_t num_classes_;
  std::vector<Frame> frame_pool_;
  std::vector<Stacks> stacks_;
  std::vector<Item> item_pool_;
  std::vector<State> states_;
  std::vector<StateId> next_;  // [state, class]
  std::unordered_multimap<uint64_t, StacksId> stacks_by_hash_;
  std::unordered_multimap<uint64_t, StateId> states_by_hash_;
  std::unordered_map<uint64_t, StacksId> unions_;  // of two
  std::map<std::vector<StacksId>, StacksId> large_unions_;
  size_t large_union_bytes_ = 0;
  std::unordered_map<uint64_t, StacksId> truncations_;
  uint64_t work_ = 0;
  uint64_t work_end_ = UINT64_MAX;
  size_t bytes_max_ = SIZE_MAX;

  // Of the reaching under way.
  std::vector<Reached> reached_;
  std::vector<Addition> additions_;
  std::vector<size_t> pending_;       // indices of reached_
  std::vector<uint32_t> reached_at_;  // by node: its index in reached_ + 1
};

}  // namespace kvgate::grammar
