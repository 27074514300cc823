#include "tests/gateway/prompt/diagnose/break_generator.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "base/utf8.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::prompt::diagnose {
namespace {

// Checks the bounds that hold for any break.
void CheckBounds(const PrefixBreak& found, const ledger::reply::TokenUsage& usage) {
  for (const std::string& excerpt : {found.before, found.after}) {
    EXPECT_LE(excerpt.size(), 120u);
    EXPECT_TRUE(IsValidUtf8(excerpt));
  }
  EXPECT_FALSE(found.message.empty());
  EXPECT_GE(found.lost_tokens, 0);
  EXPECT_LE(found.lost_tokens + usage.cache_read_tokens, usage.input_tokens());
  EXPECT_LE(found.reusable_tokens, usage.input_tokens());
  EXPECT_GE(found.lost_nanodollars, 0);
}

// Returns true if the estimated reusable tokens are near those that the cache read. A cache without
// breakpoints reads everything before the difference.
bool IsFrontAsRead(const PrefixBreak& found, const ledger::reply::TokenUsage& usage) {
  if (usage.cache_read_tokens == 0 || found.lost_tokens == 0 || found.path.empty()) return true;
  const int64_t off = std::abs(found.reusable_tokens - usage.cache_read_tokens);
  return off <= 300 + usage.cache_read_tokens / 10;
}

// Counts pairs of the planted cause and the one that was named.
using Confusion = std::map<std::pair<std::string, std::string>, int>;

void Print(const Confusion& confusion) {
  std::printf("%-18s %-18s %6s\n", "planted", "named", "count");
  for (const auto& [pair, count] : confusion) {
    std::printf("%-18s %-18s %6d%s\n", pair.first.c_str(), pair.second.c_str(), count,
                pair.first == pair.second ? "" : "  <");
  }
}

TEST(BreakGeneratorTest, ThePlantedCauseIsNamedWithItsPathAndLossInNinetyNineOfAHundred) {
  Confusion confusion;
  int num_pairs = 0;
  int num_wrong = 0;
  int num_far = 0;   // breaks whose estimate of reusable tokens is far off
  int num_lost = 0;  // breaks whose loss is wrong by more than a block of the provider's cache
  for (uint32_t seed = 1; seed <= 16; ++seed) {
    for (const Target& target : kTargets) {
      for (size_t plant = 0; plant < BreakGenerator::kNumPlants; ++plant) {
        BreakGenerator generator(target, seed * 1000 + static_cast<uint32_t>(plant));
        const auto planted = generator.Plant(plant);
        if (!planted) continue;
        const PrefixBreak found = generator.Find();
        ++num_pairs;
        CheckBounds(found, generator.usage());
        if (!target.cache.needs_breakpoints && !IsFrontAsRead(found, generator.usage())) ++num_far;
        ++confusion[{std::string(BreakCauseName(planted->cause)),
                     std::string(BreakCauseName(found.cause))}];
        const int64_t off = std::abs(found.lost_tokens - generator.lost_tokens());
        if (off > generator.block_tokens()) {
          ++num_lost;
          std::printf("seed %u, %s, plant %zu: %s lost %lld, and not %lld\n", seed,
                      std::string(target.provider).c_str(), plant,
                      std::string(BreakCauseName(found.cause)).c_str(),
                      static_cast<long long>(generator.lost_tokens()),
                      static_cast<long long>(found.lost_tokens));
        }
        const bool right = found.cause == planted->cause && found.path == planted->path &&
                           found.volatile_kind == planted->volatile_kind;
        if (right) continue;
        ++num_wrong;
        std::printf(
            "seed %u, %s, plant %zu: %s at '%s' (%s) was named %s at '%s' (%.*s), lost %lld\n",
            seed, std::string(target.provider).c_str(), plant,
            std::string(BreakCauseName(planted->cause)).c_str(), planted->path.c_str(),
            planted->volatile_kind.c_str(), std::string(BreakCauseName(found.cause)).c_str(),
            found.path.c_str(), static_cast<int>(found.volatile_kind.size()),
            found.volatile_kind.data(), static_cast<long long>(found.lost_tokens));
      }
    }
  }
  Print(confusion);
  std::printf("%d pairs, %d wrong, %d fronts and %d losses misjudged\n", num_pairs, num_wrong,
              num_far, num_lost);
  EXPECT_GE(num_pairs, 1000);
  EXPECT_LE(num_wrong * 100, num_pairs);
  EXPECT_LE(num_far * 100, num_pairs);
  EXPECT_LE(num_lost * 100, num_pairs);
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
