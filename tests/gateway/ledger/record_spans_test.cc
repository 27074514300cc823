#include "gateway/ledger/record_spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::ledger {
namespace {

TEST(RecordSpansTest, WholeSpansOfTheOldestAreNamedByTheirLastKey) {
  RecordSpans spans(2);
  spans.Add(std::vector<std::string_view>{"b", "a"});
  spans.Add(std::vector<std::string_view>{"d", "c"});
  EXPECT_EQ(spans.count(), 4);
  EXPECT_EQ(spans.OldestOf(1).last, "") << "half a span is not named";
  EXPECT_EQ(spans.OldestOf(3).last, "b");
  EXPECT_EQ(spans.OldestOf(3).count, 2);
  spans.Remove("b", 2);
  EXPECT_EQ(spans.count(), 2);
  EXPECT_EQ(spans.OldestOf(2).last, "d");
}

TEST(RecordSpansTest, StepsGatherUntilASpanIsFull) {
  RecordSpans spans(3);
  for (const std::string_view key : {"a", "b", "c", "d"}) spans.Add({&key, 1});
  EXPECT_EQ(spans.OldestOf(3).last, "c");
  EXPECT_EQ(spans.OldestOf(4).last, "d");
}

TEST(RecordSpansTest, AnEarlierProcesssRecordsAreOneSpanThatIsTakenInParts) {
  RecordSpans spans(2);
  spans.Restore("m", 10);
  spans.Add(std::vector<std::string_view>{"n", "o"});
  EXPECT_EQ(spans.OldestOf(9).count, 0);
  spans.Remove("d", 4);
  EXPECT_EQ(spans.OldestOf(6).last, "m");
  EXPECT_EQ(spans.OldestOf(6).count, 6);
  // A part that ends within a later span.
  spans.Remove("n", 7);
  EXPECT_EQ(spans.count(), 1);
  EXPECT_EQ(spans.OldestOf(1).last, "o");
}

// Against a set of keys, with requests that take long and steps in any order.
TEST(RecordSpansTest, ItCountsWhatThereIsUpToEachKeyThatItNames) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t end) { return static_cast<int64_t>(random() % end); };
    RecordSpans spans(1 + below(20));
    std::set<std::string> there;
    if (below(2) == 0) {
      for (int i = 0; i < 30; ++i) there.insert(std::to_string(100'000 + below(900)));
      spans.Restore(*there.rbegin(), static_cast<int64_t>(there.size()));
    }
    int64_t now = 101'000;
    for (int step = 0; step < 200; ++step) {
      std::set<std::string> added;
      for (int64_t i = below(12); i > 0; --i) {
        now += 1 + below(3);
        const std::string key = std::to_string(below(10) == 0 ? now - below(900) : now);
        if (!there.contains(key)) added.insert(key);
      }
      std::vector<std::string_view> keys(added.begin(), added.end());
      std::ranges::shuffle(keys, random);
      spans.Add(keys);
      there.insert(added.begin(), added.end());
      ASSERT_EQ(spans.count(), static_cast<int64_t>(there.size()));
      if (below(4) != 0 || there.empty()) continue;
      RecordSpans::Oldest oldest = spans.OldestOf(below(60));
      if (oldest.last.empty()) {  // some records, which were read
        oldest.count = 1 + below(static_cast<uint32_t>(std::min<size_t>(there.size(), 20)));
        oldest.last = *std::next(there.begin(), oldest.count - 1);
      }
      const auto behind = there.upper_bound(oldest.last);
      ASSERT_EQ(oldest.count, std::distance(there.begin(), behind)) << seed << ' ' << step;
      there.erase(there.begin(), behind);
      spans.Remove(oldest.last, oldest.count);
    }
  }
}

}  // namespace
}  // namespace kvgate::ledger
