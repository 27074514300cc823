#include "engine/schedule/single_flight.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvgate::schedule {
namespace {

using kernels::kKvBlockTokens;

class SingleFlightTest : public testing::Test {
 protected:
  // Returns a sequence of num_tokens tokens, with keys of its full blocks but the last token's.
  std::unique_ptr<Sequence> Make(uint64_t id, int num_tokens, TokenId first = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = RequestId{id};
    for (int i = 0; i < num_tokens; ++i) sequence->tokens.push_back(first + i);
    sequence->num_prompt_tokens = num_tokens;
    sequence->root = hasher_.Root("");
    for (int block = 0; block < (num_tokens - 1) / kKvBlockTokens; ++block) {
      const auto tokens =
          std::span(sequence->tokens).subspan(static_cast<size_t>(block * kKvBlockTokens));
      sequence->keys.push_back(
          hasher_.Next(sequence->ParentKey(block), tokens.first<kKvBlockTokens>()));
    }
    return sequence;
  }
  Sequence& Run(std::unique_ptr<Sequence> sequence) {
    Sequence& entered = *running_.emplace_back(std::move(sequence));
    flight_.Lead(entered, 0);
    return entered;
  }

  kv::BlockHasher hasher_{{.fingerprint = {}, .seed = 1}};
  SequenceList running_;
  SingleFlight flight_{running_};
};

TEST_F(SingleFlightTest, ASequenceWaitsForTheOneThatComputesItsNextBlock) {
  Sequence& leader = Run(Make(1, 200));
  const auto other = Make(2, 150);
  EXPECT_TRUE(flight_.Await(*other, 1, false));
  EXPECT_EQ(other->waits_for, leader.id);
  EXPECT_EQ(other->num_tokens_awaited, 128);
  EXPECT_EQ(leader.resume_points, std::vector<int>{128}) << "the other resumes there";
  EXPECT_TRUE(flight_.IsAwaiting(*other));
  leader.num_computed = 128;
  EXPECT_FALSE(flight_.IsAwaiting(*other));
  EXPECT_TRUE(flight_.Await(*other, 1, false));
  EXPECT_EQ(flight_.num_awaited(), 1u) << "it is counted once";
}

TEST_F(SingleFlightTest, AnotherPrefixAndBlocksBehindTheSharedOnesAreNotAwaited) {
  Run(Make(1, 200));
  const auto another = Make(2, 200, 1000);
  EXPECT_FALSE(flight_.Await(*another, 0, true));
  const auto shorter = Make(3, 70);
  EXPECT_FALSE(flight_.Await(*shorter, 2, true)) << "it has only two blocks to find";
  EXPECT_FALSE(flight_.IsAwaiting(*shorter));
  EXPECT_EQ(flight_.num_awaited(), 0u);
}

TEST_F(SingleFlightTest, TokensBehindTheFullBlocksAreAwaitedOnlyIfTheyAreShared) {
  const Sequence& leader = Run(Make(1, 80));
  auto equal = Make(2, 80);
  EXPECT_TRUE(flight_.Await(*equal, 0, true));
  EXPECT_EQ(equal->num_tokens_awaited, leader.num_prompt_tokens);
  EXPECT_TRUE(flight_.Await(*equal, 0, false));
  EXPECT_EQ(equal->num_tokens_awaited, 64);
  auto other = Make(3, 80);
  other->tokens[64] = 999;
  EXPECT_TRUE(flight_.Await(*other, 0, true));
  EXPECT_EQ(other->num_tokens_awaited, 64);
}

TEST_F(SingleFlightTest, NobodyWaitsForWhatIsFoundOrWillNotBeComputed) {
  Sequence& leader = Run(Make(1, 200));
  const auto other = Make(2, 200);
  flight_.Forget(leader, leader.keys[0]);
  EXPECT_FALSE(flight_.Await(*other, 0, true));
  EXPECT_TRUE(flight_.Await(*other, 1, true));
  // A second leader of the same blocks takes nothing from the first.
  const Sequence& second = Run(Make(3, 200));
  flight_.Forget(second);
  EXPECT_TRUE(flight_.Await(*other, 1, true));
  EXPECT_FALSE(flight_.Await(*other, 0, true)) << "forgotten with all of the second's";
  flight_.Forget(leader);
  EXPECT_FALSE(flight_.Await(*other, 1, true));
}

TEST_F(SingleFlightTest, ALeaderThatHasEndedIsNotAwaited) {
  Run(Make(1, 200));
  const auto other = Make(2, 200);
  ASSERT_TRUE(flight_.Await(*other, 0, true));
  running_.clear();
  EXPECT_FALSE(flight_.IsAwaiting(*other));
  EXPECT_FALSE(flight_.Await(*other, 0, true));
}

}  // namespace
}  // namespace kvgate::schedule
