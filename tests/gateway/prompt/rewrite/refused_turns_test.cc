#include "gateway/prompt/rewrite/refused_turns.h"

#include <gtest/gtest.h>

namespace kvgate::prompt::rewrite {
namespace {

using ledger::SystemTurn;

TEST(RefusedTurns, WhatWasRefusedIsOffForThatUpstreamAndModelOnly) {
  RefusedTurns refused;
  EXPECT_EQ(refused.LeftOf("up", "a", SystemTurn::kClearAt), SystemTurn::kClearAt);
  EXPECT_TRUE(refused.Note("up", "a", SystemTurn::kPlain));
  EXPECT_FALSE(refused.Note("up", "a", SystemTurn::kPlain)) << "it is said once";
  EXPECT_EQ(refused.LeftOf("up", "a", SystemTurn::kClearAt), SystemTurn::kPlain);
  EXPECT_EQ(refused.LeftOf("up", "b", SystemTurn::kClearAt), SystemTurn::kClearAt);
  EXPECT_EQ(refused.LeftOf("other", "a", SystemTurn::kClearAt), SystemTurn::kClearAt);
  EXPECT_TRUE(refused.Note("up", "a", SystemTurn::kNone));
  EXPECT_EQ(refused.LeftOf("up", "a", SystemTurn::kPlain), SystemTurn::kNone);
}

TEST(RefusedTurns, WhatIsRememberedIsBounded) {
  RefusedTurns refused;
  for (size_t i = 0; i <= RefusedTurns::kModelsMax; ++i) {
    EXPECT_TRUE(refused.Note("up", "m" + std::to_string(i), SystemTurn::kNone));
  }
  EXPECT_EQ(refused.LeftOf("up", "m0", SystemTurn::kPlain), SystemTurn::kPlain);
  EXPECT_EQ(refused.LeftOf("up", "m1", SystemTurn::kPlain), SystemTurn::kNone);
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
