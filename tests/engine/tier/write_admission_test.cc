#include "engine/tier/write_admission.h"

#include <gtest/gtest.h>

namespace kvgate::tier {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kDay = 960 * kMiB;  // a bucket of 240 MiB that fills by 40 MiB an hour

// A WriteAdmission whose clock the test sets.
struct Timed {
  explicit Timed(uint64_t bytes_per_day = kDay, uint64_t burst_bytes_min = kMiB)
      : admission({.bytes_per_day = bytes_per_day,
                   .burst_bytes_min = burst_bytes_min,
                   .now = [this] { return now; }}) {}
  // Writes a MiB at a time until one is refused. Returns how many were admitted.
  uint64_t Exhaust(WritePriority priority) {
    uint64_t count = 0;
    while (count < 10'000 && admission.Admit(kMiB, priority)) ++count;
    return count;
  }
  WriteAdmission::Clock::time_point now{};
  WriteAdmission admission;
};

TEST(WriteAdmission, AboveHalfEverythingBelowOnlyWhatIsWorthItEmptyOnlyPins) {
  Timed timed;
  EXPECT_EQ(timed.Exhaust(WritePriority::kCommon), 120u);
  EXPECT_EQ(timed.Exhaust(WritePriority::kWorthy), 120u);
  EXPECT_FALSE(timed.admission.Admit(1, WritePriority::kWorthy));
  EXPECT_TRUE(timed.admission.Admit(kMiB, WritePriority::kPinned));
  const WriteAdmissionStats stats = timed.admission.stats();
  EXPECT_EQ(stats.spent_bytes, 241 * kMiB);
  EXPECT_EQ(stats.refused_bytes, 2 * kMiB + 1);
  EXPECT_EQ(stats.left_bytes, -static_cast<int64_t>(kMiB));
}

TEST(WriteAdmission, WhatIsGivenBackMayBeSpentAgain) {
  Timed timed;
  timed.Exhaust(WritePriority::kWorthy);
  timed.admission.GiveBack(3 * kMiB);
  EXPECT_EQ(timed.admission.stats().spent_bytes, 237 * kMiB);
  EXPECT_EQ(timed.Exhaust(WritePriority::kWorthy), 3u);
  timed.admission.GiveBack(10 * kDay);  // never beyond the bucket
  EXPECT_EQ(timed.admission.stats().left_bytes, static_cast<int64_t>(kDay / 4));
  EXPECT_EQ(timed.admission.stats().spent_bytes, 0u);
}

TEST(WriteAdmission, FillsEvenlyAndNeverBeyondItsBurst) {
  Timed timed;
  timed.Exhaust(WritePriority::kWorthy);
  timed.now += hours(1);
  EXPECT_EQ(timed.Exhaust(WritePriority::kWorthy), 40u);
  timed.now += hours(1000);
  EXPECT_EQ(timed.admission.stats().left_bytes, static_cast<int64_t>(kDay / 4));
}

TEST(WriteAdmission, ADayWritesNoMoreThanItsBudgetAndABurst) {
  Timed timed;
  uint64_t written = 0;
  for (int minute = 0; minute < 24 * 60; ++minute) {
    written += timed.Exhaust(WritePriority::kWorthy) * kMiB;
    timed.now += std::chrono::minutes(1);
  }
  EXPECT_LE(written, kDay + kDay / 4);
  EXPECT_GE(written, kDay);
}

TEST(WriteAdmission, ASmallBudgetStillLetsOneRequestThrough) {
  Timed timed(kMiB, 100 * kMiB);
  EXPECT_TRUE(timed.admission.Admit(100 * kMiB, WritePriority::kCommon));
  EXPECT_FALSE(timed.admission.Admit(kMiB, WritePriority::kWorthy));
}

TEST(WriteAdmission, WithoutABudgetEverythingIsAdmittedAndCounted) {
  Timed timed(0);
  EXPECT_EQ(timed.Exhaust(WritePriority::kCommon), 10'000u);
  EXPECT_EQ(timed.admission.stats().spent_bytes, 10'000 * kMiB);
  timed.now += hours(25);
  EXPECT_EQ(timed.admission.stats().spent_bytes, 0u) << "another day";
}

TEST(WriteAdmission, PinsOweAtMostOneBucket) {
  Timed timed;
  EXPECT_EQ(timed.Exhaust(WritePriority::kPinned), 10'000u);
  EXPECT_EQ(timed.admission.stats().left_bytes, -static_cast<int64_t>(kDay / 4));
  timed.now += hours(6);
  EXPECT_FALSE(timed.admission.Admit(kMiB, WritePriority::kWorthy));
  timed.now += hours(1);
  EXPECT_TRUE(timed.admission.Admit(kMiB, WritePriority::kWorthy));
}

TEST(WriteAdmission, WhatWasSpentOutlivesARestart) {
  Timed before;
  before.now += hours(3);
  before.Exhaust(WritePriority::kWorthy);
  const WriteAdmissionState state = before.admission.state();
  Timed after;
  after.admission.Restore(state, seconds(0));
  EXPECT_EQ(after.admission.state(), state);
  EXPECT_FALSE(after.admission.Admit(kMiB, WritePriority::kWorthy));
  after.admission.Restore(state, hours(1));
  EXPECT_EQ(after.Exhaust(WritePriority::kWorthy), 40u);
}

TEST(WriteAdmission, ClocksThatJumpDoNoHarm) {
  Timed timed;
  timed.now += hours(1);
  timed.Exhaust(WritePriority::kWorthy);
  const WriteAdmissionState state = timed.admission.state();
  timed.now -= hours(1);  // the clock steps back, which must not add budget
  EXPECT_FALSE(timed.admission.Admit(kMiB, WritePriority::kWorthy));
  EXPECT_EQ(timed.admission.stats().left_bytes, 0);
  timed.admission.Restore(state, -hours(100));
  EXPECT_EQ(timed.admission.stats().left_bytes, 0);
  timed.admission.Restore(state, hours(1'000'000));
  EXPECT_EQ(timed.admission.stats().left_bytes, static_cast<int64_t>(kDay / 4));
}

}  // namespace
}  // namespace kvgate::tier
