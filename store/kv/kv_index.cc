#include "store/kv/kv_index.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace kvgate::store::kv {
namespace {

using Node = KvIndex::Node;

const Node* SkipWindows(const Node* child) {
  while (child != nullptr && child->is_window()) child = child->next_sibling;
  return child;
}

// Returns true if a block of group 0 follows this one.
bool HasNextBlock(const Node& node) { return SkipWindows(node.first_child) != nullptr; }

// Returns true if several do.
bool IsFork(const Node& node) {
  const Node* const next = SkipWindows(node.first_child);
  return next != nullptr && SkipWindows(next->next_sibling) != nullptr;
}

// Returns the block that the leaf belongs to if it is the last one of its prefix, else null.
Node* LastBlockOf(Node& leaf) {
  Node* const block = leaf.is_window() ? leaf.parent : &leaf;
  return block != nullptr && !HasNextBlock(*block) ? block : nullptr;
}

uint64_t PayloadBytesWithWindows(const Node& node) {
  uint64_t bytes = node.entry.payload_bytes;
  for (const Node* child = node.first_child; child != nullptr; child = child->next_sibling) {
    if (child->is_window()) bytes += child->entry.payload_bytes;
  }
  return bytes;
}

}  // namespace

KvIndex::Node* KvIndex::Find(const KvKey& key) {
  const auto found = nodes_.find(key);
  return found == nodes_.end() ? nullptr : &found->second;
}

const KvIndex::Node* KvIndex::Find(const KvKey& key) const {
  const auto found = nodes_.find(key);
  return found == nodes_.end() ? nullptr : &found->second;
}

bool KvIndex::HasPlaceFor(const KvIndexEntry& entry) const {
  if (entry.depth == 0) return entry.parent == BlockHash{} && entry.group == 0;
  const Node* parent = Find({entry.key.fingerprint, entry.parent});
  return parent != nullptr && parent->entry.depth + 1 == entry.depth && !parent->is_window();
}

KvIndex::Node& KvIndex::Insert(const KvIndexEntry& entry) {
  KVGATE_CHECK(HasPlaceFor(entry), "an index entry without its parent");
  const auto [place, inserted] = nodes_.try_emplace(entry.key);
  KVGATE_CHECK(inserted, "an index entry is inserted twice");
  Node& node = place->second;
  node.entry = entry;
  node.generation = ++last_generation_;
  last_time_us_ = std::max(last_time_us_, entry.last_used_us);
  if (entry.depth != 0) {
    Node& parent = *Find({entry.key.fingerprint, entry.parent});
    if (parent.first_child == nullptr) leaves_.erase(OrderOf(parent));
    node.parent = &parent;
    node.next_sibling = parent.first_child;
    if (parent.first_child != nullptr) parent.first_child->prev_sibling = &node;
    parent.first_child = &node;
  }
  leaves_.insert(OrderOf(node));
  payload_bytes_ += entry.payload_bytes;
  if (IsKeptWindow(node)) pinned_bytes_ += DiskBytesOf(node);
  node.was_read = uses_.OnInsert(entry.key);
  return node;
}

std::vector<KvKey> KvIndex::WindowKeys(const Node& node) const {
  std::vector<KvKey> keys;
  for (const Node* child = node.first_child; child != nullptr; child = child->next_sibling) {
    if (child->is_window() && child->visible) keys.push_back(child->entry.key);
  }
  return keys;
}

void KvIndex::Touch(Node& node) {
  const bool leaf = node.first_child == nullptr;
  if (leaf) leaves_.erase(OrderOf(node));
  last_time_us_ = std::max(last_time_us_ + 1, WallClock::NowUs());
  node.entry.last_used_us = last_time_us_;
  if (leaf) leaves_.insert(OrderOf(node));
  if (!node.touched) {
    node.touched = true;
    touched_.push_back(node.entry.key);
  }
}

// A block is stored only if its parent is, so the last stored one is found by halving.
void KvIndex::CountHits(std::span<const KvKey> keys, const KvUse& use) {
  if (keys.empty()) return;
  const auto end =
      std::ranges::partition_point(keys, [&](const KvKey& key) { return nodes_.contains(key); });
  std::optional<KvKey> stored;
  if (end != keys.begin()) {
    stored = *(end - 1);
    Find(*stored)->was_read = true;
  }
  uses_.Count(keys.back(), stored, use);
}

KvIndex::Node* KvIndex::OldestLeaf() {
  if (leaves_.empty()) return nullptr;
  const auto& [pinned, time, node] = *leaves_.begin();
  return pinned ? nullptr : node;
}

uint64_t KvIndex::BytesToPin(const Node& node) const {
  uint64_t bytes = 0;
  for (const Node* at = &node; at != nullptr && at->num_pins == 0; at = at->parent) {
    bytes += DiskBytesOf(*at);
    for (const Node* child = at->first_child; child != nullptr; child = child->next_sibling) {
      if (child->is_window()) bytes += DiskBytesOf(*child);
    }
  }
  return bytes;
}

