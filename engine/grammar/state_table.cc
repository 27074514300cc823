#include "engine/grammar/state_table.h"

#include <algorithm>
#include <utility>

namespace kvgate::grammar {
namespace {

constexpr uint32_t kFar = uint32_t{1} << 30;

uint32_t Plus(uint64_t a, uint64_t b) {
  return static_cast<uint32_t>(std::min<uint64_t>(a + b, kFar));
}

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

}  // namespace

StateTable::StateTable(const Automaton& automaton)
    : automaton_(automaton),
      num_classes_(automaton.num_classes()),
      reached_at_(automaton.num_nodes(), 0) {
  stacks_.emplace_back();  // kNoStacks
  InternState({});         // kDead
  states_[kDead].min_bytes = kFar;
  std::fill(next_.begin(), next_.end(), kDead);
}

std::span<const StateTable::Frame> StateTable::frames(StacksId id) const {
  return std::span(frame_pool_).subspan(stacks_[id].begin, stacks_[id].end - stacks_[id].begin);
}

std::span<const StateTable::Item> StateTable::items(StateId id) const {
  return std::span(item_pool_).subspan(states_[id].begin, states_[id].end - states_[id].begin);
}

uint32_t StateTable::FrameMinBytes(const Frame& frame) const {
  const Node& node = automaton_.node(frame.node);
  uint32_t bytes = node.min_bytes;
  if (node.kind == NodeKind::kRepeat) {
    const uint64_t missing = node.count.min > frame.count ? node.count.min - frame.count : 0;
    bytes = Plus(missing * automaton_.node(node.target).min_bytes,
                 automaton_.node(node.next).min_bytes);
  }
  return Plus(bytes, stacks_[frame.below].min_bytes);
}

StateTable::StacksId StateTable::InternStacks(const std::vector<Frame>& sorted) {
  if (sorted.empty()) return kNoStacks;
  uint64_t hash = 1;
  for (const Frame& frame : sorted) hash = Mix(Mix(hash, frame.key()), frame.below);
  const auto [first, last] = stacks_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const std::span<const Frame> known = frames(at->second);
    if (std::equal(known.begin(), known.end(), sorted.begin(), sorted.end())) return at->second;
  }
  Stacks made{.begin = static_cast<uint32_t>(frame_pool_.size()), .min_bytes = kFar};
  for (const Frame& frame : sorted) {
    frame_pool_.push_back(frame);
    made.depth = std::max(made.depth, stacks_[frame.below].depth + 1);
    made.min_bytes = std::min(made.min_bytes, FrameMinBytes(frame));
  }
  made.end = static_cast<uint32_t>(frame_pool_.size());
  stacks_.push_back(made);
  const auto id = static_cast<StacksId>(stacks_.size() - 1);
  stacks_by_hash_.emplace(hash, id);
  return id;
}

StateTable::StacksId StateTable::StacksOf(Frame frame) { return InternStacks({frame}); }

StateId StateTable::InternState(const std::vector<Item>& sorted) {
  uint64_t hash = 2;
  for (const Item& item : sorted) hash = Mix(hash, uint64_t{item.node} << 32 | item.stacks);
  const auto [first, last] = states_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const std::span<const Item> known = items(at->second);
    if (std::equal(known.begin(), known.end(), sorted.begin(), sorted.end())) return at->second;
  }
  State made{.begin = static_cast<uint32_t>(item_pool_.size()), .min_bytes = kFar};
  bool goes_on = false;
  for (const Item& item : sorted) {
    item_pool_.push_back(item);
    made.can_end |= item.node == Automaton::kFinish;
    made.is_unknown |= item.node == Automaton::kUnknown;
    goes_on |= item.node != Automaton::kFinish;
    made.min_bytes = std::min(
        made.min_bytes, Plus(automaton_.node(item.node).min_bytes, stacks_[item.stacks].min_bytes));
  }
  made.is_complete = made.can_end && !goes_on;
  made.end = static_cast<uint32_t>(item_pool_.size());
  states_.push_back(made);
  next_.resize(states_.size() * num_classes_, kUnset);
  const auto id = static_cast<StateId>(states_.size() - 1);
  states_by_hash_.emplace(hash, id);
  return id;
}

