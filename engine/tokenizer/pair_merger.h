// PairMerger: byte-pair merging, the core of both tokenizers. Given symbols in a row and a table of
// pairs, it merges the pair of the lowest rank (the leftmost of equals) until no pair is left.
// It knows symbol numbers, neither bytes nor tokens. Immutable after construction; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvgate::tokenizer {

struct Symbol {
  static constexpr uint32_t kNone = 0xFFFFFFFF;  // merges with nothing
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
  // Of two entries for one pair the one of lower rank counts.
  explicit PairMerger(std::span<const Pair> pairs);

  // O(n log n): short rows by scanning, long ones with a heap; the result is the same.
  void Merge(std::vector<Symbol>& symbols) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    uint32_t rank = 0;
    uint32_t merged = 0;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  // Below this many symbols moving a few bytes costs less than keeping a heap.
  static constexpr size_t kScanSymbolsMax = 32;

  const Slot* Find(uint32_t left, uint32_t right) const;
  size_t HashIndex(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }
  void MergeByScan(std::vector<Symbol>& symbols) const;
  void MergeByHeap(std::vector<Symbol>& symbols) const;

  std::vector<Slot> slots_;
  int shift_ = 63;
};

}  // namespace kvgate::tokenizer
