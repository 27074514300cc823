// TokenTrie: the bytes of all tokens of a vocabulary as a trie, so that a prefix shared by many
// tokens is processed once. Immutable, shared between threads. It leaves out tokens without bytes
// and control tokens, except those in `shown_marks`, which count as their text. End-of-generation
// tokens are kept in a separate list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "engine/text/tokenizer/tokenizer.h"

namespace kvgate::grammar::mask {

class TokenTrie {
 public:
  // Nodes are in preorder. Node 0 is the root; it has no byte and depth 0.
  struct Node {
    uint32_t end = 0;  // index after the last node of the subtree
    uint32_t parent = 0;
    uint32_t first_token = 0;  // its tokens: from here to the next node's first_token
    uint16_t depth = 0;        // in bytes
    uint8_t byte = 0;
  };

  // Copies the tokens; keeps no reference to the tokenizer.
  explicit TokenTrie(const tokenizer::Tokenizer& tokenizer,
                     std::span<const std::string> shown_marks = {});

  size_t num_nodes() const { return nodes_.size() - 1; }
  const Node& node(uint32_t index) const { return nodes_[index]; }
  std::span<const TokenId> tokens(uint32_t index) const {
    const uint32_t first = nodes_[index].first_token;
    return std::span(tokens_).subspan(first, nodes_[index + 1].first_token - first);
  }
  size_t depth_max() const { return depth_max_; }
  int vocab_size() const { return vocab_size_; }
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  bool is_end_token(TokenId token) const;
  size_t num_tokens() const { return tokens_.size(); }
  // Tokens that are neither in the trie nor end a generation.
  std::span<const TokenId> silent_tokens() const { return silent_tokens_; }
  // Returns "" for a token that is not in the trie.
  std::string_view bytes_of(TokenId token) const;

 private:
  int vocab_size_ = 0;
  size_t depth_max_ = 0;
  std::vector<Node> nodes_;  // and a sentinel after the last one
  std::vector<TokenId> tokens_;
  std::vector<TokenId> end_tokens_;
  std::vector<TokenId> silent_tokens_;
  std::string bytes_;
  std::vector<uint32_t> offsets_;  // where each token's bytes begin
};

}  // namespace kvgate::grammar::mask
