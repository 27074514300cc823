#include "engine/text/grammar/mask/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/text/grammar/rules/utf8_ranges.h"

namespace kvgate::grammar::mask {

using rules::ExprId;
using rules::ExprKind;
using rules::Grammar;
using rules::RuleId;

namespace {

Error Refusal(std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, "grammar", std::move(detail));
}

}  // namespace

// Builds backwards: the continuation of a part exists before the part, so that equal endings share
// their nodes.
class AutomatonBuilder {
 public:
  AutomatonBuilder(const Grammar& grammar, const rules::GrammarFacts& facts,
                   const Automaton::Limits& limits)
      : grammar_(grammar), facts_(facts), limits_(limits) {}

  Result<Automaton> Build() {
    Add({.kind = NodeKind::kEnd});
    Add({.kind = NodeKind::kFinish});
    Add({.kind = NodeKind::kUnknown});
    made_.start_ = StartOf(grammar_.root());
    while (!pending_.empty() && !refused_) {
      const RuleId rule = pending_.back();
      pending_.pop_back();
      const NodeId begin = Make(grammar_.body(rule), Automaton::kEnd);
      // Callers refer to the start node, so it was created before the body.
      SetSplit(starts_[rule.value], {&begin, 1});
    }
    if (refused_) return *refused_;
    SetClasses();
    SetDistances();
    // Compiled grammars are cached, so they should hold no spare capacity.
    made_.nodes_.shrink_to_fit();
    made_.edges_.shrink_to_fit();
    made_.targets_.shrink_to_fit();
    if (made_.nodes_[made_.start_].min_frames > Automaton::kFramesMax) {
      return Refusal(
          fmt::format("rules stand in rules deeper than {} levels", Automaton::kFramesMax));
    }
    return std::move(made_);
  }

 private:
  struct KeyHash {
    size_t operator()(const std::tuple<uint32_t, uint32_t>& key) const {
      return (size_t{std::get<0>(key)} << 32 | std::get<1>(key)) * 0x9E3779B97F4A7C15u;
    }
  };
  using NodeMap = std::unordered_map<std::tuple<uint32_t, uint32_t>, NodeId, KeyHash>;

  void RefuseMoreThan(uint64_t limit, std::string_view what) {
    if (refused_) return;
    refused_ = MakeError(ErrorCode::kTooLarge, "grammar",
                         fmt::format("the grammar needs more than {} {}", limit, what));
  }

  NodeId Add(Node node) {
    if (made_.nodes_.size() == limits_.nodes_max) RefuseMoreThan(limits_.nodes_max, "states");
    if (refused_) return Automaton::kEnd;
    made_.nodes_.push_back(node);
    return static_cast<NodeId>(made_.nodes_.size() - 1);
  }

  NodeId StartOf(RuleId rule) {
    const auto [at, is_new] = starts_.try_emplace(rule.value, 0);
    if (is_new) {
      at->second = Add({.kind = NodeKind::kSplit});
      pending_.push_back(rule);
    }
    return at->second;
  }

  void SetSplit(NodeId split, std::span<const NodeId> targets) {
    Node& node = made_.nodes_[split];
    node.begin = static_cast<uint32_t>(made_.targets_.size());
    made_.targets_.insert(made_.targets_.end(), targets.begin(), targets.end());
    node.end = static_cast<uint32_t>(made_.targets_.size());
  }

  NodeId AddBytes(std::span<const Edge> edges) {
    if (made_.edges_.size() + edges.size() > limits_.edges_max) {
      RefuseMoreThan(limits_.edges_max, "ranges of bytes");
      return Automaton::kEnd;
    }
    const auto begin = static_cast<uint32_t>(made_.edges_.size());
    made_.edges_.insert(made_.edges_.end(), edges.begin(), edges.end());
    return Add({.kind = NodeKind::kBytes,
                .begin = begin,
                .end = static_cast<uint32_t>(made_.edges_.size())});
  }

  NodeId MakeByte(rules::ByteRange range, NodeId next) {
    const auto [at, is_new] = bytes_.try_emplace({range.first * 256u + range.last, next}, 0);
    if (is_new) {
      const Edge edge = {.first = range.first, .last = range.last, .target = next};
      at->second = AddBytes({&edge, 1});
    }
    return at->second;
  }

  NodeId MakeChars(const rules::CharSet& set, NodeId next) {
    std::vector<Edge> edges;
    steps_ += set.ranges().size();
    for (const rules::CharRange& range : set.ranges()) {
      for (const rules::ByteSequence& sequence : rules::Utf8Sequences(range)) {
        NodeId behind = next;
        for (size_t i = sequence.length; i-- > 1;) behind = MakeByte(sequence.ranges[i], behind);
        edges.push_back(
            {.first = sequence.ranges[0].first, .last = sequence.ranges[0].last, .target = behind});
      }
    }
    return AddBytes(edges);
  }

