#include "gateway/prompt/parse/turn_memo.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::prompt::parse {
namespace {

// A list that begins with its name; turns are its bytes, 16 each.
std::string ListOf(std::string_view name) {
  std::string list(2 * TurnMemo::kListBytesMin, '.');
  return list.replace(0, name.size(), name);
}

SharedList<Found> Turns(uint32_t count) {
  SharedList<Found> turns;
  for (uint32_t i = 0; i < count; ++i) {
    Found found;
    found.segment.element = {.begin = i * 16, .end = (i + 1) * 16};
    found.segment.place.element = static_cast<int32_t>(i);
    turns.push_back(found);
  }
  return turns;
}

void Keep(TurnMemo& memo, std::string_view name, uint32_t num_turns) {
  const std::string list = ListOf(name);
  memo.Keep(list, "messages", memo.Find(list, "messages"), Turns(num_turns));
}

size_t NumKnown(TurnMemo& memo, std::string_view name) {
  const TurnMemo::Match match = memo.Find(ListOf(name), "messages");
  return match.known == nullptr ? 0 : match.known->segments.size();
}

TEST(TurnMemo, FindsAListAsItWasLastKept) {
  TurnMemo memo(1'000 * sizeof(Found));
  EXPECT_EQ(NumKnown(memo, "a"), 0u);
  Keep(memo, "a", 10);
  EXPECT_EQ(NumKnown(memo, "a"), 10u);
  Keep(memo, "a", 20);
  EXPECT_EQ(NumKnown(memo, "a"), 20u);
  EXPECT_EQ(NumKnown(memo, "b"), 0u);
}

// Each generation has half of the bound: 100 turns.
TEST(TurnMemo, AListThatGrowsCountsWithItsWholeSize) {
  TurnMemo memo(200 * sizeof(Found));
  Keep(memo, "old", 1);
  for (const std::string_view name : {"a", "b"}) {
    for (uint32_t count = 10; count <= 110; count += 10) Keep(memo, name, count);
    EXPECT_EQ(NumKnown(memo, name), 110u);
  }
  EXPECT_EQ(NumKnown(memo, "old"), 0u) << "two generations were filled behind it";
  EXPECT_EQ(NumKnown(memo, "a"), 0u);
}

TEST(TurnMemo, AListThatIsKeptAgainCountsOnce) {
  TurnMemo memo(200 * sizeof(Found));
  Keep(memo, "old", 1);
  for (int i = 0; i < 50; ++i) Keep(memo, "a", 40);
  EXPECT_EQ(NumKnown(memo, "old"), 1u);
}

}  // namespace
}  // namespace kvgate::prompt::parse