void StateTable::SortAndUnite(std::vector<Frame>& frames) {
  std::sort(frames.begin(), frames.end(),
            [](const Frame& a, const Frame& b) { return a.key() < b.key(); });
  size_t kept = 0;
  for (const Frame& frame : frames) {
    if (kept > 0 && frames[kept - 1].key() == frame.key()) {
      frames[kept - 1].below = Unite(frames[kept - 1].below, frame.below);
    } else {
      frames[kept++] = frame;
    }
  }
  frames.resize(kept);
}

// Recursion is bounded by kFramesMax.
StateTable::StacksId StateTable::Unite(StacksId a, StacksId b) {
  if (a == b || b == kNoStacks) return a;
  if (a == kNoStacks) return b;
  if (a > b) std::swap(a, b);
  const uint64_t key = uint64_t{a} << 32 | b;
  if (const auto known = unions_.find(key); known != unions_.end()) return known->second;
  std::vector<Frame> both(frames(a).begin(), frames(a).end());
  both.insert(both.end(), frames(b).begin(), frames(b).end());
  work_ += both.size();
  SortAndUnite(both);
  const StacksId id = InternStacks(both);
  unions_.emplace(key, id);
  return id;
}

StateId StateTable::Start() {
  Reach(automaton_.start(), StacksOf({.node = Automaton::kFinish}));
  return FinishReaching();
}

StateId StateTable::Compute(StateId state, uint8_t byte, size_t slot) {
  ++work_;
  // Reaching may move the pools.
  for (uint32_t i = states_[state].begin; i < states_[state].end; ++i) {
    const Item item = item_pool_[i];
    const Node& node = automaton_.node(item.node);
    if (node.kind != NodeKind::kBytes) continue;
    for (const Edge& edge : automaton_.edges(node)) {
      if (edge.first <= byte && byte <= edge.last) Reach(edge.target, item.stacks);
    }
  }
  const StateId next = FinishReaching();
  next_[slot] = next;
  return next;
}

void StateTable::Reach(NodeId node, StacksId stacks) {
  if (stacks_[stacks].depth + automaton_.node(node).min_frames > kFramesMax) return;
  uint32_t& at = reached_at_[node];
  if (at == 0) {
    reached_.push_back({.node = node, .stacks = stacks});
    at = static_cast<uint32_t>(reached_.size());
    pending_.push_back(at - 1);
    return;
  }
  Item& item = reached_[at - 1];
  const StacksId both = Unite(item.stacks, stacks);
  if (both == item.stacks) return;
  item.stacks = both;
  pending_.push_back(at - 1);
}

void StateTable::PassRepeat(NodeId id, uint32_t count, StacksId stacks) {
  const Node& node = automaton_.node(id);
  if (count < node.count.max) {
    // Behind the last time comes what is next; without an end, all counts from the least are alike.
    const uint32_t then =
        node.count.max == kUnbounded ? std::min(count + 1, node.count.min) : count + 1;
    const bool is_last = then == node.count.max;
    const Frame frame = is_last ? Frame{.node = node.next, .below = stacks}
                                : Frame{.node = id, .count = then, .below = stacks};
    Reach(node.target, is_last && node.next == Automaton::kEnd ? stacks : StacksOf(frame));
  }
  if (count >= node.count.min) Reach(node.next, stacks);
}

void StateTable::Pass(NodeId id, StacksId stacks) {
  const Node& node = automaton_.node(id);
  switch (node.kind) {
    case NodeKind::kSplit:
      for (const NodeId target : automaton_.targets(node)) Reach(target, stacks);
      break;
    case NodeKind::kCall:
      Reach(node.target, StacksOf({.node = node.next, .below = stacks}));
      break;
    case NodeKind::kRepeat:
      PassRepeat(id, 0, stacks);
      break;
    case NodeKind::kEnd:
      for (uint32_t i = stacks_[stacks].begin; i < stacks_[stacks].end; ++i) {
        const Frame frame = frame_pool_[i];
        const bool repeats = automaton_.node(frame.node).kind == NodeKind::kRepeat;
        repeats ? PassRepeat(frame.node, frame.count, frame.below) : Reach(frame.node, frame.below);
      }
      break;
    default:
      break;
  }
}

