#include "engine/text/tokenizer/vocabulary/pair_merger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace kvgate::tokenizer::vocabulary {
namespace {

using Table = std::map<std::pair<uint32_t, uint32_t>, PairMerger::Pair>;

// Merges as the definition says, without any index.
std::vector<Symbol> MergeNaively(const Table& table, std::vector<Symbol> symbols) {
  while (true) {
    const PairMerger::Pair* best = nullptr;
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = table.find({symbols[i].id, symbols[i + 1].id});
      if (found == table.end()) continue;
      if (best != nullptr && found->second.rank >= best->rank) continue;
      best = &found->second;
      best_at = i;
    }
    if (best == nullptr) return symbols;
    symbols[best_at].id = best->merged;
    symbols[best_at].length += symbols[best_at + 1].length;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best_at) + 1);
  }
}

TEST(PairMergerTest, ShortAndLongRowsMergeAsTheDefinitionSays) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 400; ++round) {
    // Few symbols and ranks make ties and pairs of merged symbols frequent.
    const uint32_t num_symbols = 2 + random() % 12;
    Table table;
    std::vector<PairMerger::Pair> pairs;
    for (size_t i = 0; i < 3 * num_symbols; ++i) {
      const PairMerger::Pair pair = {.left = static_cast<uint32_t>(random() % num_symbols),
                                     .right = static_cast<uint32_t>(random() % num_symbols),
                                     .rank = static_cast<uint32_t>(random() % 8),
                                     .merged = static_cast<uint32_t>(random() % num_symbols)};
      pairs.push_back(pair);
      const auto [at, is_new] = table.try_emplace({pair.left, pair.right}, pair);
      if (!is_new && pair.rank < at->second.rank) at->second = pair;
    }
    const PairMerger merger(pairs);
    for (const size_t length : {0, 1, 2, 5, 31, 32, 33, 34, 200}) {
      std::vector<Symbol> symbols;
      for (size_t i = 0; i < length; ++i) {
        const bool is_foreign = random() % 10 == 0;
        symbols.push_back(
            {.id = is_foreign ? Symbol::kNone : static_cast<uint32_t>(random() % num_symbols),
             .length = 1 + static_cast<uint32_t>(random() % 3)});
      }
      const std::vector<Symbol> expected = MergeNaively(table, symbols);
      merger.Merge(symbols);
      ASSERT_EQ(symbols.size(), expected.size()) << "length " << length;
      for (size_t i = 0; i < symbols.size(); ++i) {
        EXPECT_EQ(symbols[i].id, expected[i].id);
        EXPECT_EQ(symbols[i].length, expected[i].length);
      }
    }
  }
}

TEST(PairMergerTest, AnEmptyTableLeavesTheRowAlone) {
  std::vector<Symbol> symbols = {{.id = 0, .length = 1}, {.id = 0, .length = 1}};
  PairMerger().Merge(symbols);
  EXPECT_EQ(symbols.size(), 2u);
}

}  // namespace
}  // namespace kvgate::tokenizer::vocabulary
