// Automaton: a grammar compiled to a pushdown automaton over bytes. Immutable, shared between
// threads.
//
// Nodes are instructions. A kBytes node consumes one byte and follows every edge whose range
// contains it; all other nodes are passed without consuming a byte. A call pushes a frame that
// holds the node to continue at, and kEnd pops it. A call that is the last part of its rule pushes
// no frame, so right recursion needs no stack. A bounded repetition counts in its frame, so
// {1,1000} needs no more nodes than {1,2}.
//
// The end of its rule is reachable from every node, because Build leaves out parts that match no
// text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/text/grammar/rules/grammar.h"

namespace kvgate::grammar::mask {

using NodeId = uint32_t;

// Exceeds every real distance in bytes or frames.
inline constexpr uint32_t kFarAway = uint32_t{1} << 30;
// Adds distances, at most to kFarAway.
inline uint32_t AddDistances(uint64_t a, uint64_t b) {
  return static_cast<uint32_t>(std::min<uint64_t>(a + b, kFarAway));
}

enum class NodeKind : uint8_t {
  kBytes,    // consumes one byte
  kSplit,    // continues at all targets
  kCall,     // runs the target, then continues at next
  kRepeat,   // runs the target count.min to count.max times, then continues at next
  kEnd,      // end of a rule or of a repeated part: continues at the popped frame
  kFinish,   // the whole text may end here
  kUnknown,  // part of the stack that was cut off: see StateTable::Canonical
};

struct Node {
  NodeKind kind = NodeKind::kEnd;
  bool target_nullable = false;  // kRepeat: the repeated part may be empty
  uint32_t begin = 0;            // kBytes: edges; kSplit: targets
  uint32_t end = 0;
  NodeId target = 0;
  NodeId next = 0;
  rules::RepeatCount count = {};
  uint32_t min_bytes = 0;   // fewest bytes to the end of the rule
  uint32_t min_frames = 0;  // stack depth that the cheapest way there needs
};

struct Edge {
  uint8_t first = 0;
  uint8_t last = 0;  // inclusive
  NodeId target = 0;
};

class Automaton {
 public:
  struct Limits {
    size_t nodes_max = 500'000;
    size_t edges_max = 2'000'000;    // byte ranges of all nodes together
    uint64_t steps_max = 4'000'000;  // expressions visited; shared ones count at each use
  };
  // kInvalidArgument: the language is empty; a rule is left recursive (the error names it); a part
  // that may be empty is repeated up to a bound above kEmptyRepeatMax; every text needs more than
  // kFramesMax frames. kTooLarge: a limit is exceeded, or the grammar is full.
  static Result<Automaton> Build(const rules::Grammar& grammar, const Limits& limits);

  static constexpr NodeId kEnd = 0;
  static constexpr NodeId kFinish = 1;
  static constexpr NodeId kUnknown = 2;
  static constexpr uint32_t kEmptyRepeatMax = 64;
  static constexpr uint32_t kFramesMax = 256;  // most frames on a stack; StateTable enforces it

  NodeId start() const { return start_; }
  size_t num_nodes() const { return nodes_.size(); }
  const Node& node(NodeId id) const { return nodes_[id]; }
  std::span<const Edge> edges(const Node& node) const {
    return std::span(edges_).subspan(node.begin, node.end - node.begin);
  }
  std::span<const NodeId> targets(const Node& node) const {
    return std::span(targets_).subspan(node.begin, node.end - node.begin);
  }
  // Two bytes have the same class if every edge of the automaton treats them alike.
  uint32_t num_classes() const { return num_classes_; }
  uint8_t class_of(uint8_t byte) const { return classes_[byte]; }
  size_t bytes() const;  // memory held by the nodes, edges and targets

 private:
  friend class AutomatonBuilder;
  Automaton() = default;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<NodeId> targets_;
  NodeId start_ = 0;
  uint32_t num_classes_ = 0;
  std::array<uint8_t, 256> classes_ = {};
};

}  // namespace kvgate::grammar::mask
