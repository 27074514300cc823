// ByteTrie: maps texts to numbers and is walked byte by byte. Built once, flat. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::tokenizer::vocabulary {

class ByteTrie {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  using Entry = std::pair<std::string_view, int32_t>;

  ByteTrie() = default;
  // If two texts are equal, the first one wins. Empty texts are ignored. The views are not kept.
  explicit ByteTrie(std::span<const Entry> entries);

  // Returns the child of `node` along `byte`, or kNone. REQUIRES: node is not kNone; the trie has
  // entries.
  uint32_t Next(uint32_t node, uint8_t byte) const;
  // The first step of a walk; returns kNone if no text begins with the byte.
  uint32_t First(uint8_t byte) const { return first_[byte]; }
  std::optional<int32_t> value(uint32_t node) const {
    if (nodes_[node].value < 0) return std::nullopt;
    return nodes_[node].value;
  }

 private:
  struct Edge {
    uint8_t byte = 0;
    uint32_t node = 0;
  };
  struct Node {
    uint32_t first_edge = 0;
    uint32_t num_edges = 0;
    int32_t value = -1;
  };
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::array<uint32_t, 256> first_ = [] {
    std::array<uint32_t, 256> none;
    none.fill(kNone);
    return none;
  }();
};

}  // namespace kvgate::tokenizer::vocabulary