void KvIndex::SetPinned(Node& node, bool pinned) {
  if (node.pinned == pinned) return;
  const bool leaf = node.first_child == nullptr;
  if (leaf) leaves_.erase(OrderOf(node));
  node.pinned = pinned;
  if (leaf) leaves_.insert(OrderOf(node));
  for (Node* at = &node; at != nullptr; at = at->parent) CountPin(*at, pinned);
}

void KvIndex::CountPin(Node& node, bool pinned) {
  const bool is_kept = node.num_pins > 0;
  const uint32_t num_pins = pinned ? node.num_pins + 1 : node.num_pins - 1;
  if (is_kept == (num_pins > 0)) {
    node.num_pins = num_pins;
    return;
  }
  // The node's windows change their place in the eviction order together with it.
  uint64_t bytes = DiskBytesOf(node);
  for (Node* child = node.first_child; child != nullptr; child = child->next_sibling) {
    if (!child->is_window()) continue;
    bytes += DiskBytesOf(*child);
    leaves_.erase(OrderOf(*child));
  }
  node.num_pins = num_pins;
  for (Node* child = node.first_child; child != nullptr; child = child->next_sibling) {
    if (child->is_window()) leaves_.insert(OrderOf(*child));
  }
  if (pinned) {
    pinned_bytes_ += bytes;
  } else {
    pinned_bytes_ -= bytes;
  }
}

void KvIndex::Unlink(Node& node) {
  Node* parent = node.parent;
  if (parent == nullptr) return;
  if (node.prev_sibling != nullptr) node.prev_sibling->next_sibling = node.next_sibling;
  if (node.next_sibling != nullptr) node.next_sibling->prev_sibling = node.prev_sibling;
  if (parent->first_child == &node) parent->first_child = node.next_sibling;
  if (parent->first_child == nullptr) leaves_.insert(OrderOf(*parent));
}

void KvIndex::RemoveLeaf(Node& node) {
  KVGATE_CHECK(node.first_child == nullptr, "a block is removed before its children");
  SetPinned(node, false);
  if (IsKeptWindow(node)) pinned_bytes_ -= DiskBytesOf(node);
  leaves_.erase(OrderOf(node));
  Unlink(node);
  payload_bytes_ -= node.entry.payload_bytes;
  const KvKey key = node.entry.key;
  uses_.OnRemove(key);
  nodes_.erase(key);
}

uint64_t KvIndex::RemoveSubtree(Node& node, std::vector<KvKey>& removed) {
  const size_t before = removed.size();
  Node* current = &node;
  while (true) {
    while (current->first_child != nullptr) current = current->first_child;
    Node* const parent = current->parent;
    const bool last = current == &node;
    removed.push_back(current->entry.key);
    RemoveLeaf(*current);
    if (last) break;
    current = parent;
  }
  return removed.size() - before;
}

void KvIndex::RemoveBranch(Node& leaf, std::vector<KvKey>& removed) {
  Node* current = &leaf;
  while (current != nullptr && !HasNextBlock(*current)) {
    if (current->pinned && current != &leaf) return;
    while (Node* const window = current->first_child) {
      removed.push_back(window->entry.key);
      RemoveLeaf(*window);
    }
    Node* const parent = current->parent;
    removed.push_back(current->entry.key);
    RemoveLeaf(*current);
    current = parent;
  }
}

void KvIndex::Clear() {
  nodes_.clear();
  leaves_.clear();
  touched_.clear();
  uses_.Clear();
  payload_bytes_ = 0;
  pinned_bytes_ = 0;
}

void KvIndex::Load(std::vector<KvIndexEntry> entries, std::vector<KvKey>& orphans) {
  KvUses uses = std::exchange(uses_, {});
  Clear();
  std::ranges::sort(entries, {}, &KvIndexEntry::depth);
  nodes_.reserve(entries.size());
  for (const KvIndexEntry& entry : entries) {
    if (HasPlaceFor(entry)) {
      Insert(entry);
    } else {
      orphans.push_back(entry.key);
    }
  }
  uses.KeepOnly([this](const KvKey& key) { return nodes_.contains(key); });
  uses_ = std::move(uses);
  for (const auto& [key, use] : uses_.counts()) Find(key)->was_read = true;
}

