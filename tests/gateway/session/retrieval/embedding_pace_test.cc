#include "gateway/session/retrieval/embedding_pace.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/manual_clock.h"

namespace kvgate::session::retrieval {
namespace {

using Use = EmbeddingPace::Use;
using std::chrono::seconds;

TEST(EmbeddingPaceTest, OneSessionIsEmbeddedOnceAtATime) {
  EmbeddingPace pace;
  auto ticket = pace.Begin("t", "k");
  ASSERT_NE(ticket, nullptr);
  EXPECT_EQ(pace.Begin("t", "k"), nullptr);
  EXPECT_NE(pace.Begin("t", "other"), nullptr);
  EXPECT_NE(pace.Begin("other", "k"), nullptr);
  ticket.reset();
  EXPECT_NE(pace.Begin("t", "k"), nullptr);
}

TEST(EmbeddingPaceTest, AfterAFailureComesAPauseWhichGrows) {
  test::ManualClock clock;
  EmbeddingPace pace;
  pace.Note("t", Use::kPassages, false);
  EXPECT_EQ(pace.Begin("t", "k"), nullptr);
  EXPECT_FALSE(pace.IsPaused("t", Use::kQuestion));
  EXPECT_FALSE(pace.IsPaused("other", Use::kPassages));
  clock.Advance(seconds(11));
  EXPECT_NE(pace.Begin("t", "k"), nullptr);
  pace.Note("t", Use::kPassages, false);
  clock.Advance(seconds(11));
  EXPECT_TRUE(pace.IsPaused("t", Use::kPassages));
  clock.Advance(seconds(10));
  EXPECT_FALSE(pace.IsPaused("t", Use::kPassages));
  for (int i = 0; i < 40; ++i) pace.Note("t", Use::kPassages, false);
  clock.Advance(seconds(321));
  EXPECT_FALSE(pace.IsPaused("t", Use::kPassages));
  EXPECT_EQ(pace.counts().num_failed[static_cast<size_t>(Use::kPassages)], 42u);
}

TEST(EmbeddingPaceTest, ASuccessEndsIt) {
  test::ManualClock clock;
  EmbeddingPace pace;
  for (int i = 0; i < 5; ++i) pace.Note("t", Use::kQuestion, false);
  pace.Note("t", Use::kQuestion, true);
  EXPECT_FALSE(pace.IsPaused("t", Use::kQuestion));
  pace.Note("t", Use::kQuestion, false);
  clock.Advance(seconds(11));
  EXPECT_FALSE(pace.IsPaused("t", Use::kQuestion));
}

}  // namespace
}  // namespace kvgate::session::retrieval
