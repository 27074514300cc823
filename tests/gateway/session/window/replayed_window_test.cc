#include "gateway/session/window/replayed_window.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvgate::session::window {
namespace {

// The tokens of what stays.
int64_t TokensOf(const Replayed& kept, int64_t fixed, const std::vector<Unit>& units) {
  int64_t tokens = fixed + (kept.user ? units[*kept.user].tokens : 0);
  for (size_t i = kept.first; i < units.size(); ++i) tokens += units[i].tokens;
  return tokens;
}

Replayed KeptOf(const std::vector<Unit>& units, int64_t hard = 1000, int64_t fixed = 100) {
  return ReplayWindow({.hard = hard, .fixed = fixed, .units = units});
}

TEST(ReplayedWindowTest, EverythingStaysAsLongAsItFits) {
  std::vector<Unit> units;
  for (int i = 0; i < 9; ++i) units.push_back({.tokens = 100, .is_user = i % 2 == 0});
  const Replayed kept = KeptOf(units);
  EXPECT_EQ(kept.first, 0u);
  EXPECT_FALSE(kept.user);
}

TEST(ReplayedWindowTest, ATranscriptThatGrowsLosesTheSameUntilTheWindowIsFullAgain) {
  std::vector<Unit> units;
  int num_cuts = 0;
  Replayed last;
  for (int turn = 0; turn < 200; ++turn) {
    units.push_back({.tokens = 11 + turn % 7, .is_user = true});
    units.push_back({.tokens = 23 + turn % 5, .is_user = false});
    const Replayed kept = KeptOf(units);
    EXPECT_LE(TokensOf(kept, 100, units), 1000);
    num_cuts += kept.first != last.first ? 1 : 0;
    last = kept;
  }
  // About 8,000 tokens; each cut makes room for 400 to 600.
  EXPECT_LE(num_cuts, 20);
  EXPECT_GE(num_cuts, 10);
}

TEST(ReplayedWindowTest, AUserStaysWithTheAnswersThatFollow) {
  std::vector<Unit> units = {{.tokens = 300, .is_user = true}, {.tokens = 50, .is_user = true}};
  for (int i = 0; i < 30; ++i) units.push_back({.tokens = 60, .is_user = false});
  const Replayed kept = KeptOf(units);
  EXPECT_EQ(kept.user, 1u);
  EXPECT_GT(kept.first, 2u);
  EXPECT_LE(TokensOf(kept, 100, units), 1000);
  units.push_back({.tokens = 700, .is_user = true});
  const Replayed next = KeptOf(units);
  EXPECT_LE(TokensOf(next, 100, units), 1000);
}

TEST(ReplayedWindowTest, TheNewestStaysAlsoIfItDoesNotFit) {
  const std::vector<Unit> units = {{.tokens = 50, .is_user = true},
                                   {.tokens = 50, .is_user = false},
                                   {.tokens = 5000, .is_user = true}};
  const Replayed kept = KeptOf(units);
  EXPECT_EQ(kept.first, 2u);
  EXPECT_FALSE(kept.user);
  EXPECT_EQ(KeptOf({}).first, 0u);
}

}  // namespace
}  // namespace kvgate::session::window
