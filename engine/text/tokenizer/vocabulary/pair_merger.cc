#include "engine/text/tokenizer/vocabulary/pair_merger.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <queue>

namespace kvgate::tokenizer::vocabulary {
namespace {

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kNoIndex = std::numeric_limits<uint32_t>::max();

uint64_t KeyOf(uint32_t left, uint32_t right) { return (uint64_t{left} << 32) | right; }

// A queued pair. It is stale if either symbol has changed since.
struct Candidate {
  uint32_t rank;
  uint32_t position;
  uint32_t left;
  uint32_t right;
  // Inverted, because the top of std::priority_queue is the greatest element.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

struct Link {
  uint32_t previous;
  uint32_t next;
};

}  // namespace

PairMerger::PairMerger(std::span<const Pair> pairs) {
  // At most half full, so that look-ups of absent pairs, the common case, end at once.
  const size_t capacity = std::bit_ceil(std::max<size_t>(pairs.size() * 2, 2));
  shift_ = 64 - std::countr_zero(capacity);
  slots_.resize(capacity);
  for (const Pair& pair : pairs) {
    const uint64_t key = KeyOf(pair.left, pair.right);
    size_t index = HashIndex(key);
    while (slots_[index].key != kEmpty && slots_[index].key != key) {
      index = (index + 1) & (capacity - 1);
    }
    if (slots_[index].key == key && slots_[index].rank <= pair.rank) continue;
    slots_[index] = {.key = key, .rank = pair.rank, .merged = pair.merged};
  }
}

const PairMerger::Slot* PairMerger::Find(uint32_t left, uint32_t right) const {
  if (left == Symbol::kNone || right == Symbol::kNone || slots_.empty()) return nullptr;
  const uint64_t key = KeyOf(left, right);
  for (size_t index = HashIndex(key);; index = (index + 1) & (slots_.size() - 1)) {
    if (slots_[index].key == key) return &slots_[index];
    if (slots_[index].key == kEmpty) return nullptr;
  }
}

void PairMerger::Merge(std::vector<Symbol>& symbols) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kScanSymbolsMax) {
    MergeByScan(symbols);
  } else {
    MergeByHeap(symbols);
  }
}

void PairMerger::MergeByScan(std::vector<Symbol>& symbols) const {
  std::array<const Slot*, kScanSymbolsMax> pairs;  // pairs[i]: symbols i and i + 1
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = Find(symbols[i].id, symbols[i + 1].id);
  while (count > 1) {
    uint32_t best_rank = kNoRank;
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (pairs[i] != nullptr && (best == count || pairs[i]->rank < best_rank)) {
        best_rank = pairs[i]->rank;
        best = i;
      }
    }
    if (best == count) break;
    symbols[best].id = pairs[best]->merged;
    symbols[best].length += symbols[best + 1].length;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    std::copy(pairs.begin() + best + 1, pairs.begin() + count - 1, pairs.begin() + best);
    --count;
    if (best > 0) pairs[best - 1] = Find(symbols[best - 1].id, symbols[best].id);
    if (best + 1 < count) pairs[best] = Find(symbols[best].id, symbols[best + 1].id);
  }
  symbols.resize(count);
}

void PairMerger::MergeByHeap(std::vector<Symbol>& symbols) const {
  const uint32_t count = static_cast<uint32_t>(symbols.size());
  std::vector<Link> links(count);
  std::vector<Candidate> storage;
  storage.reserve(count);
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(storage));
  const auto push = [&](uint32_t left, uint32_t right) {
    const Slot* slot = Find(symbols[left].id, symbols[right].id);
    if (slot == nullptr) return;
    queue.push({slot->rank, left, symbols[left].id, symbols[right].id});
  };
  for (uint32_t i = 0; i < count; ++i) {
    links[i] = {.previous = i == 0 ? kNoIndex : i - 1, .next = i + 1 == count ? kNoIndex : i + 1};
    if (i + 1 < count) push(i, i + 1);
  }
  while (!queue.empty()) {
    const Candidate candidate = queue.top();
    queue.pop();
    const uint32_t left = candidate.position;
    // A symbol that was merged into its neighbour has length 0.
    if (symbols[left].length == 0 || symbols[left].id != candidate.left) continue;
    const uint32_t right = links[left].next;
    if (right == kNoIndex || symbols[right].id != candidate.right) continue;
    symbols[left].id = Find(candidate.left, candidate.right)->merged;
    symbols[left].length += symbols[right].length;
    symbols[right].length = 0;
    links[left].next = links[right].next;
    if (links[left].next != kNoIndex) {
      links[links[left].next].previous = left;
      push(left, links[left].next);
    }
    if (links[left].previous != kNoIndex) push(links[left].previous, left);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.length == 0; });
}

}  // namespace kvgate::tokenizer::vocabulary
