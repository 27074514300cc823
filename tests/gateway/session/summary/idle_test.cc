#include "gateway/session/summary/idle.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace kvgate::session::summary {
namespace {

const IdlePrices kClaude{.read = 0.1, .write = 1.25, .output = 5};

TEST(IdleTest, ItPaysWhereTheWritesSavedAreWorthMoreThanTheCall) {
  // 0.5 * 1.25 * 150,000 = 93,750 against 20,000 + 400 + 5,120.
  EXPECT_TRUE(
      Pays(kClaude, {.tokens_before = 200'000, .tokens_after = 50'000, .summary_tokens = 1024}));
  // 0.5 * 1.25 * 7,000 = 4,375 against 1,000 + 400 + 5,120.
  EXPECT_FALSE(
      Pays(kClaude, {.tokens_before = 10'000, .tokens_after = 3'000, .summary_tokens = 1024}));
  EXPECT_FALSE(
      Pays(kClaude, {.tokens_before = 200'000, .tokens_after = 190'000, .summary_tokens = 1024}));
}

TEST(IdleTest, OneWaitsBesideEachSessionForItsNewestTurn) {
  IdleSessions idle;
  const Folds::Session session{.tenant = "t", .key = "k"};
  const auto now = SteadyClock::now();
  EXPECT_TRUE(idle.Note(session, {.at = now, .turn = "turn_1"}));
  EXPECT_FALSE(idle.Note(session, {.at = now + std::chrono::seconds(1), .turn = "turn_2"}));
  EXPECT_EQ(idle.Of(session).turn, "turn_2");
  EXPECT_EQ(idle.Of(session).at, now + std::chrono::seconds(1));
  idle.Forget(session);
  EXPECT_EQ(idle.Of(session).turn, "");
  EXPECT_TRUE(idle.Note(session, {.at = now, .turn = "turn_3"}));
}

TEST(IdleTest, TheirNumberIsBounded) {
  IdleSessions idle;
  for (size_t i = 0; i < IdleSessions::kSessionsMax; ++i) {
    ASSERT_TRUE(idle.Note({.tenant = "t", .key = std::to_string(i)}, {}));
  }
  EXPECT_FALSE(idle.Note({.tenant = "t", .key = "more"}, {}));
  EXPECT_EQ(idle.size(), IdleSessions::kSessionsMax);
}

}  // namespace
}  // namespace kvgate::session::summary
