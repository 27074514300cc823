#include "engine/pinned_prefixes.h"

#include <gtest/gtest.h>

#include <chrono>

#include "kernels/backend.h"

namespace kvgate::engine {
namespace {

using kernels::kKvBlockTokens;
using std::chrono::seconds;
using std::chrono::steady_clock;

std::vector<TokenId> Tokens(int num_blocks, TokenId last = 1) {
  std::vector<TokenId> tokens(static_cast<size_t>(num_blocks * kKvBlockTokens), 1);
  tokens.back() = last;
  return tokens;
}

class PinnedPrefixesTest : public testing::Test {
 protected:
  bool Set(std::vector<TokenId> tokens, int priority, bool is_hint = false,
           steady_clock::time_point until = steady_clock::time_point::max()) {
    return pinned_.Set({.tokens = std::move(tokens),
                        .cache_salt = "s",
                        .priority = priority,
                        .is_hint = is_hint,
                        .until = until});
  }
  kv::BlockHasher hasher_{{.fingerprint = {}, .seed = 0, .hash_bits = 128}};
  PinnedPrefixes pinned_{hasher_};
};

TEST_F(PinnedPrefixesTest, ABlockThatTwoPrefixesBeginWithHasTheHigherPriority) {
  ASSERT_TRUE(Set(Tokens(3, 8), 1));
  ASSERT_TRUE(Set(Tokens(3, 9), 5));
  const auto priorities = pinned_.Priorities(0);
  EXPECT_EQ(priorities.size(), 4u);  // two blocks in common, and one block each
  int num_high = 0;
  for (const auto& [hash, priority] : priorities) num_high += priority == 5;
  EXPECT_EQ(num_high, 3);
}

TEST_F(PinnedPrefixesTest, APriorityOfNoneUnpins) {
  ASSERT_TRUE(Set(Tokens(2), 3));
  ASSERT_TRUE(Set(Tokens(2), 0));
  EXPECT_TRUE(pinned_.Priorities(0).empty());
}

TEST_F(PinnedPrefixesTest, OneThatHasEndedIsForgotten) {
  const auto now = steady_clock::now();
  ASSERT_TRUE(Set(Tokens(2, 8), 3, false, now + seconds(10)));
  ASSERT_TRUE(Set(Tokens(2, 9), 3));
  EXPECT_FALSE(pinned_.EndExpired(now));
  EXPECT_TRUE(pinned_.EndExpired(now + seconds(10)));
  EXPECT_EQ(pinned_.Priorities(0).size(), 2u);
}

TEST_F(PinnedPrefixesTest, AHintTakesTheRoomOfNoneThatLastsAsLong) {
  const auto now = steady_clock::now();
  ASSERT_TRUE(Set(Tokens(2), 7, false, now + seconds(10)));
  EXPECT_FALSE(Set(Tokens(2), 1, true, now + seconds(10)));
  EXPECT_TRUE(Set(Tokens(2), 1, true, now + seconds(11)));
}

TEST_F(PinnedPrefixesTest, OnlyTheBlocksBeforeThePrefixesEndArePinnedInAWindow) {
  ASSERT_TRUE(Set(Tokens(20), 2));
  const auto windowed = pinned_.Priorities(2 * kKvBlockTokens);
  EXPECT_GE(windowed.size(), 2u);
  EXPECT_LT(windowed.size(), 6u);
}

}  // namespace
}  // namespace kvgate::engine
