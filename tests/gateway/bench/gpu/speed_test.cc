#include "gateway/bench/gpu/speed.h"

#include <gtest/gtest.h>

#include "tests/gateway/bench/gpu/tiny_engine.h"

namespace kvgate::bench::gpu {
namespace {

TEST(SpeedTest, ABatchIsMeasuredWhileAllOfItDecodes) {
  const OpenedEngine opened = OpenTinyEngine({.step_tokens_max = 64});
  const auto one = MeasureDecode(*opened.engine, {.context = 32, .num_tokens = 6});
  ASSERT_TRUE(one.has_value()) << one.error().ToString();
  EXPECT_GT(one->tokens_per_second, 0);
  // The first of seven tokens has 33 before it, the last has 38.
  EXPECT_DOUBLE_EQ(one->context, 35.5);

  const auto eight =
      MeasureDecode(*opened.engine, {.num_sequences = 8, .context = 32, .num_tokens = 6});
  ASSERT_TRUE(eight.has_value()) << eight.error().ToString();
  EXPECT_GT(eight->tokens_per_second, 0);
}

TEST(SpeedTest, WhatTakesTooLongIsNotWaitedFor) {
  const OpenedEngine opened = OpenTinyEngine();
  const BatchShape shape{.num_sequences = 2, .context = 32, .num_tokens = 1000};
  EXPECT_EQ(MeasureDecode(*opened.engine, shape, 0).error().code, ErrorCode::kDeadline);
  EXPECT_EQ(MeasurePrefill(*opened.engine, 1024, 0).error().code, ErrorCode::kDeadline);
  EXPECT_EQ(opened.engine->Stats().num_running, 0u);
}

TEST(SpeedTest, NoPrefillFindsTheOneBeforeInTheCache) {
  const OpenedEngine opened = OpenTinyEngine();
  for (int i = 0; i < 2; ++i) {
    const auto speed = MeasurePrefill(*opened.engine, 128);
    ASSERT_TRUE(speed.has_value()) << speed.error().ToString();
    EXPECT_GT(*speed, 0);
  }
  EXPECT_EQ(opened.engine->Stats().num_device_tokens, 0u);
}

}  // namespace
}  // namespace kvgate::bench::gpu