  NodeId MakeCall(RuleId rule, NodeId next) {
    const NodeId start = StartOf(rule);
    if (next == Automaton::kEnd) return start;
    const auto [at, is_new] = calls_.try_emplace({rule.value, next}, 0);
    if (is_new) at->second = Add({.kind = NodeKind::kCall, .target = start, .next = next});
    return at->second;
  }

  NodeId MakeRepeat(const rules::Expr& expr, NodeId next) {
    const ExprId part = grammar_.children(expr).front();
    const rules::RepeatCount count = expr.count;
    if (count.max == 0 || !facts_.productive[part.value]) return next;
    if (count.max == 1) {
      const NodeId once = Make(part, next);
      if (count.min == 1) return once;
      const NodeId split = Add({.kind = NodeKind::kSplit});
      const NodeId targets[] = {once, next};
      SetSplit(split, targets);
      return split;
    }
    const bool nullable = facts_.nullable[part.value];
    if (count.max == rules::kUnbounded && (count.min <= 1 || nullable)) {
      const NodeId loop = Add({.kind = NodeKind::kSplit});
      const NodeId body = Make(part, loop);
      const NodeId targets[] = {body, next};
      SetSplit(loop, targets);
      return count.min == 0 || nullable ? loop : body;
    }
    if (nullable && count.max > Automaton::kEmptyRepeatMax && !refused_) {
      refused_ = Refusal(
          fmt::format("what may be empty is repeated up to {} times; at most {}, or without an end",
                      count.max, Automaton::kEmptyRepeatMax));
    }
    return Add({.kind = NodeKind::kRepeat,
                .target_nullable = nullable,
                .target = Make(part, Automaton::kEnd),
                .next = next,
                .count = {.min = nullable ? 0 : count.min, .max = count.max}});
  }

  NodeId MakeChoice(const rules::Expr& expr, NodeId next) {
    std::vector<NodeId> targets;
    for (const ExprId part : grammar_.children(expr)) {
      if (refused_) return Automaton::kEnd;
      if (facts_.productive[part.value]) targets.push_back(Make(part, next));
    }
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    if (targets.size() == 1) return targets.front();
    const NodeId split = Add({.kind = NodeKind::kSplit});
    if (!refused_) SetSplit(split, targets);
    return split;
  }

  // The caller bounds the nesting of expressions, and with it the depth of this recursion.
  NodeId Make(ExprId id, NodeId next) {
    if (++steps_ > limits_.steps_max) RefuseMoreThan(limits_.steps_max, "steps to be built");
    if (refused_) return Automaton::kEnd;
    const rules::Expr& expr = grammar_.expr(id);
    switch (expr.kind) {
      case ExprKind::kNothing:
        break;
      case ExprKind::kLiteral: {
        const std::string_view text = grammar_.literal(expr);
        steps_ += text.size();
        for (size_t i = text.size(); i-- > 0;) {
          const auto byte = static_cast<uint8_t>(text[i]);
          next = MakeByte({byte, byte}, next);
        }
        return next;
      }
      case ExprKind::kByte:
        return MakeByte({static_cast<uint8_t>(expr.begin), static_cast<uint8_t>(expr.end)}, next);
      case ExprKind::kChars:
        return MakeChars(grammar_.set(expr), next);
      case ExprKind::kSequence: {
        const std::span<const ExprId> parts = grammar_.children(expr);
        for (size_t i = parts.size(); i-- > 0;) next = Make(parts[i], next);
        return next;
      }
      case ExprKind::kChoice:
        return MakeChoice(expr, next);
      case ExprKind::kRepeat:
        return MakeRepeat(expr, next);
      case ExprKind::kRule:
        return MakeCall(Grammar::rule(expr), next);
    }
    return Automaton::kEnd;  // not reached: parts without text are left out
  }

