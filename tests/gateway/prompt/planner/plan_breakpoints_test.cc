#include "gateway/prompt/planner/plan_breakpoints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/gateway/prompt/plan_simulation.h"

namespace kvgate::prompt::planner {

using parse::Breakpoint;

namespace {

using namespace simulation;  // NOLINT: all of it is meant

struct Placed {
  std::vector<PlanSegment> segments;
  Layout layout;
  Breakpoints breakpoints;
};

struct Given {
  std::vector<Block> blocks;
  Lifetime stable = Lifetime::kNone;
  Lifetime tail = Lifetime::kNone;
  std::optional<size_t> readable = {};
  std::optional<Breakpoint> automatic = {};
  size_t num_trusted = 1000;
};

Placed Place(const Given& given, bool vanishes = false) {
  Placed placed;
  placed.segments = SegmentsOf(given.blocks);
  Request request;
  PlanArgs args = ArgsOf(request, placed.segments, Row("anthropic", "claude-opus-5"));
  args.automatic = given.automatic;
  placed.layout = FindLayout({.segments = placed.segments,
                              .syntax = ledger::BreakpointSyntax::kCacheControl,
                              .volatile_vanishes = vanishes,
                              .num_trusted = given.num_trusted});
  const CallersBreakpoints callers = ReadCallersBreakpoints(args, placed.layout);
  placed.breakpoints = PlaceBreakpoints({.args = args,
                                         .layout = placed.layout,
                                         .callers = callers,
                                         .stable = given.stable,
                                         .tail = given.tail,
                                         .readable = given.readable});
  return placed;
}

std::vector<Block> Turns(int count) {
  std::vector<Block> blocks = {System("s", 2000)};
  for (int i = 0; i < count; ++i) blocks.push_back(User(std::to_string(i), 100));
  return blocks;
}

TEST(PlanBreakpointsTest, WhatCanBeReadIsReadEvenWhereNothingIsWritten) {
  const Placed placed = Place({.blocks = Turns(5), .readable = 3});
  ASSERT_EQ(placed.breakpoints.breakpoints.size(), 1U);
  EXPECT_EQ(placed.breakpoints.breakpoints[0].segment, 3U);
}

// A client's window drops turns behind the first one, so nothing new is written there.
TEST(PlanBreakpointsTest, WhatCanBeReadIsReadAlsoWhereEverythingBehindItChanges) {
  const Placed placed = Place({.blocks = Turns(5), .readable = 1, .num_trusted = 2});
  ASSERT_EQ(placed.breakpoints.breakpoints.size(), 1U);
  EXPECT_EQ(placed.breakpoints.breakpoints[0].segment, 1U);
  const Placed shorter = Place({.blocks = Turns(5), .readable = 1, .num_trusted = 1});
  ASSERT_EQ(shorter.breakpoints.breakpoints.size(), 1U);
  EXPECT_EQ(shorter.breakpoints.breakpoints[0].segment, 1U);
}

TEST(PlanBreakpointsTest, ABreakpointWithinTheLookbackReadsIt) {
  const auto count = [](int blocks) {
    return Place({.blocks = Turns(blocks), .tail = Lifetime::kTtl, .readable = 5})
        .breakpoints.breakpoints.size();
  };
  EXPECT_EQ(count(24), 1U) << "20 positions, itself included: 24 to 5";
  EXPECT_EQ(count(25), 2U) << "one more is out of reach";
}

TEST(PlanBreakpointsTest, ACallersPlaceOfTheNewestBlockIsNotTakenTwice) {
  std::vector<Block> blocks = Turns(3);
  blocks.back().breakpoint = Breakpoint{};
  const Placed placed =
      Place({.blocks = blocks, .stable = Lifetime::kTtl, .tail = Lifetime::kLong});
  ASSERT_EQ(placed.breakpoints.breakpoints.size(), 2U);
  EXPECT_EQ(placed.breakpoints.breakpoints[0].breakpoint.ttl_seconds, 3600)
      << "in front of a longer one";
  EXPECT_EQ(placed.breakpoints.breakpoints[1].breakpoint.ttl_seconds, 3600);
}

// Whatever the caller marks and the planner chooses, there are at most four breakpoints, on blocks
// that can hold them, with the longest TTL first.
std::vector<size_t> PlacesOf(const Placed& placed) {
  std::vector<size_t> places;
  for (const PlannedBreakpoint& one : placed.breakpoints.breakpoints) places.push_back(one.segment);
  return places;
}

TEST(PlanBreakpointsTest, ASummaryHasOneOfItsOwnWhereTheTailIsWritten) {
  std::vector<Block> blocks = Turns(6);
  blocks[1].is_summary = true;
  blocks[4].is_summary = true;
  const Given given{.blocks = blocks, .stable = Lifetime::kTtl, .tail = Lifetime::kTtl};
  EXPECT_EQ(PlacesOf(Place(given)), (std::vector<size_t>{0, 1, 6}));
  Given unwritten = given;
  unwritten.tail = Lifetime::kNone;
  EXPECT_EQ(PlacesOf(Place(unwritten)), (std::vector<size_t>{0}));
  Given unmarkable = given;
  unmarkable.blocks[1].markable = false;
  unmarkable.blocks[4].is_summary = false;
  EXPECT_EQ(PlacesOf(Place(unmarkable)), (std::vector<size_t>{0, 6}));
}

TEST(PlanBreakpointsTest, ASummarysGoesBeforeACallersOwn) {
  std::vector<Block> blocks = Turns(6);
  blocks[1].is_summary = true;
  for (const size_t own : {2, 3}) blocks[own].breakpoint = Breakpoint{};
  EXPECT_EQ(PlacesOf(Place({.blocks = blocks, .stable = Lifetime::kTtl, .tail = Lifetime::kTtl})),
            (std::vector<size_t>{0, 2, 3, 6}));
}

TEST(PlanBreakpointsTest, NoPlanIsRefusedByTheProvider) {
  std::mt19937 random(1);
  const auto chance = [&](uint32_t of) { return random() % of == 0; };
  for (int round = 0; round < 3000; ++round) {
    Given given{.blocks = Turns(static_cast<int>(random() % 70))};
    for (Block& block : given.blocks) {
      block.is_volatile = chance(20);
      block.is_summary = chance(10);
      block.markable = !chance(8);
      if (chance(9)) block.content = parse::Content::kThinking;
      if (chance(6))
        block.breakpoint = Breakpoint{parse::BreakpointKind::kCacheControl, chance(2) ? 3600 : 300};
    }
    given.stable = Lifetime(random() % 3);
    given.tail = std::min(given.stable, Lifetime(random() % 3));
    if (chance(2)) given.readable = random() % given.blocks.size();
    if (chance(3))
      given.automatic = Breakpoint{parse::BreakpointKind::kCacheControl, chance(2) ? 3600 : 300};
    const bool vanishes = chance(2);
    const Placed placed = Place(given, vanishes);
    const std::vector<PlannedBreakpoint>& breakpoints = placed.breakpoints.breakpoints;
    ASSERT_LE(breakpoints.size() + (placed.breakpoints.automatic ? 1 : 0), 4U);
    int32_t before = 3600;
    for (size_t i = 0; i < breakpoints.size(); ++i) {
      const PlanSegment& segment = placed.segments[breakpoints[i].segment];
      ASSERT_TRUE(segment.markable);
      ASSERT_NE(segment.content, parse::Content::kThinking);
      ASSERT_TRUE(!segment.is_volatile || (segment.breakpoint && !vanishes));
      ASSERT_LE(breakpoints[i].breakpoint.ttl_seconds, before);
      ASSERT_TRUE(i == 0 || breakpoints[i - 1].segment < breakpoints[i].segment);
      before = breakpoints[i].breakpoint.ttl_seconds;
    }
    if (placed.breakpoints.automatic) {
      ASSERT_LE(placed.breakpoints.automatic->ttl_seconds, before);
    }
  }
}

}  // namespace
}  // namespace kvgate::prompt::planner
