// StateTable: the states that a text can bring an automaton to, each built once and numbered, with
// cached transitions. Not thread-safe.
//
// A state is a set of nodes, each with the set of stacks it may have. A stack is a frame on top of
// a set of stacks, so equal parts are shared and the stacks of an ambiguous grammar do not multiply
// (a graph-structured stack: Tomita 1985; Scott and Johnstone, "GLL Parsing", 2010). Two states, or
// sets of stacks, are equal if and only if their numbers are.
//
// The cost of a byte is bounded. All functions give answers until the work or memory set by
// SetLimits is used up; after that, states are kStopped, and the same question can be asked again
// with higher limits.
//
// Stacks have at most kFramesMax frames. A step that would need more is not taken, and
// Node::min_frames tells that in advance, so every state that is reached can still come to an end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/text/grammar/mask/automaton.h"

namespace kvgate::grammar::mask {

using StateId = uint32_t;

class StateTable {
 public:
  static constexpr StateId kDead = 0;              // no text continues from here
  static constexpr StateId kStopped = UINT32_MAX;  // unknown: a limit was reached first
  static constexpr uint32_t kFramesMax = Automaton::kFramesMax;

  // The automaton must outlive the table.
  explicit StateTable(const Automaton& automaton);

  // Allows this much work from here on, and this much memory in total.
  void SetLimits(uint64_t work_max, size_t bytes_max) {
    work_end_ = work_max < UINT64_MAX - work_ ? work_ + work_max : UINT64_MAX;
    bytes_max_ = bytes_max;
  }
  bool is_out_of_work() const { return work_ >= work_end_; }
  bool is_out_of_memory() const { return bytes() > bytes_max_; }
  bool is_stopped() const { return is_out_of_work() || is_out_of_memory(); }
  // Charges work that a user of the states did.
  void ChargeWork(uint64_t work) { work_ += work; }

  StateId Start();
  // REQUIRES: state is not kStopped.
  StateId Next(StateId state, uint8_t byte) {
    const size_t slot = size_t{state} * num_classes_ + automaton_.class_of(byte);
    const StateId known = next_[slot];
    return known != kUnset ? known : Compute(state, byte, slot);
  }
  bool can_end(StateId state) const { return states_[state].can_end; }
  // The text may end and cannot continue.
  bool is_complete(StateId state) const { return states_[state].is_complete; }
  // The path here may have popped below the frames that Canonical keeps.
  bool is_unknown(StateId state) const { return states_[state].is_unknown; }
  // Length in bytes of the shortest text that leads to an end.
  uint32_t min_bytes(StateId state) const { return states_[state].min_bytes; }

  // Returns a representative shared by all states that the next kHorizonBytes bytes cannot tell
  // apart: it keeps only the top kHorizonFrames frames of the stacks, and merges repetition counts
  // that are far from their bounds. A continuation of at most kHorizonBytes that does not reach an
  // unknown state is accepted from it exactly if it is accepted from `state`.
  StateId Canonical(StateId state);
  // For a canonical state: nothing was cut off or merged, so it decides continuations of any
  // length.
  bool is_exact(StateId canonical) const { return states_[canonical].is_exact; }
  static constexpr uint32_t kHorizonBytes = 24;
  static constexpr uint32_t kHorizonFrames = 4;

  // Returns the same state in this table; `other` has the same automaton.
  StateId Import(const StateTable& other, StateId state);

  size_t num_states() const { return states_.size(); }
  // Approximate memory in bytes.
  size_t bytes() const {
    constexpr size_t kMapEntryBytes = 48;
    return frame_pool_.capacity() * sizeof(Frame) + item_pool_.capacity() * sizeof(Item) +
           stacks_.capacity() * sizeof(Stacks) + states_.capacity() * sizeof(State) +
           next_.capacity() * sizeof(StateId) + reached_at_.capacity() * sizeof(uint32_t) +
           (stacks_.size() + states_.size()) * kMapEntryBytes +
           (unions_.size() + truncations_.size()) * kMapEntryBytes + large_union_bytes_;
  }
  // Total work so far, which bounds the cost of a grammar.
  uint64_t work() const { return work_; }

 private:
  using StacksId = uint32_t;
  static constexpr StacksId kNoStacks = 0;
  static constexpr uint32_t kUnset = UINT32_MAX;

  struct Frame {
    NodeId node = 0;     // where to continue
    uint32_t count = 0;  // kRepeat: rounds begun so far
    StacksId below = 0;
    friend bool operator==(const Frame&, const Frame&) = default;
    uint64_t key() const { return uint64_t{node} << 32 | count; }
  };
  struct Stacks {
    uint32_t begin = 0;  // frames, ascending by key, each key once
    uint32_t end = 0;
    uint32_t depth = 0;
    uint32_t min_bytes = 0;
    bool is_whole = true;  // nothing was cut off, and no count could be merged
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
  // Unites all of them at once. Pairwise unions would create intermediate results that nobody asks
  // for, in quadratic number. Consumes the vector.
  StacksId Unite(std::vector<StacksId>& all);
  StacksId UniteFrames(std::span<const StacksId> all);
  bool IsWhole(const Frame& frame) const;
  StacksId Truncate(StacksId id, uint32_t frames_left);
  StacksId ImportStacks(const StateTable& other, StacksId id,
                        std::unordered_map<StacksId, StacksId>& known);
  uint32_t ClampCount(const Node& node, uint32_t count) const;
  uint32_t FrameMinBytes(const Frame& frame) const;
  // Merges frames that have the same key.
  void SortAndUnite(std::vector<Frame>& frames);

  StateId Compute(StateId state, uint8_t byte, size_t slot);
  // Reaching: computes the nodes that are reached without consuming a byte. Stacks that arrive at a
  // node are united only when the node is processed.
  struct Reached {
    NodeId node = 0;
    StacksId stacks = kUnset;     // the node was processed with these
    uint32_t additions = kUnset;  // index of the latest addition since then
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
  std::unordered_map<uint64_t, StacksId> unions_;  // of two sets
  std::map<std::vector<StacksId>, StacksId> large_unions_;
  size_t large_union_bytes_ = 0;
  std::unordered_map<uint64_t, StacksId> truncations_;
  uint64_t work_ = 0;
  uint64_t work_end_ = UINT64_MAX;
  size_t bytes_max_ = SIZE_MAX;

  // Working memory of the current Reach.
  std::vector<Reached> reached_;
  std::vector<Addition> additions_;
  std::vector<size_t> pending_;       // indices in reached_
  std::vector<uint32_t> reached_at_;  // by node: its index in reached_ + 1
};

}  // namespace kvgate::grammar::mask
