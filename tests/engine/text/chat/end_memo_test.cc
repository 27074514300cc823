#include "engine/text/chat/end_memo.h"

#include <gtest/gtest.h>

#include <random>

namespace kvgate::chat {
namespace {

std::vector<ConversationHash> Chain(std::initializer_list<uint64_t> hashes) {
  std::vector<ConversationHash> chain;
  for (const uint64_t hash : hashes) chain.push_back({.low = hash, .high = ~hash});
  return chain;
}

TEST(CommonPrefixTest, IsAWholeNumberOfCharacters) {
  EXPECT_EQ(CommonPrefix("abc", "abd"), 2u);
  EXPECT_EQ(CommonPrefix("abc", "abc"), 3u);
  EXPECT_EQ(CommonPrefix("", "abc"), 0u);
  EXPECT_EQ(CommonPrefix("aé", "aè"), 1u);  // the first byte of both is the same
  EXPECT_EQ(CommonPrefix("a\xC3", "aé"), 1u);
  std::string big(10'000, 'x');
  const std::string bigger = big + "yz";
  EXPECT_EQ(CommonPrefix(big, bigger), big.size());
  big[9'999] = 'y';
  EXPECT_EQ(CommonPrefix(big, bigger), 9'999u);
}

TEST(EndMemoTest, WhatIsBeforeTheFirstChangeStaysAndWhatIsBehindItEndsThere) {
  EndMemo memo{EndMemo::Options{}};
  EXPECT_EQ(memo.Find(Chain({1, 2}), "text"), EndMemo::Ends(2));
  memo.Keep(Chain({1, 2, 3}), "one two three ->",
            {EndMemo::End{4, true}, EndMemo::End{6, false}, EndMemo::End{14, true}});
  const auto grown = memo.Find(Chain({1, 2, 3, 4}), "one two three four ->");
  EXPECT_EQ(grown[0]->offset, 4u);
  EXPECT_EQ(grown[1]->offset, 6u);
  EXPECT_EQ(grown[2]->offset, 14u);
  EXPECT_FALSE(grown[3]);
  // The text leaves the old one inside the third message, so that message ends there.
  const auto changed = memo.Find(Chain({1, 2, 3, 4}), "one two thirty ->");
  EXPECT_EQ(changed[2]->offset, 10u);
  EXPECT_FALSE(changed[2]->is_whole);
  // The text leaves the old one exactly where the second message did: that one may agree, so its
  // end is unknown.
  const auto tie = memo.Find(Chain({1, 2, 3}), "one tw?");
  EXPECT_FALSE(tie[1]);
  const auto other = memo.Find(Chain({1, 9}), "one two");
  EXPECT_TRUE(other[0]);
  EXPECT_FALSE(other[1]);
}

TEST(EndMemoTest, AConversationThatGoesOnReplacesItselfAndTheOldestLeave) {
  EndMemo memo({.conversations_max = 2, .text_bytes_max = 100});
  memo.Keep(Chain({1}), "a", {EndMemo::End{1, true}});
  memo.Keep(Chain({1, 2}), "ab", {EndMemo::End{1, true}, EndMemo::End{2, true}});
  memo.Keep(Chain({7}), "c", {EndMemo::End{1, true}});
  EXPECT_TRUE(memo.Find(Chain({1}), "ab")[0]);
  EXPECT_TRUE(memo.Find(Chain({7}), "c")[0]);
  memo.Keep(Chain({8}), "d", {EndMemo::End{1, true}});  // {1, 2} was used longest ago
  EXPECT_FALSE(memo.Find(Chain({1}), "ab")[0]);
  memo.Keep(Chain({9}), std::string(26, 'x'), {EndMemo::End{1, true}});
  EXPECT_FALSE(memo.Find(Chain({9}), std::string(26, 'x'))[0]) << "too large to keep";
}

}  // namespace
}  // namespace kvgate::chat
