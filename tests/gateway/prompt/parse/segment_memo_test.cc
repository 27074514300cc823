#include "gateway/prompt/parse/segment_memo.h"

#include <gtest/gtest.h>

namespace kvgate::prompt::parse {
namespace {

Identity Raw(uint64_t i) { return {i, i * 7919}; }

TEST(SegmentMemo, HoldsNoMoreThanItsBoundAndKeepsWhatIsAskedFor) {
  SegmentMemo memo(1024);
  CanonicalFacts facts;
  facts.num_tokens = 42;
  memo.Insert(Raw(0), Content::kText, facts);
  for (uint64_t i = 1; i < 10'000; ++i) {
    memo.Insert(Raw(i), Content::kText, {});
    ASSERT_TRUE(memo.Find(Raw(0), Content::kText).has_value()) << i;
    ASSERT_LE(memo.num_entries(), 1024U);
  }
  EXPECT_EQ(memo.Find(Raw(0), Content::kText)->num_tokens, 42U);
  EXPECT_FALSE(memo.Find(Raw(1), Content::kText).has_value());
}

TEST(SegmentMemo, TheSameBytesAsAnotherContentAreAnotherEntry) {
  SegmentMemo memo(1024);
  memo.Insert(Raw(1), Content::kText, {});
  EXPECT_FALSE(memo.Find(Raw(1), Content::kThinking).has_value());
}

}  // namespace
}  // namespace kvgate::prompt::parse
