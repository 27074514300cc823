// SpecialMatcher: finds the texts of special tokens in running text. A trie over bytes; a byte that
// begins no special token costs one look-up in a table of 256 entries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace kvgate::tokenizer::vocabulary {

class SpecialMatcher {
 public:
  SpecialMatcher() : nodes_(1) {}

  // If two tokens have the same text, the first one wins. Empty texts are ignored.
  void Add(std::string_view text, TokenId token, bool is_control);

  struct Match {
    size_t begin = 0;
    size_t end = 0;
    TokenId token = 0;
  };
  // Returns the longest token that begins at `position`. Control tokens count only if they end at
  // or before `control_end`.
  std::optional<Match> MatchAt(std::string_view text, size_t position, size_t control_end) const;
  bool MayBeginWith(char byte) const { return first_bytes_[static_cast<uint8_t>(byte)]; }

 private:
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  struct Node {
    std::vector<Edge> edges;
    TokenId token = -1;
    bool is_control = false;
  };
  const Edge* FindEdge(const Node& node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> first_bytes_{};
};

}  // namespace kvgate::tokenizer::vocabulary