  void SetClasses() {
    std::bitset<257> begins;
    begins.set(0);
    for (const Edge& edge : made_.edges_) {
      begins.set(edge.first);
      begins.set(size_t{edge.last} + 1);
    }
    uint32_t current = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      if (byte > 0 && begins.test(byte)) ++current;
      made_.classes_[byte] = static_cast<uint8_t>(current);
    }
    made_.num_classes_ = current + 1;
  }

  template <typename Function>
  void ForEachSuccessor(const Node& node, Function function) const {
    for (const Edge& edge : Edges(node)) function(edge.target);
    if (node.kind == NodeKind::kSplit) {
      for (const NodeId target : made_.targets(node)) function(target);
    }
    if (node.kind == NodeKind::kCall || node.kind == NodeKind::kRepeat) {
      function(node.target);
      function(node.next);
    }
  }

  std::span<const Edge> Edges(const Node& node) const {
    return node.kind == NodeKind::kBytes ? made_.edges(node) : std::span<const Edge>();
  }

  // Distance of a node once its target and next are known; a choice is known with its first target.
  static uint32_t BytesOf(const Node& node, uint32_t target, uint32_t next) {
    if (node.kind == NodeKind::kRepeat)
      return AddDistances(uint64_t{target} * node.count.min, next);
    return AddDistances(target, next);
  }
  static uint32_t FramesOf(const Node& node, uint32_t target, uint32_t next) {
    const bool is_optional = node.kind == NodeKind::kRepeat && node.count.min == 0;
    return is_optional ? next : std::max(AddDistances(target, 1), next);
  }

  // For each node, the nodes that continue at it.
  struct Predecessors {
    std::vector<uint32_t> begins;
    std::vector<NodeId> nodes;
  };
  Predecessors FindPredecessors() const {
    Predecessors found;
    found.begins.resize(made_.nodes_.size() + 1, 0);
    for (const Node& node : made_.nodes_) {
      ForEachSuccessor(node, [&](NodeId target) { ++found.begins[target + 1]; });
    }
    for (size_t i = 1; i < found.begins.size(); ++i) found.begins[i] += found.begins[i - 1];
    found.nodes.resize(found.begins.back());
    std::vector<uint32_t> next(found.begins.begin(), found.begins.end() - 1);
    for (NodeId id = 0; id < made_.nodes_.size(); ++id) {
      ForEachSuccessor(made_.nodes_[id], [&](NodeId target) { found.nodes[next[target]++] = id; });
    }
    return found;
  }

  // Computes the least distances. Each node is settled once, nearest first (Knuth, "A
  // Generalization of Dijkstra's Algorithm", 1977), so a choice of thousands is not scanned again
  // for each alternative. `of_call` combines the distances that a call or a repetition depends on.
  template <typename OfCall>
  void SettleDistances(const Predecessors& predecessors, uint32_t Node::*distance,
                       uint32_t of_bytes, OfCall of_call) {
    std::vector<Node>& nodes = made_.nodes_;
    std::vector<bool> settled(nodes.size(), false);
    using Entry = std::pair<uint32_t, NodeId>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> nearest;
    for (NodeId id = 0; id < nodes.size(); ++id) {
      nodes[id].*distance = id <= Automaton::kUnknown ? 0 : kFarAway;
      if (id <= Automaton::kUnknown) nearest.emplace(0, id);
    }
    while (!nearest.empty()) {
      const NodeId id = nearest.top().second;
      nearest.pop();
      if (settled[id]) continue;
      settled[id] = true;
      for (uint32_t i = predecessors.begins[id]; i < predecessors.begins[id + 1]; ++i) {
        Node& node = nodes[predecessors.nodes[i]];
        uint32_t reached = nodes[id].*distance;
        if (node.kind == NodeKind::kBytes) reached = AddDistances(reached, of_bytes);
        if (node.kind == NodeKind::kCall || node.kind == NodeKind::kRepeat) {
          const bool is_optional = node.kind == NodeKind::kRepeat && node.count.min == 0;
          if (!settled[node.next] || (!settled[node.target] && !is_optional)) continue;
          reached = of_call(node, nodes[node.target].*distance, nodes[node.next].*distance);
        }
        if (reached >= node.*distance) continue;
        node.*distance = reached;
        nearest.emplace(reached, predecessors.nodes[i]);
      }
    }
  }

  void SetDistances() {
    const Predecessors predecessors = FindPredecessors();
    SettleDistances(predecessors, &Node::min_bytes, 1, BytesOf);
    SettleDistances(predecessors, &Node::min_frames, 0, FramesOf);
  }

  const Grammar& grammar_;
  const rules::GrammarFacts& facts_;
  const Automaton::Limits& limits_;
  Automaton made_;
  std::unordered_map<uint32_t, NodeId> starts_;  // by rule
  std::vector<RuleId> pending_;                  // rules whose bodies are not built yet
  NodeMap bytes_;
  NodeMap calls_;
  uint64_t steps_ = 0;
  std::optional<Error> refused_;
};

Result<Automaton> Automaton::Build(const Grammar& grammar, const Limits& limits) {
  if (grammar.is_full()) {
    return MakeError(ErrorCode::kTooLarge, "grammar",
                     fmt::format("the grammar needs more than {} MiB", Grammar::kBytesMax >> 20));
  }
  const rules::GrammarFacts facts = rules::Analyze(grammar);
  if (!facts.productive[grammar.body(grammar.root()).value]) {
    return Refusal("no text is in the language of the grammar");
  }
  if (facts.left_recursive) {
    return Refusal(
        fmt::format("the rule '{}' is left recursive: it comes to itself before any byte",
                    grammar.name(*facts.left_recursive)));
  }
  return AutomatonBuilder(grammar, facts, limits).Build();
}

size_t Automaton::bytes() const {
  return nodes_.size() * sizeof(Node) + edges_.size() * sizeof(Edge) +
         targets_.size() * sizeof(NodeId);
}

}  // namespace kvgate::grammar::mask
