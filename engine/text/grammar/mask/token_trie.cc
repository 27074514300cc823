#include "engine/text/grammar/mask/token_trie.h"

#include <algorithm>
#include <limits>
#include <map>

namespace kvgate::grammar::mask {

TokenTrie::TokenTrie(const tokenizer::Tokenizer& tokenizer,
                     std::span<const std::string> shown_marks)
    : vocab_size_(tokenizer.vocab_size()) {
  std::map<TokenId, std::string_view> shown;
  for (const std::string& mark : shown_marks) {
    if (const auto token = tokenizer.FindSpecial(mark)) shown.emplace(*token, mark);
  }
  std::vector<TokenId> sorted;
  offsets_.push_back(0);
  for (TokenId token = 0; token < vocab_size_; ++token) {
    if (tokenizer.is_end_of_generation(token)) {
      end_tokens_.push_back(token);
    } else {
      const auto mark = shown.find(token);
      const std::string bytes =
          mark == shown.end() ? tokenizer.TokenBytes(token) : std::string(mark->second);
      // Longer tokens do not fit Node::depth; no model would sample one.
      if (!bytes.empty() && bytes.size() < std::numeric_limits<uint16_t>::max()) {
        sorted.push_back(token);
        bytes_ += bytes;
      } else {
        silent_tokens_.push_back(token);
      }
    }
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  std::sort(sorted.begin(), sorted.end(), [this](TokenId a, TokenId b) {
    const int order = bytes_of(a).compare(bytes_of(b));
    return order != 0 ? order < 0 : a < b;
  });
  nodes_.emplace_back();
  std::vector<uint32_t> path = {0};  // nodes from the root to the last token's
  std::string_view last;
  const auto close = [&](size_t depth) {
    while (path.size() > depth + 1) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
  };
  for (const TokenId token : sorted) {
    const std::string_view bytes = bytes_of(token);
    const auto [differs, unused] =
        std::mismatch(bytes.begin(), bytes.end(), last.begin(), last.end());
    close(static_cast<size_t>(differs - bytes.begin()));
    while (path.size() <= bytes.size()) {
      const auto index = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.parent = path.back(),
                        .first_token = static_cast<uint32_t>(tokens_.size()),
                        .depth = static_cast<uint16_t>(path.size()),
                        .byte = static_cast<uint8_t>(bytes[path.size() - 1])});
      path.push_back(index);
    }
    tokens_.push_back(token);
    depth_max_ = std::max(depth_max_, bytes.size());
    last = bytes;
  }
  close(0);
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({.first_token = static_cast<uint32_t>(tokens_.size())});
}

bool TokenTrie::is_end_token(TokenId token) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), token);
}

std::string_view TokenTrie::bytes_of(TokenId token) const {
  if (token < 0 || token >= vocab_size_) return {};
  const auto index = static_cast<size_t>(token);
  return std::string_view(bytes_).substr(offsets_[index], offsets_[index + 1] - offsets_[index]);
}

}  // namespace kvgate::grammar::mask
