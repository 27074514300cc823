#include "engine/text/grammar/mask/state_table.h"

#include <algorithm>
#include <utility>

namespace kvgate::grammar::mask {
namespace {

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
  states_[kDead].min_bytes = kFarAway;
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
    bytes = AddDistances(missing * automaton_.node(node.target).min_bytes,
                         automaton_.node(node.next).min_bytes);
  }
  return AddDistances(bytes, stacks_[frame.below].min_bytes);
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
  Stacks made{.begin = static_cast<uint32_t>(frame_pool_.size()), .min_bytes = kFarAway};
  for (const Frame& frame : sorted) {
    frame_pool_.push_back(frame);
    made.depth = std::max(made.depth, stacks_[frame.below].depth + 1);
    made.min_bytes = std::min(made.min_bytes, FrameMinBytes(frame));
    made.is_whole = made.is_whole && IsWhole(frame);
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
  State made{.begin = static_cast<uint32_t>(item_pool_.size()), .min_bytes = kFarAway};
  bool goes_on = false;
  for (const Item& item : sorted) {
    item_pool_.push_back(item);
    made.can_end |= item.node == Automaton::kFinish;
    made.is_unknown |= item.node == Automaton::kUnknown;
    goes_on |= item.node != Automaton::kFinish;
    made.min_bytes = std::min(made.min_bytes, AddDistances(automaton_.node(item.node).min_bytes,
                                                           stacks_[item.stacks].min_bytes));
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
  std::vector<StacksId> below;
  for (size_t begin = 0; begin < frames.size();) {
    size_t end = begin + 1;
    while (end < frames.size() && frames[end].key() == frames[begin].key()) ++end;
    Frame frame = frames[begin];
    if (end - begin > 1) {
      below.clear();
      for (size_t i = begin; i < end; ++i) below.push_back(frames[i].below);
      frame.below = Unite(below);
    }
    frames[kept++] = frame;
    begin = end;
  }
  frames.resize(kept);
}

// The recursion is bounded by kFramesMax.
StateTable::StacksId StateTable::Unite(std::vector<StacksId>& all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() > 1 && all.front() == kNoStacks) all.erase(all.begin());
  if (all.size() == 1) return all.front();
  if (is_stopped()) return all.front();  // stopped: the result is not used
  if (all.size() == 2) {
    const uint64_t key = uint64_t{all[0]} << 32 | all[1];
    if (const auto known = unions_.find(key); known != unions_.end()) return known->second;
    const StacksId id = UniteFrames(all);
    if (!is_stopped()) unions_.emplace(key, id);
    return id;
  }
  // Larger unions are rare, and caching them costs more than building them.
  constexpr size_t kRememberedMax = 64;
  if (all.size() > kRememberedMax) return UniteFrames(all);
  if (const auto known = large_unions_.find(all); known != large_unions_.end()) {
    return known->second;
  }
  const StacksId id = UniteFrames(all);
  if (is_stopped()) return id;
  constexpr size_t kEntryBytes = 96;
  large_union_bytes_ += kEntryBytes + all.size() * sizeof(StacksId);
  large_unions_.emplace(std::move(all), id);
  return id;
}

StateTable::StacksId StateTable::UniteFrames(std::span<const StacksId> all) {
  std::vector<Frame> together;
  for (const StacksId id : all) {
    together.insert(together.end(), frames(id).begin(), frames(id).end());
  }
  work_ += together.size();
  SortAndUnite(together);
  return InternStacks(together);
}

StateId StateTable::Start() {
  ForgetReaching();
  Reach(automaton_.start(), StacksOf({.node = Automaton::kFinish}));
  return FinishReaching();
}

StateId StateTable::Compute(StateId state, uint8_t byte, size_t slot) {
  ++work_;
  if (is_stopped()) return kStopped;
  ForgetReaching();
  // The pools may be reallocated in Reach, so items are accessed by index.
  for (uint32_t i = states_[state].begin; i < states_[state].end; ++i) {
    const Item item = item_pool_[i];
    const Node& node = automaton_.node(item.node);
    if (node.kind != NodeKind::kBytes) continue;
    work_ += (node.end - node.begin) / 8;
    if (is_stopped()) break;
    for (const Edge& edge : automaton_.edges(node)) {
      if (edge.first <= byte && byte <= edge.last) Reach(edge.target, item.stacks);
    }
  }
  const StateId next = FinishReaching();
  if (next != kStopped) next_[slot] = next;
  return next;
}

void StateTable::Reach(NodeId node, StacksId stacks) {
  if (stacks_[stacks].depth + automaton_.node(node).min_frames > kFramesMax) return;
  uint32_t& at = reached_at_[node];
  if (at == 0) {
    reached_.push_back({.node = node});
    at = static_cast<uint32_t>(reached_.size());
  }
  Reached& reached = reached_[at - 1];
  if (stacks == reached.stacks) return;
  additions_.push_back({.stacks = stacks, .before = reached.additions});
  reached.additions = static_cast<uint32_t>(additions_.size() - 1);
  if (!reached.is_pending) pending_.push_back(at - 1);
  reached.is_pending = true;
}

// Returns true if the node gained stacks.
bool StateTable::TakeAdditions(Reached& reached) {
  reached.is_pending = false;
  const uint32_t last = std::exchange(reached.additions, kUnset);
  if (reached.stacks == kUnset && additions_[last].before == kUnset) {
    reached.stacks = additions_[last].stacks;
    return true;
  }
  std::vector<StacksId> all;
  if (reached.stacks != kUnset) all.push_back(reached.stacks);
  for (uint32_t at = last; at != kUnset; at = additions_[at].before) {
    all.push_back(additions_[at].stacks);
  }
  work_ += all.size() / 4;
  const StacksId united = Unite(all);
  return std::exchange(reached.stacks, united) != united;
}

void StateTable::PassRepeat(NodeId id, uint32_t count, StacksId stacks) {
  const Node& node = automaton_.node(id);
  if (count < node.count.max) {
    // After the last round the part continues at `next`. Without a maximum, all counts from the
    // minimum on are equivalent.
    const uint32_t then =
        node.count.max == rules::kUnbounded ? std::min(count + 1, node.count.min) : count + 1;
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

// Also cleans up after a bad_alloc half-way, so that leftovers do not enter the next state.
void StateTable::ForgetReaching() {
  pending_.clear();
  additions_.clear();
  for (const Reached& reached : reached_) reached_at_[reached.node] = 0;
  reached_.clear();
}

StateId StateTable::FinishReaching() {
  for (size_t at = 0; at < pending_.size() && !is_stopped(); ++at) {
    ++work_;
    Reached& reached = reached_[pending_[at]];
    if (!TakeAdditions(reached)) continue;
    const Item item = {.node = reached.node, .stacks = reached.stacks};
    Pass(item.node, item.stacks);  // may reach more nodes and reallocate reached_
  }
  std::vector<Item> kept;
  for (const Reached& reached : reached_) {
    const NodeKind kind = automaton_.node(reached.node).kind;
    if (kind == NodeKind::kBytes || kind == NodeKind::kFinish || kind == NodeKind::kUnknown) {
      kept.push_back({.node = reached.node, .stacks = reached.stacks});
    }
  }
  ForgetReaching();
  if (is_stopped()) return kStopped;
  std::sort(kept.begin(), kept.end(), [](const Item& a, const Item& b) { return a.node < b.node; });
  return InternState(kept);
}

// Within the horizon a count grows by at most one per byte.
uint32_t StateTable::ClampCount(const Node& node, uint32_t count) const {
  if (node.kind != NodeKind::kRepeat || node.target_nullable) return count;
  const rules::RepeatCount bounds = node.count;
  if (count < bounds.min) {
    return bounds.min - count > kHorizonBytes ? bounds.min - kHorizonBytes - 1 : count;
  }
  if (bounds.max == rules::kUnbounded || bounds.max - count <= kHorizonBytes) return count;
  return bounds.max - kHorizonBytes - 1;
}

StateTable::StacksId StateTable::Truncate(StacksId id, uint32_t frames_left) {
  if (id == kNoStacks) return id;
  if (frames_left == 0) return StacksOf({.node = Automaton::kUnknown});
  const uint64_t key = uint64_t{frames_left} << 32 | id;
  if (const auto known = truncations_.find(key); known != truncations_.end()) return known->second;
  if (is_stopped()) return id;  // stopped: the result is not used
  std::vector<Frame> kept;
  work_ += (stacks_[id].end - stacks_[id].begin) / 4;
  for (uint32_t i = stacks_[id].begin; i < stacks_[id].end; ++i) {
    const Frame frame = frame_pool_[i];
    kept.push_back({.node = frame.node,
                    .count = ClampCount(automaton_.node(frame.node), frame.count),
                    .below = Truncate(frame.below, frames_left - 1)});
  }
  SortAndUnite(kept);
  const StacksId truncated = InternStacks(kept);
  if (!is_stopped()) truncations_.emplace(key, truncated);
  return truncated;
}

bool StateTable::IsWhole(const Frame& frame) const {
  const NodeKind kind = automaton_.node(frame.node).kind;
  return kind != NodeKind::kUnknown && kind != NodeKind::kRepeat && stacks_[frame.below].is_whole;
}

StateId StateTable::Canonical(StateId state) {
  if (states_[state].canonical != kUnset) return states_[state].canonical;
  std::vector<Item> kept(items(state).begin(), items(state).end());
  for (Item& item : kept) item.stacks = Truncate(item.stacks, kHorizonFrames);
  if (is_stopped()) return kStopped;
  const StateId canonical = InternState(kept);
  states_[state].canonical = canonical;
  const std::span<const Item> all = items(canonical);
  states_[canonical].is_exact = std::all_of(
      all.begin(), all.end(), [this](const Item& item) { return stacks_[item.stacks].is_whole; });
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

}  // namespace kvgate::grammar::mask
