// Automaton: a grammar as a pushdown automaton over bytes. Immutable, shared between threads.
//
// Nodes are instructions. A byte leads from a kBytes node along every edge that has it; all other
// nodes are passed without a byte. A call remembers where to go on (a frame), kEnd goes on there. A
// call whose rule has nothing behind it leaves no frame, so right recursion needs no stack. Bounded
// repetition counts in its frame, so {1,1000} costs no more nodes than {1,2}.
//
// Every node can come to the end of its rule: parts without any text are left out when it is built.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/grammar/grammar.h"

namespace kvgate::grammar {

using NodeId = uint32_t;

enum class NodeKind : uint8_t {
  kBytes,    // takes a byte
  kSplit,    // goes on in all targets
  kCall,     // target, then goes on at next
  kRepeat,   // target, count.min to count.max times, then goes on at next
  kEnd,      // of a rule or of what is repeated: goes on in the frame
  kFinish,   // the whole text may end here
  kUnknown,  // below what is looked at: see StateTable::Canonical
};

struct Node {
  NodeKind kind = NodeKind::kEnd;
  bool target_nullable = false;  // kRepeat: what is repeated may be empty
  uint32_t begin = 0;            // kBytes: edges; kSplit: targets
  uint32_t end = 0;
  NodeId target = 0;
  NodeId next = 0;
  RepeatCount count = {};
  uint32_t min_bytes = 0;   // that lead to the end of the rule
  uint32_t min_frames = 0;  // that a way there has at once
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
    size_t edges_max = 2'000'000;    // of all nodes: ranges of bytes
    uint64_t steps_max = 4'000'000;  // expressions gone through, again for each place they are in
  };
  // kInvalidArgument: no text is in the language; a rule is left recursive (named); a repetition
  // with an end of more than kEmptyRepeatMax of what may be empty; all texts need more than
  // kFramesMax frames. kTooLarge: a limit, or the grammar is full.
  static Result<Automaton> Build(const Grammar& grammar, const Limits& limits);

  static constexpr NodeId kEnd = 0;
  static constexpr NodeId kFinish = 1;
  static constexpr NodeId kUnknown = 2;
  static constexpr uint32_t kEmptyRepeatMax = 64;
  static constexpr uint32_t kFramesMax = 256;  // of a stack: what StateTable takes

  NodeId start() const { return start_; }
  size_t num_nodes() const { return nodes_.size(); }
  const Node& node(NodeId id) const { return nodes_[id]; }
  std::span<const Edge> edges(const Node& node) const {
    return std::span(edges_).subspan(node.begin, node.end - node.begin);
  }
  std::span<const NodeId> targets(const Node& node) const {
    return std::span(targets_).subspan(node.begin, node.end - node.begin);
  }
  // Bytes of one class lead to the same places everywhere.
  uint32_t num_classes() const { return num_classes_; }
  uint8_t class_of(uint8_t byte) const { return classes_[byte]; }
  size_t bytes() const;  // of memory

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

}  // namespace kvgate::grammar
