// KvIndex: the tree of stored blocks in memory, and which of them to evict next.
//
// It knows no disk and no lock: its owner serialises every call. Invariants (CheckIntegrity):
// an entry of depth 0 has no parent, any other has its parent here, one less deep; `leaves_` holds
// exactly the entries without children, those that are pinned last, else by last use; an entry's
// num_pins counts the pinned ones among itself and all below it. About 270 bytes per entry.
//
// Records of KV groups other than 0 are leaves that hang from group 0's record of the same block:
// windows, of use only beside it. They are no prefixes, go with it or before it, and are pinned
// where it is pinned or has a pin below it.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "store/kv_format.h"
#include "store/kv/kv_store.h"

namespace kvgate::store {

struct KvKeyHash {
  size_t operator()(const KvKey& key) const noexcept {
    return key.hash.low ^ (key.fingerprint.low * 0x9e3779b97f4a7c15ULL);
  }
};

class KvIndex {
 public:
  struct Node {
    KvIndexEntry entry;
    uint64_t generation = 0;  // unique per insertion: tells a record from its successor
    bool touched = false;     // last use is newer than what is on disk
    bool visible = true;      // false while the record is being written
    bool pinned = false;      // never offered for eviction; ancestors are safe by being parents
    uint32_t num_pins = 0;    // at this node and below
    Node* parent = nullptr;
    Node* first_child = nullptr;
    Node* next_sibling = nullptr;
    Node* prev_sibling = nullptr;
  };

  KvIndex() = default;
  KvIndex(const KvIndex&) = delete;
  KvIndex& operator=(const KvIndex&) = delete;

  Node* Find(const KvKey& key);
  const Node* Find(const KvKey& key) const;
  // Whether `entry` may be inserted: its parent is here at depth - 1, or it is a first block.
  bool HasPlaceFor(const KvIndexEntry& entry) const;
  // REQUIRES: absent, and HasPlaceFor(entry).
  Node& Insert(const KvIndexEntry& entry);
  // Sets last use to now; later calls get later times even if the clock steps back.
  void Touch(Node& node);
  // The keys of a block's records in other KV groups.
  std::vector<KvKey> WindowKeys(const Node& node) const;
  // The leaf unused for longest that is not pinned; nullptr when there is none.
  Node* OldestLeaf();
  // What pinning the node would add to pinned_bytes().
  uint64_t BytesToPin(const Node& node) const;
  void SetPinned(Node& node, bool pinned);
  // REQUIRES: no children.
  void RemoveLeaf(Node& node);
  // Removes the node and all below it, children first; appends the keys. Returns how many.
  uint64_t RemoveSubtree(Node& node, std::vector<KvKey>& removed);
  // Removes the last block of a prefix and every ancestor that no other prefix or pin needs, with
  // their windows; appends the keys.
  void RemoveBranch(Node& leaf, std::vector<KvKey>& removed);
  void Clear();

  // Fills an empty index from entries in any order. Appends those that have no place (orphans).
  void Load(std::vector<KvIndexEntry> entries, std::vector<KvKey>& orphans);

  // One per last block of a prefix and per pinned node, newest use first.
  std::vector<KvPrefix> ListPrefixes() const;
  // The node of this hash, whatever the fingerprint; looks at all of them.
  const Node* FindByHash(const BlockHash& hash) const;
  // Last blocks of prefixes whose hash is `hash`, whatever the fingerprint.
  std::vector<Node*> FindLeaves(const BlockHash& hash);
  std::vector<KvKey> Keys() const;
  // Entries touched since the last call, and forgets that they were.
  std::vector<KvIndexEntry> TakeTouched();

  uint64_t num_records() const { return nodes_.size(); }
  uint64_t payload_bytes() const { return payload_bytes_; }
  // Disk the live records need, by estimate.
  uint64_t disk_bytes() const { return payload_bytes_ + nodes_.size() * kKvOverheadBytes; }

  // The share of disk_bytes() that pins hold.
  uint64_t pinned_bytes() const { return pinned_bytes_; }

  // Aborts when an invariant of the file head does not hold. For tests.
  void CheckIntegrity() const;

 private:
  using LeafOrder = std::tuple<bool, int64_t, Node*>;
  static LeafOrder OrderOf(Node& node) {
    return {node.pinned || IsKeptWindow(node), node.entry.last_used_us, &node};
  }
  static bool IsWindow(const Node& node) { return node.entry.group != 0; }
  static bool IsKeptWindow(const Node& node) {
    return IsWindow(node) && node.parent != nullptr && node.parent->num_pins > 0;
  }
  // A block of group 0 behind this one.
  static bool HasNextBlock(const Node& node);
  // The block whose prefix a leaf shows, where that ends there; else null.
  static Node* LastBlockOf(Node& leaf);
  static uint64_t PayloadBytesWithWindows(const Node& node);
  void CountPin(Node& node, bool pinned);
  static uint64_t DiskBytesOf(const Node& node) {
    return node.entry.payload_bytes + kKvOverheadBytes;
  }
  void Unlink(Node& node);

  std::unordered_map<KvKey, Node, KvKeyHash> nodes_;
  std::set<LeafOrder> leaves_;
  std::vector<KvKey> touched_;
  uint64_t payload_bytes_ = 0;
  uint64_t pinned_bytes_ = 0;
  uint64_t last_generation_ = 0;
  int64_t last_time_us_ = 0;
};

}  // namespace kvgate::store
