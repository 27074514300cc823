#include "engine/text/tokenizer/vocabulary/byte_trie.h"

#include <algorithm>

namespace kvgate::tokenizer::vocabulary {

ByteTrie::ByteTrie(std::span<const Entry> entries) {
  std::vector<Entry> sorted(entries.begin(), entries.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry& a, const Entry& b) { return a.first < b.first; });
  // The entries below a node share its path, so they form a run of the sorted list.
  struct Run {
    size_t begin;
    size_t end;
    size_t depth;
  };
  std::vector<Run> runs = {{0, sorted.size(), 0}};
  nodes_.emplace_back();
  for (size_t node = 0; node < runs.size(); ++node) {
    auto [begin, end, depth] = runs[node];
    for (; begin < end && sorted[begin].first.size() == depth; ++begin) {
      if (depth > 0 && nodes_[node].value < 0) nodes_[node].value = sorted[begin].second;
    }
    nodes_[node].first_edge = static_cast<uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = sorted[begin].first[depth];
      const size_t first = begin;
      while (begin < end && sorted[begin].first[depth] == byte) ++begin;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
      nodes_.emplace_back();
      runs.push_back({first, begin, depth + 1});
    }
    nodes_[node].num_edges = static_cast<uint32_t>(edges_.size()) - nodes_[node].first_edge;
  }
  for (uint32_t i = 0; i < nodes_[0].num_edges; ++i) first_[edges_[i].byte] = edges_[i].node;
}

uint32_t ByteTrie::Next(uint32_t node, uint8_t byte) const {
  const Edge* begin = edges_.data() + nodes_[node].first_edge;
  const Edge* end = begin + nodes_[node].num_edges;
  // Nearly all nodes have only a few edges.
  const Edge* at = std::find_if(begin, end, [&](const Edge& edge) { return edge.byte == byte; });
  return at == end ? kNone : at->node;
}

}  // namespace kvgate::tokenizer::vocabulary
