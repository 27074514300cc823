// PairMerger: byte-pair merging, the core of the BPE tokenizers. Given a sequence of symbols and a
// table of pairs, it merges the pair of the lowest rank (the leftmost of equal ones) until no pair
// is left. It knows symbol numbers, neither bytes nor tokens. Immutable after construction;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvgate::tokenizer::vocabulary {

struct Symbol {
  static constexpr uint32_t kNone = 0xFFFFFFFF;  // merges with no other symbol
  uint32_t id = kNone;
  uint32_t length = 0;  // bytes of text it covers; a merged symbol covers those of both
};

class PairMerger {
 public:
  struct Pair {
    uint32_t left = 0;
    uint32_t right = 0;
    uint32_t rank = 0;  // lower merges first
    uint32_t merged = 0;
  };

  PairMerger() = default;
  // If a pair occurs twice, the entry of lower rank wins.
  explicit PairMerger(std::span<const Pair> pairs);

  // O(n log n): scans short sequences and uses a heap for long ones, with the same result.
  void Merge(std::vector<Symbol>& symbols) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    uint32_t rank = 0;
    uint32_t merged = 0;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  // Below this many symbols, moving a few bytes is cheaper than maintaining a heap.
  static constexpr size_t kScanSymbolsMax = 32;

  const Slot* Find(uint32_t left, uint32_t right) const;
  size_t HashIndex(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }
  void MergeByScan(std::vector<Symbol>& symbols) const;
  void MergeByHeap(std::vector<Symbol>& symbols) const;

  std::vector<Slot> slots_;
  int shift_ = 63;
};

}  // namespace kvgate::tokenizer::vocabulary
