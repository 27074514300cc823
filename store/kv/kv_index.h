// KvIndex: the tree of stored blocks in memory, and the order in which to evict them.
//
// It knows no disk and no lock: its owner serialises every call. Invariants (CheckIntegrity): an
// entry of depth 0 has no parent, and the parent of any other entry is in the index and one less
// deep; `leaves_` holds exactly the entries without children, ordered by last use with pinned ones
// last; an entry's num_pins counts the pinned entries in its subtree, itself included. Costs about
// 270 bytes per entry.
//
// A record of a KV group other than 0 is called a window: a leaf below group 0's record of the same
// block, useful only together with it. Windows are not prefixes. They are removed with that record
// or before it, and count as pinned when that record is pinned or has a pin below it.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "store/kv/kv_format.h"
#include "store/kv/kv_store.h"
#include "store/kv/kv_uses.h"

namespace kvgate::store::kv {

class KvIndex {
 public:
  struct Node {
    KvIndexEntry entry;
    uint64_t generation = 0;  // unique per insertion: tells a record from its successor
    bool touched = false;     // last use is newer than what is on disk
    bool visible = true;      // false while the record is being written
    bool was_read = false;    // a hit was counted here
    bool pinned = false;      // never evicted, nor are its ancestors, which have a child
    uint32_t num_pins = 0;    // in this subtree, this node included
    Node* parent = nullptr;
    Node* first_child = nullptr;
    Node* next_sibling = nullptr;
    Node* prev_sibling = nullptr;
    bool is_window() const { return entry.group != 0; }
  };

  KvIndex() = default;
  KvIndex(const KvIndex&) = delete;
  KvIndex& operator=(const KvIndex&) = delete;

  Node* Find(const KvKey& key);
  const Node* Find(const KvKey& key) const;
  // Returns true if `entry` may be inserted: its parent is in the index at depth - 1, or it is a
  // first block.
  bool HasPlaceFor(const KvIndexEntry& entry) const;
  // REQUIRES: absent, and HasPlaceFor(entry).
  Node& Insert(const KvIndexEntry& entry);
  // Sets last use to now; later calls get later times even if the clock steps back.
  void Touch(Node& node);
  // Implements KvStore::CountHits.
  void CountHits(std::span<const KvKey> keys, const KvUse& use);
  // Returns the keys of the block's records in other KV groups.
  std::vector<KvKey> WindowKeys(const Node& node) const;
  // Returns the least recently used leaf that is not pinned; null if there is none.
  Node* OldestLeaf();
  // Returns the bytes that pinning the node would add to pinned_bytes().
  uint64_t BytesToPin(const Node& node) const;
  void SetPinned(Node& node, bool pinned);
  // REQUIRES: no children.
  void RemoveLeaf(Node& node);
  // Removes the node and everything below it, children first, and appends the keys. Returns how
  // many.
  uint64_t RemoveSubtree(Node& node, std::vector<KvKey>& removed);
  // Removes the last block of a prefix and every ancestor that no other prefix or pin needs, with
  // their windows, and appends the keys.
  void RemoveBranch(Node& leaf, std::vector<KvKey>& removed);
  void Clear();

  // Replaces all entries by these, in any order. Appends the keys of entries without a parent to
  // `orphans`. The hits of blocks that stay are kept.
  void Load(std::vector<KvIndexEntry> entries, std::vector<KvKey>& orphans);

  // Returns one prefix per last block and per pinned node, most recently used first.
  std::vector<KvPrefix> ListPrefixes() const;
  // Returns the node with this hash under any fingerprint. Takes time linear in the index.
  const Node* FindByHash(const BlockHash& hash) const;
  // Returns the last blocks of prefixes with this hash, under any fingerprint.
  std::vector<Node*> FindLeaves(const BlockHash& hash);
  std::vector<KvKey> Keys() const;
  // Returns the entries touched since the last call.
  std::vector<KvIndexEntry> TakeTouched();

  uint64_t num_records() const { return nodes_.size(); }
  uint64_t payload_bytes() const { return payload_bytes_; }
  // Returns the estimated disk bytes that the live records need.
  uint64_t disk_bytes() const { return payload_bytes_ + nodes_.size() * kKvOverheadBytes; }

  // Returns the part of disk_bytes() that pins hold.
  uint64_t pinned_bytes() const { return pinned_bytes_; }

  // Aborts if an invariant of the file comment does not hold. For tests.
  void CheckIntegrity() const;

 private:
  using LeafOrder = std::tuple<bool, int64_t, Node*>;
  static LeafOrder OrderOf(Node& node) {
    return {node.pinned || IsKeptWindow(node), node.entry.last_used_us, &node};
  }
  static bool IsKeptWindow(const Node& node) {
    return node.is_window() && node.parent != nullptr && node.parent->num_pins > 0;
  }
  void CountPin(Node& node, bool pinned);
  static uint64_t DiskBytesOf(const Node& node) {
    return node.entry.payload_bytes + kKvOverheadBytes;
  }
  void Unlink(Node& node);

  std::unordered_map<KvKey, Node, KvKeyHash> nodes_;
  std::set<LeafOrder> leaves_;
  std::vector<KvKey> touched_;
  KvUses uses_;
  uint64_t payload_bytes_ = 0;
  uint64_t pinned_bytes_ = 0;
  uint64_t last_generation_ = 0;
  int64_t last_time_us_ = 0;
};

}  // namespace kvgate::store::kv
