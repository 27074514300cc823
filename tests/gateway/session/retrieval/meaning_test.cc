#include "gateway/session/retrieval/meaning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kvgate::session::retrieval {
namespace {

double ExactCosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0;
  double of_a = 0;
  double of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * double{b[i]};
    of_a += double{a[i]} * double{a[i]};
    of_b += double{b[i]} * double{b[i]};
  }
  return product / std::sqrt(of_a * of_b);
}

TEST(MeaningTest, SmallNumbersTellTheCosineToTwoDigits) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw(0.1F, 1);
  std::vector<float> a(768);
  std::vector<float> b(768);
  for (int i = 0; i < 20; ++i) {
    for (float& value : a) value = draw(random);
    for (size_t k = 0; k < b.size(); ++k) b[k] = a[k] + static_cast<float>(i) * draw(random) / 4;
    EXPECT_NEAR(Meaning::Of(a).CosineWith(Meaning::Of(b)), ExactCosine(a, b), 0.01) << i;
  }
}

TEST(MeaningTest, ItsLengthDoesNotMatter) {
  const std::vector<float> a = {1, 2, -3};
  const std::vector<float> longer = {100, 200, -300};
  EXPECT_NEAR(Meaning::Of(a).CosineWith(Meaning::Of(longer)), 1, 1e-9);
}

TEST(MeaningTest, ItsBytesGiveTheSame) {
  const Meaning meaning = Meaning::Of(std::vector<float>{0.5F, -0.25F, 0});
  const Meaning again = Meaning::FromBytes(meaning.bytes());
  EXPECT_EQ(again.dimensions(), 3u);
  EXPECT_EQ(again.bytes(), meaning.bytes());
  EXPECT_NEAR(again.CosineWith(meaning), 1, 1e-9);
}

TEST(MeaningTest, WhatHasNoDirectionIsUnknown) {
  EXPECT_FALSE(Meaning().is_known());
  EXPECT_FALSE(Meaning::Of({}).is_known());
  EXPECT_FALSE(Meaning::Of(std::vector<float>{0, 0}).is_known());
  EXPECT_FALSE(
      Meaning::Of(std::vector<float>{1, std::numeric_limits<float>::infinity()}).is_known());
  EXPECT_FALSE(Meaning::Of(std::vector<float>(Meaning::kDimensionsMax + 1, 1)).is_known());
  EXPECT_TRUE(Meaning::Of(std::vector<float>(Meaning::kDimensionsMax, 1)).is_known());
  EXPECT_FALSE(Meaning::FromBytes(std::string(4, '\0')).is_known());
}

}  // namespace
}  // namespace kvgate::session::retrieval
