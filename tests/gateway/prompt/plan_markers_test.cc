#include "gateway/prompt/planner/plan_breakpoints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/gateway/prompt/plan_simulation.h"

namespace kvgate::prompt {
namespace {

using namespace simulation;  // NOLINT: all of it is meant

struct Placed {
  std::vector<PlanSegment> segments;
  Layout layout;
  Markers markers;
};

struct Given {
  std::vector<Block> blocks;
  Lifetime stable = Lifetime::kNone;
  Lifetime tail = Lifetime::kNone;
  std::optional<size_t> readable = {};
  std::optional<Marker> automatic = {};
};

Placed Place(const Given& given, bool vanishes = false) {
  Placed placed;
  placed.segments = SegmentsOf(given.blocks);
  Request request;
  PlanArgs args = ArgsOf(request, placed.segments, Row("anthropic", "claude-opus-5"));
  args.automatic = given.automatic;
  placed.layout = FindLayout({.segments = placed.segments,
                              .syntax = ledger::MarkerSyntax::kCacheControl,
                              .volatile_vanishes = vanishes});
  const CallersMarkers callers = ReadCallersMarkers(args, placed.layout);
  placed.markers = PlaceMarkers({.args = args,
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

TEST(PlanMarkersTest, WhatCanBeReadIsReadEvenWhereNothingIsWritten) {
  const Placed placed = Place({.blocks = Turns(5), .readable = 3});
  ASSERT_EQ(placed.markers.markers.size(), 1U);
  EXPECT_EQ(placed.markers.markers[0].segment, 3U);
}

TEST(PlanMarkersTest, AMarkerWithinTheLookbackReadsIt) {
  const auto count = [](int blocks) {
    return Place({.blocks = Turns(blocks), .tail = Lifetime::kTtl, .readable = 5})
        .markers.markers.size();
  };
  EXPECT_EQ(count(24), 1U) << "20 positions, itself included: 24 to 5";
  EXPECT_EQ(count(25), 2U) << "one more is out of reach";
}

TEST(PlanMarkersTest, ACallersPlaceOfTheNewestBlockIsNotTakenTwice) {
  std::vector<Block> blocks = Turns(3);
  blocks.back().marker = Marker{};
  const Placed placed =
      Place({.blocks = blocks, .stable = Lifetime::kTtl, .tail = Lifetime::kLong});
  ASSERT_EQ(placed.markers.markers.size(), 2U);
  EXPECT_EQ(placed.markers.markers[0].marker.ttl_seconds, 3600) << "in front of a longer one";
  EXPECT_EQ(placed.markers.markers[1].marker.ttl_seconds, 3600);
}

// Whatever the caller marks and the choice is: at most four, on what can hold them, longest first.
TEST(PlanMarkersTest, NoPlanIsRefusedByTheProvider) {
  std::mt19937 random(1);
  const auto chance = [&](uint32_t of) { return random() % of == 0; };
  for (int round = 0; round < 3000; ++round) {
    Given given{.blocks = Turns(static_cast<int>(random() % 70))};
    for (Block& block : given.blocks) {
      block.is_volatile = chance(20);
      block.markable = !chance(8);
      if (chance(9)) block.content = Content::kThinking;
      if (chance(6)) block.marker = Marker{MarkerKind::kCacheControl, chance(2) ? 3600 : 300};
    }
    given.stable = Lifetime(random() % 3);
    given.tail = std::min(given.stable, Lifetime(random() % 3));
    if (chance(2)) given.readable = random() % given.blocks.size();
    if (chance(3)) given.automatic = Marker{MarkerKind::kCacheControl, chance(2) ? 3600 : 300};
    const bool vanishes = chance(2);
    const Placed placed = Place(given, vanishes);
    const std::vector<PlannedMarker>& markers = placed.markers.markers;
    ASSERT_LE(markers.size() + (placed.markers.automatic ? 1 : 0), 4U);
    int32_t before = 3600;
    for (size_t i = 0; i < markers.size(); ++i) {
      const PlanSegment& segment = placed.segments[markers[i].segment];
      ASSERT_TRUE(segment.markable);
      ASSERT_NE(segment.content, Content::kThinking);
      ASSERT_TRUE(!segment.is_volatile || (segment.marker && !vanishes));
      ASSERT_LE(markers[i].marker.ttl_seconds, before);
      ASSERT_TRUE(i == 0 || markers[i - 1].segment < markers[i].segment);
      before = markers[i].marker.ttl_seconds;
    }
    if (placed.markers.automatic) {
      ASSERT_LE(placed.markers.automatic->ttl_seconds, before);
    }
  }
}

}  // namespace
}  // namespace kvgate::prompt
