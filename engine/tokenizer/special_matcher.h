// SpecialMatcher: finds the texts of special tokens in running text, leftmost and longest first.
// A trie over bytes: one look at a 256-entry table per byte where no special token begins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>

namespace kvgate::tokenizer {

class SpecialMatcher {
 public:
  SpecialMatcher() : nodes_(1) {}

  // Of two tokens with one text the first added stays. Empty texts are ignored.
  void Add(std::string_view text, TokenId token, bool is_control);

  struct Match {
    size_t begin = 0;
    size_t end = 0;
    TokenId token = 0;
  };
  // The longest token that begins at `position`. Control tokens count only where they end at or
  // before `control_end`.
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

}  // namespace kvgate::tokenizer
