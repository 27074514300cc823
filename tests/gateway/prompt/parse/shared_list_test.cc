#include "gateway/prompt/parse/shared_list.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace kvgate::prompt::parse {
namespace {

using List = SharedList<int>;
constexpr int kChunk = static_cast<int>(List::kChunkSize);

List Numbers(int count) {
  List list;
  for (int i = 0; i < count; ++i) list.push_back(i, 2);
  return list;
}

TEST(SharedList, HoldsWhatWasAppendedInItsOrder) {
  for (const int count : {0, 1, kChunk - 1, kChunk, kChunk + 1, 5 * kChunk + 3}) {
    const List list = Numbers(count);
    std::vector<int> expected(count);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(std::vector<int>(list.begin(), list.end()), expected);
    EXPECT_EQ(list.size(), expected.size());
    EXPECT_EQ(list.empty(), count == 0);
    EXPECT_EQ(list.num_bytes(), 2 * expected.size());
  }
}

TEST(SharedList, ACopyThatGrowsLeavesTheOtherAlone) {
  const List list = Numbers(kChunk + 1);
  List copy = list;
  copy.push_back(7);
  EXPECT_EQ(list.size(), kChunk + 1U);
  EXPECT_EQ(copy.back(), 7);
  EXPECT_EQ(&copy[0], &list[0]);
}

TEST(SharedList, SharesWholeChunksOnly) {
  const List list = Numbers(2 * kChunk + 1);
  List other;
  ASSERT_TRUE(other.CanShare(list));
  other.Share(list);
  EXPECT_EQ(&other[kChunk - 1], &list[kChunk - 1]);
  EXPECT_EQ(other.num_bytes(), 2U * kChunk);
  other.push_back(-1);
  EXPECT_FALSE(other.CanShare(list));
  for (int i = 1; i < kChunk; ++i) other.push_back(-1);
  EXPECT_FALSE(other.CanShare(list)) << "its last chunk is not full";
  EXPECT_EQ(list[kChunk], kChunk);
}

}  // namespace
}  // namespace kvgate::prompt::parse
