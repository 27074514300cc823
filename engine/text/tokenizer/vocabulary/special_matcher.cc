#include "engine/text/tokenizer/vocabulary/special_matcher.h"

#include <algorithm>

namespace kvgate::tokenizer::vocabulary {

const SpecialMatcher::Edge* SpecialMatcher::FindEdge(const Node& node, uint8_t byte) const {
  const auto at = std::lower_bound(node.edges.begin(), node.edges.end(), byte,
                                   [](const Edge& edge, uint8_t b) { return edge.byte < b; });
  return at != node.edges.end() && at->byte == byte ? &*at : nullptr;
}

void SpecialMatcher::Add(std::string_view text, TokenId token, bool is_control) {
  if (text.empty()) return;
  first_bytes_[static_cast<uint8_t>(text[0])] = true;
  uint32_t node = 0;
  for (const char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    if (const Edge* edge = FindEdge(nodes_[node], byte)) {
      node = edge->node;
      continue;
    }
    const uint32_t child = static_cast<uint32_t>(nodes_.size());
    std::vector<Edge>& edges = nodes_[node].edges;
    const auto at = std::lower_bound(edges.begin(), edges.end(), byte,
                                     [](const Edge& edge, uint8_t b) { return edge.byte < b; });
    edges.insert(at, Edge{.byte = byte, .node = child});
    nodes_.emplace_back();
    node = child;
  }
  if (nodes_[node].token >= 0) return;
  nodes_[node].token = token;
  nodes_[node].is_control = is_control;
}

std::optional<SpecialMatcher::Match> SpecialMatcher::MatchAt(std::string_view text, size_t position,
                                                             size_t control_end) const {
  std::optional<Match> best;
  const Node* node = &nodes_[0];
  for (size_t end = position; end < text.size();) {
    const Edge* edge = FindEdge(*node, static_cast<uint8_t>(text[end]));
    if (edge == nullptr) break;
    node = &nodes_[edge->node];
    ++end;
    if (node->token < 0 || (node->is_control && end > control_end)) continue;
    best = Match{.begin = position, .end = end, .token = node->token};
  }
  return best;
}

}  // namespace kvgate::tokenizer::vocabulary
