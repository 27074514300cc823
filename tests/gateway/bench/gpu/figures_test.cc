#include "gateway/bench/gpu/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <nlohmann/json.hpp>

#include "tests/gateway/cli/printed.h"

namespace kvgate::bench::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Figure Speed(double measured, Bound bound) {
  return {.part = "decode",
          .name = "1 sequence",
          .measured = measured,
          .unit = "tok/s",
          .limit = 200,
          .limit_name = "bandwidth",
          .bound = bound};
}

TEST(FiguresTest, ABoundIsOfTheRatioOrOfTheValueItself) {
  EXPECT_FALSE(Speed(1, {}).is_missed());
  EXPECT_FALSE(Speed(160, {.kind = BoundKind::kRatioMin, .value = 0.8}).is_missed());
  EXPECT_TRUE(Speed(159, {.kind = BoundKind::kRatioMin, .value = 0.8}).is_missed());
  EXPECT_FALSE(Speed(200, {.kind = BoundKind::kRatioMax, .value = 1}).is_missed());
  EXPECT_TRUE(Speed(201, {.kind = BoundKind::kRatioMax, .value = 1}).is_missed());
  EXPECT_FALSE(Speed(30, {.kind = BoundKind::kMin, .value = 30}).is_missed());
  EXPECT_TRUE(Speed(29, {.kind = BoundKind::kMin, .value = 30}).is_missed());
  EXPECT_FALSE(Speed(30, {.kind = BoundKind::kMax, .value = 30}).is_missed());
  EXPECT_TRUE(Speed(31, {.kind = BoundKind::kMax, .value = 30}).is_missed());
}

TEST(FiguresTest, WhatWasNotMeasuredKeepsNoBound) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const BoundKind kind :
       {BoundKind::kRatioMin, BoundKind::kRatioMax, BoundKind::kMin, BoundKind::kMax}) {
    EXPECT_TRUE(Speed(nan, {.kind = kind, .value = 1}).is_missed());
  }
  Figure without_limit = Speed(1, {.kind = BoundKind::kRatioMax, .value = 1});
  without_limit.limit = 0;
  EXPECT_TRUE(without_limit.is_missed());
}

TEST(FiguresTest, EachPartHasAHeadAndEachFigureARow) {
  const std::string printed = cli::Printed([](std::FILE* out) {
    Figures figures(out);
    figures.AddFact("device", "a CPU");
    figures.Add(Speed(170, {.kind = BoundKind::kRatioMin, .value = 0.8}));
    figures.Add(Speed(100, {.kind = BoundKind::kRatioMin, .value = 0.8}));
    figures.Add({.part = "tiers", .name = "cold", .measured = 0.5, .unit = "ms", .note = "twice"});
    EXPECT_EQ(figures.num_missed(), 1);
  });
  EXPECT_THAT(printed, HasSubstr("device: a CPU\n"));
  EXPECT_THAT(printed, HasSubstr("0.85  >= 0.80 of it    ok      bandwidth\n"));
  EXPECT_THAT(printed, HasSubstr("0.50  >= 0.80 of it    MISSED  bandwidth\n"));
  EXPECT_THAT(printed, HasSubstr("0.5000 ms"));
  EXPECT_THAT(printed, HasSubstr("(twice)\n"));
  EXPECT_THAT(printed, Not(HasSubstr(" \n")));
  EXPECT_EQ(printed.find("\ndecode "), printed.rfind("\ndecode "));
}

TEST(FiguresTest, JsonSaysWhatTheTableSays) {
  Figures figures(nullptr);
  figures.AddFact("device", "a CPU");
  figures.Add(Speed(170, {.kind = BoundKind::kRatioMin, .value = 0.8}));
  figures.Add({.part = "tiers", .name = "cold", .measured = 0.5, .unit = "ms"});
  const auto json = nlohmann::json::parse(figures.Json());
  EXPECT_EQ(json["facts"]["device"], "a CPU");
  EXPECT_EQ(json["figures"][0]["measured"], 170);
  EXPECT_EQ(json["figures"][0]["ratio"], 0.85);
  EXPECT_EQ(json["figures"][0]["bound"], ">= 0.80 of it");
  EXPECT_EQ(json["figures"][0]["missed"], false);
  EXPECT_TRUE(json["figures"][1]["limit"].is_null());
  EXPECT_TRUE(json["figures"][1]["ratio"].is_null());
  EXPECT_TRUE(json["figures"][1]["bound"].is_null());
}

}  // namespace
}  // namespace kvgate::bench::gpu
