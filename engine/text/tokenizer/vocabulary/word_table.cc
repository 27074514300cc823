#include "engine/text/tokenizer/vocabulary/word_table.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"

namespace kvgate::tokenizer::vocabulary {

WordTable::WordTable(size_t num_words_max)
    : slots_(std::bit_ceil(std::max<size_t>(num_words_max * 2, 2))) {}

void WordTable::Add(std::string_view word, TokenId token) {
  KVGATE_CHECK(++num_words_ * 2 <= slots_.size(), "the word table is sized for fewer words");
  const uint64_t hash = std::hash<std::string_view>{}(word);
  size_t index = hash & (slots_.size() - 1);
  while (slots_[index].token >= 0 && slots_[index].word != word) {
    index = (index + 1) & (slots_.size() - 1);
  }
  if (slots_[index].token < 0) slots_[index] = {.hash = hash, .word = word, .token = token};
}

std::optional<TokenId> WordTable::Find(std::string_view word) const {
  const uint64_t hash = std::hash<std::string_view>{}(word);
  for (size_t index = hash & (slots_.size() - 1);; index = (index + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[index];
    if (slot.token < 0) return std::nullopt;
    if (slot.hash == hash && slot.word == word) return slot.token;
  }
}

}  // namespace kvgate::tokenizer::vocabulary
