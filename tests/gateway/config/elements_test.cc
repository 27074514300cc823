#include "gateway/config/elements.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace kvgate::config {
namespace {

template <typename Element>
const ElementKey<Element>* Find(std::span<const ElementKey<Element>> keys, std::string_view name) {
  for (const auto& key : keys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

TEST(ElementsTest, NoTableHasAKeyTwice) {
  const auto expect_unique = [](auto keys) {
    std::set<std::string_view> names;
    for (const auto& key : keys) EXPECT_TRUE(names.insert(key.name).second) << key.name;
  };
  expect_unique(UpstreamKeys());
  expect_unique(RouteKeys());
  expect_unique(KeyKeys());
}

TEST(ElementsTest, ABudgetOfAKeyIsSetAndBounded) {
  KeyConfig key;
  EXPECT_EQ(Find(KeyKeys(), "tokens_per_day")->set(Value(int64_t{7}), key), std::nullopt);
  EXPECT_EQ(Find(KeyKeys(), "tokens_per_month")->set(Value(int64_t{8}), key), std::nullopt);
  EXPECT_EQ(Find(KeyKeys(), "dollars_per_day")->set(Value(0.5), key), std::nullopt);
  EXPECT_EQ(Find(KeyKeys(), "dollars_per_month")->set(Value(int64_t{9}), key), std::nullopt);
  EXPECT_EQ(key.budgets, (BudgetLimits{.dollars_per_day = 0.5,
                                       .dollars_per_month = 9,
                                       .tokens_per_day = 7,
                                       .tokens_per_month = 8}));
  EXPECT_NE(Find(KeyKeys(), "tokens_per_day")->set(Value(int64_t{-1}), key), std::nullopt);
  EXPECT_NE(Find(KeyKeys(), "dollars_per_day")->set(Value(-0.1), key), std::nullopt);
  EXPECT_EQ(key.budgets.tokens_per_day, 7);
}

TEST(ElementsTest, WhatAnElementLacksIsSaid) {
  KeyConfig key;
  EXPECT_EQ(Missing(key), "key.name is missing");
  key.name = "a";
  EXPECT_EQ(Missing(key), "a key needs key_env or sha256, and only one of them");
  key.key_env = "A";
  EXPECT_EQ(Missing(key), "");
  EXPECT_EQ(Missing(RouteConfig{}), "route.targets is missing");
  EXPECT_EQ(Missing(UpstreamConfig{}), "upstream.name is missing");
}

}  // namespace
}  // namespace kvgate::config
