// WordTable: from the bytes of a whole word to its one token, for words that encode to one token.
// It replaces a cache: built once at load, it needs no lock and no bound. Thread-safe after Add.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>

namespace kvgate::tokenizer {

class WordTable {
 public:
  // Room for this many words; more than that is a broken invariant.
  explicit WordTable(size_t num_words_max = 0);
  // `word` must live as long as the table.
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

}  // namespace kvgate::tokenizer
