#include "engine/text/grammar/rules/char_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace kvgate::grammar::rules {
namespace {

TEST(CharSetTest, RandomSetsAgreeWithNaiveOnes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    CharSet set;
    CharSet other;
    std::set<char32_t> naive;
    std::set<char32_t> naive_other;
    for (int i = 0; i < 6; ++i) {
      const char32_t first = random() % 60;
      const char32_t last = first + random() % 8;
      (i % 2 == 0 ? set : other).Add({first, last});
      for (char32_t c = first; c <= last; ++c) (i % 2 == 0 ? naive : naive_other).insert(c);
    }
    const CharSet both = set.Intersect(other);
    const CharSet without = set.Without(other);
    CharSet either = set;
    either.Add(other);
    for (char32_t c = 0; c < 80; ++c) {
      const bool in = naive.contains(c);
      const bool in_other = naive_other.contains(c);
      ASSERT_EQ(set.Contains(c), in);
      ASSERT_EQ(set.Complement().Contains(c), !in);
      ASSERT_EQ(both.Contains(c), in && in_other);
      ASSERT_EQ(either.Contains(c), in || in_other);
      ASSERT_EQ(without.Contains(c), in && !in_other);
    }
    for (size_t i = 1; i < set.ranges().size(); ++i) {
      ASSERT_GT(set.ranges()[i].first, set.ranges()[i - 1].last + 1);
    }
  }
}

TEST(CharSetTest, SurrogatesAreNeverInIt) {
  const CharSet all = CharSet::All();
  EXPECT_TRUE(all.Contains(0xD7FF));
  EXPECT_FALSE(all.Contains(0xD800));
  EXPECT_FALSE(all.Contains(0xDFFF));
  EXPECT_TRUE(all.Contains(0xE000));
  EXPECT_TRUE(CharSet({{0xD900, 0xDA00}}).empty());
  EXPECT_TRUE(all.Complement().empty());
  EXPECT_EQ(CharSet().Complement(), all);
}

}  // namespace
}  // namespace kvgate::grammar::rules
