// WordTable: maps whole words to their token, for words that encode to one token. It takes the
// place of a cache: built once at load, it needs no lock and no eviction. Thread-safe after Add.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace kvgate::tokenizer::vocabulary {

class WordTable {
 public:
  // Reserves room for this many words; adding more is a broken invariant.
  explicit WordTable(size_t num_words_max = 0);
  // `word` must outlive the table.
  void Add(std::string_view word, TokenId token);
  std::optional<TokenId> Find(std::string_view word) const;

 private:
  struct Slot {
    uint64_t hash = 0;
    std::string_view word;
    TokenId token = -1;  // -1: free
  };
  std::vector<Slot> slots_;
  size_t num_words_ = 0;
};

}  // namespace kvgate::tokenizer::vocabulary
