#include "gateway/session/retrieval/ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kvgate::session::retrieval {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A conversation in which nothing stands out, as a model sees it that takes all texts of a language
// for about `usual` alike.
std::vector<Likeness> Usual(double usual, double spread, size_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<double> draw(usual, spread);
  std::vector<Likeness> all;
  for (size_t i = 0; i < count; ++i) {
    all.push_back({.entry = static_cast<uint32_t>(i), .cosine = draw(random)});
  }
  return all;
}

TEST(RankingTest, WhatIsMuchLikerThanTheRestStandsOutWhateverTheModel) {
  for (const double usual : {0.05, 0.35, 0.75}) {
    std::vector<Likeness> all = Usual(usual, 0.04, 300, 1);
    all[17].cosine = usual + 0.23;
    all[40].cosine = usual + 0.21;
    EXPECT_THAT(StandingOut(all), ElementsAre(17, 40)) << usual;
  }
}

TEST(RankingTest, WhereNothingFitsNothingStandsOut) {
  size_t num_found = 0;
  for (const size_t count : {2, 10, 100, 1000}) {
    for (int seed = 0; seed < 50; ++seed) {
      num_found += StandingOut(Usual(0.4, 0.05, count, seed)).size();
    }
  }
  // Of 55,600 passages that have nothing to do with their question.
  EXPECT_LE(num_found, 40u);
  EXPECT_THAT(StandingOut({}), IsEmpty());
  EXPECT_THAT(StandingOut(Usual(0.9, 0, 50, 1)), IsEmpty());
}

TEST(RankingTest, WhatIsHardlyAlikeIsNothingEvenIfTheRestIsLessSo) {
  std::vector<Likeness> all = Usual(0, 0, 50, 1);
  all[3].cosine = 0.19;
  EXPECT_THAT(StandingOut(all), IsEmpty());
  all[3].cosine = 0.3;
  EXPECT_THAT(StandingOut(all), ElementsAre(3));
}

TEST(RankingTest, OfEqualsTheLaterOneComesFirst) {
  std::vector<Likeness> all = Usual(0, 0, 50, 1);
  all[3].cosine = all[30].cosine = 0.9;
  EXPECT_THAT(StandingOut(all), ElementsAre(30, 3));
}

TEST(RankingTest, WhatBothRankingsHaveComesFirst) {
  EXPECT_THAT(Fused(std::vector<uint32_t>{1, 2, 3}, std::vector<uint32_t>{7, 3}),
              ElementsAre(3, 1, 7, 2));
  EXPECT_THAT(Fused(std::vector<uint32_t>{1, 2}, {}), ElementsAre(1, 2));
  EXPECT_THAT(Fused({}, std::vector<uint32_t>{2, 1}), ElementsAre(2, 1));
}

}  // namespace
}  // namespace kvgate::session::retrieval