std::vector<KvPrefix> KvIndex::ListPrefixes() const {
  std::vector<const Node*> ends;
  ends.reserve(leaves_.size());
  for (const auto& [pinned, time, leaf] : leaves_) {
    if (const Node* const end = LastBlockOf(*leaf); end != nullptr) ends.push_back(end);
    for (const Node* at = leaf->parent; at != nullptr && pinned_bytes_ > 0; at = at->parent) {
      if (at->pinned) ends.push_back(at);
    }
  }
  std::ranges::sort(ends, [](const Node* a, const Node* b) {
    return std::tuple(a->entry.last_used_us, a->generation) >
           std::tuple(b->entry.last_used_us, b->generation);
  });
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  // Pinned prefixes that others go on from also have the hits behind them.
  std::unordered_map<const Node*, KvUse> passed;
  for (const auto& [key, use] : uses_.counts()) {
    const Node* at = pinned_bytes_ > 0 ? Find(key) : nullptr;
    while (at != nullptr && (at = at->parent) != nullptr) {
      if (at->pinned) passed[at] += ShareOf(use, (at->entry.depth + uint64_t{1}) * kKvTokensMax);
    }
  }
  std::vector<KvPrefix> prefixes;
  prefixes.reserve(ends.size());
  for (const Node* node : ends) {
    KvPrefix prefix{.leaf = node->entry.key,
                    .first = {},
                    .num_blocks = node->entry.depth + 1,
                    .last_used_unix = node->entry.last_used_us / 1'000'000,
                    .pinned = node->pinned};
    if (const auto found = passed.find(node); found != passed.end()) prefix.use += found->second;
    bool is_shared = false;
    for (const Node* at = node; at != nullptr; at = at->parent) {
      prefix.first = at->entry.key.hash;
      prefix.payload_bytes += PayloadBytesWithWindows(*at);
      is_shared = is_shared || (at != node && (at->pinned || IsFork(*at)));
      const KvUse use = at->was_read ? uses_.At(at->entry.key) : KvUse{};
      if (is_shared) {
        prefix.num_shared_hits += use.num_hits;
      } else {
        prefix.use += use;
      }
    }
    prefixes.push_back(prefix);
  }
  return prefixes;
}

const KvIndex::Node* KvIndex::FindByHash(const BlockHash& hash) const {
  for (const auto& [key, node] : nodes_) {
    if (key.hash == hash && !node.is_window()) return &node;
  }
  return nullptr;
}

std::vector<KvIndex::Node*> KvIndex::FindLeaves(const BlockHash& hash) {
  std::vector<Node*> found;
  for (const auto& [pinned, time, leaf] : leaves_) {
    Node* const end = LastBlockOf(*leaf);
    if (end == nullptr || end->entry.key.hash != hash) continue;
    if (std::ranges::find(found, end) == found.end()) found.push_back(end);
  }
  return found;
}

std::vector<KvKey> KvIndex::Keys() const {
  std::vector<KvKey> keys;
  keys.reserve(nodes_.size());
  for (const auto& [key, node] : nodes_) keys.push_back(key);
  return keys;
}

std::vector<KvIndexEntry> KvIndex::TakeTouched() {
  std::vector<KvIndexEntry> entries;
  entries.reserve(touched_.size());
  for (const KvKey& key : touched_) {
    Node* node = Find(key);
    if (node == nullptr || !node->touched) continue;  // removed, or removed and inserted again
    node->touched = false;
    entries.push_back(node->entry);
  }
  touched_.clear();
  return entries;
}

void KvIndex::CheckIntegrity() const {
  uint64_t payload_bytes = 0;
  uint64_t pinned_bytes = 0;
  uint64_t num_leaves = 0;
  for (const auto& [key, node] : nodes_) {
    KVGATE_CHECK(node.entry.key == key, "a node under another key");
    KVGATE_CHECK(HasPlaceFor(node.entry), "a node without its parent");
    KVGATE_CHECK((node.parent == nullptr) == (node.entry.depth == 0), "a parent link is wrong");
    KVGATE_CHECK(node.parent == nullptr || node.parent->entry.key.hash == node.entry.parent,
                 "a node hangs under another parent");
    payload_bytes += node.entry.payload_bytes;
    pinned_bytes += node.num_pins > 0 || IsKeptWindow(node) ? DiskBytesOf(node) : 0;
    KVGATE_CHECK(!node.is_window() || node.first_child == nullptr, "a window has children");
    if (node.first_child == nullptr) {
      ++num_leaves;
      KVGATE_CHECK(leaves_.contains(OrderOf(const_cast<Node&>(node))),
                   "a leaf is not in the eviction order");
    }
    uint32_t num_pins = node.pinned ? 1 : 0;
    for (const Node* child = node.first_child; child != nullptr; child = child->next_sibling) {
      KVGATE_CHECK(child->parent == &node, "a child has another parent");
      KVGATE_CHECK(child->next_sibling == nullptr || child->next_sibling->prev_sibling == child,
                   "a sibling list is broken");
      num_pins += child->num_pins;
    }
    KVGATE_CHECK(node.num_pins == num_pins, "a node counts other pins than are below it");
  }
  KVGATE_CHECK(num_leaves == leaves_.size(), "the eviction order holds more than the leaves");
  KVGATE_CHECK(payload_bytes == payload_bytes_, "the sum of payloads is wrong");
  KVGATE_CHECK(pinned_bytes == pinned_bytes_, "the sum of pinned bytes is wrong");
}

}  // namespace kvgate::store::kv