StateId StateTable::FinishReaching() {
  for (size_t at = 0; at < pending_.size(); ++at) {
    ++work_;
    const Item item = reached_[pending_[at]];
    Pass(item.node, item.stacks);
  }
  pending_.clear();
  std::vector<Item> kept;
  for (const Item& item : reached_) {
    reached_at_[item.node] = 0;
    const NodeKind kind = automaton_.node(item.node).kind;
    if (kind == NodeKind::kBytes || kind == NodeKind::kFinish || kind == NodeKind::kUnknown) {
      kept.push_back(item);
    }
  }
  reached_.clear();
  std::sort(kept.begin(), kept.end(), [](const Item& a, const Item& b) { return a.node < b.node; });
  return InternState(kept);
}

// Within the horizon a count grows by at most one a byte.
uint32_t StateTable::ClampCount(const Node& node, uint32_t count) const {
  if (node.kind != NodeKind::kRepeat || node.target_nullable) return count;
  const RepeatCount bounds = node.count;
  if (count < bounds.min) {
    return bounds.min - count > kHorizonBytes ? bounds.min - kHorizonBytes - 1 : count;
  }
  if (bounds.max == kUnbounded || bounds.max - count <= kHorizonBytes) return count;
  return bounds.max - kHorizonBytes - 1;
}

StateTable::StacksId StateTable::Truncate(StacksId id, uint32_t frames_left) {
  if (id == kNoStacks) return id;
  if (frames_left == 0) return StacksOf({.node = Automaton::kUnknown});
  const uint64_t key = uint64_t{frames_left} << 32 | id;
  if (const auto known = truncations_.find(key); known != truncations_.end()) return known->second;
  std::vector<Frame> kept;
  for (uint32_t i = stacks_[id].begin; i < stacks_[id].end; ++i) {
    const Frame frame = frame_pool_[i];
    kept.push_back({.node = frame.node,
                    .count = ClampCount(automaton_.node(frame.node), frame.count),
                    .below = Truncate(frame.below, frames_left - 1)});
  }
  SortAndUnite(kept);
  const StacksId truncated = InternStacks(kept);
  truncations_.emplace(key, truncated);
  return truncated;
}

// Whether nothing is left out of it, nor may be.
bool StateTable::IsWhole(StacksId id) const {
  const std::span<const Frame> all = frames(id);
  return std::all_of(all.begin(), all.end(), [this](const Frame& frame) {
    const NodeKind kind = automaton_.node(frame.node).kind;
    return kind != NodeKind::kUnknown && kind != NodeKind::kRepeat && IsWhole(frame.below);
  });
}

StateId StateTable::Canonical(StateId state) {
  if (states_[state].canonical != kUnset) return states_[state].canonical;
  std::vector<Item> kept(items(state).begin(), items(state).end());
  for (Item& item : kept) item.stacks = Truncate(item.stacks, kHorizonFrames);
  const StateId canonical = InternState(kept);
  states_[state].canonical = canonical;
  const std::span<const Item> all = items(canonical);
  states_[canonical].is_exact = std::all_of(
      all.begin(), all.end(), [this](const Item& item) { return IsWhole(item.stacks); });
  return canonical;
}

StateTable::StacksId StateTable::ImportStacks(const StateTable& other, StacksId id,
                                              std::unordered_map<StacksId, StacksId>& known) {
  if (id == kNoStacks) return id;
  if (const auto at = known.find(id); at != known.end()) return at->second;
  std::vector<Frame> imported(other.frames(id).begin(), other.frames(id).end());
  for (Frame& frame : imported) frame.below = ImportStacks(other, frame.below, known);
  return known[id] = InternStacks(imported);
}

StateId StateTable::Import(const StateTable& other, StateId state) {
  std::unordered_map<StacksId, StacksId> known;
  std::vector<Item> imported(other.items(state).begin(), other.items(state).end());
  for (Item& item : imported) item.stacks = ImportStacks(other, item.stacks, known);
  return InternState(imported);
}

size_t StateTable::bytes() const {
  constexpr size_t kMapEntryBytes = 48;
  return frame_pool_.size() * sizeof(Frame) + item_pool_.size() * sizeof(Item) +
         stacks_.size() * (sizeof(Stacks) + kMapEntryBytes) +
         states_.size() * (sizeof(State) + kMapEntryBytes) + next_.size() * sizeof(StateId) +
         (unions_.size() + truncations_.size()) * kMapEntryBytes;
}

}  // namespace kvgate::grammar
