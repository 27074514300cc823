#include "engine/grammar/matcher.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <kvgate/check.h>

namespace kvgate::grammar {

Matcher::Matcher(std::shared_ptr<MaskTable> table) : table_(std::move(table)) {
  table_->Add(*this);
}

Matcher::~Matcher() { table_->Remove(*this); }

Result<bool> Matcher::FillMask(std::span<uint64_t> mask, int tokens_left) {
  KVGATE_CHECK(mask.size() * 64 >= static_cast<size_t>(table_->grammar().trie->vocab_size()),
               "a mask is smaller than the vocabulary");
  KVGATE_CHECK(tokens_left > 0, "a mask for a token that cannot come");
  return table_->FillMask(*this, mask, static_cast<uint32_t>(tokens_left));
}

bool Matcher::AcceptToken(TokenId token) {
  const TokenTrie& trie = *table_->grammar().trie;
  if (trie.is_end_token(token)) return CanEnd();
  const std::string_view bytes = trie.bytes_of(token);
  if (bytes.empty() && table_->grammar().is_open && CanEnd()) return true;
  StateId next = bytes.empty() ? StateTable::kDead : state;
  for (const char byte : bytes) {
    next = table_->states().Next(next, static_cast<uint8_t>(byte));
    if (next == StateTable::kDead) break;
  }
  if (next == StateTable::kDead) return false;
  state = next;
  return true;
}

bool Matcher::CanEnd() const { return table_->states().can_end(state); }
bool Matcher::IsComplete() const { return table_->states().is_complete(state); }

std::unique_ptr<Matcher> MatcherPool::Start(const std::shared_ptr<const CompiledGrammar>& grammar) {
  const auto known = std::find_if(tables_.begin(), tables_.end(), [&](const auto& table) {
    return table->shared_grammar() == grammar;
  });
  if (known != tables_.end()) {
    tables_.splice(tables_.begin(), tables_, known);
  } else {
    tables_.push_front(std::make_shared<MaskTable>(grammar, MaskTable::Options()));
    if (tables_.size() > kTablesMax) tables_.pop_back();
  }
  return std::make_unique<Matcher>(tables_.front());
}

}  // namespace kvgate::grammar
