#include "gateway/prompt/planner/plan_layout.h"

#include <gtest/gtest.h>

#include "tests/gateway/prompt/plan_simulation.h"

namespace kvgate::prompt::planner {
namespace {

using namespace simulation;  // NOLINT: all of it is meant
using ledger::BreakpointSyntax;

Block Volatile(Block block) {
  block.is_volatile = true;
  return block;
}

Layout Find(const std::vector<Block>& blocks, std::vector<uint64_t> settled = {},
            bool volatile_stays = false) {
  const std::vector<PlanSegment> segments = SegmentsOf(blocks);
  return FindLayout({.segments = segments,
                     .syntax = BreakpointSyntax::kCacheControl,
                     .settled = settled,
                     .volatile_stays = volatile_stays});
}

TEST(PlanLayoutTest, ThePrefixThatIsSharedEndsInFrontOfTheFirstTurn) {
  const Layout layout = Find({Tool("t", 10), System("s", 20), User("u", 30)});
  EXPECT_EQ(layout.stable, 1U);
  EXPECT_EQ(layout.tail, 2U);
  EXPECT_EQ(layout.ends, (std::vector<double>{10, 30, 60}));
  EXPECT_EQ(layout.shared_tokens, 30);
  EXPECT_TRUE(layout.is_agents);
  EXPECT_FALSE(Find({System("s", 20), User("u", 30)}).is_agents);
}

TEST(PlanLayoutTest, LeadingSystemMessagesAreShared) {
  Block leading = User("rules", 10);
  leading.role = parse::Role::kDeveloper;
  EXPECT_EQ(Find({leading, User("u", 10), leading}).num_shared, 1U);
}

TEST(PlanLayoutTest, OpenAIsFirstHolderStandsForInstructionsThatHoldNone) {
  Block instructions = System("s", 20);
  instructions.markable = false;
  const std::vector<PlanSegment> segments =
      SegmentsOf({Tool("t", 10), instructions, User("u", 30), Assistant("a", 10), User("v", 10)});
  const auto find = [&](BreakpointSyntax syntax) {
    return FindLayout({.segments = segments, .syntax = syntax});
  };
  EXPECT_EQ(find(BreakpointSyntax::kBreakpoint).stable, 2U);
  EXPECT_EQ(find(BreakpointSyntax::kCacheControl).stable, 0U) << "tools hold one there";
}

TEST(PlanLayoutTest, V4NothingBehindAVolatileBlockIsFoundAgain) {
  const std::vector<Block> blocks = {System("s", 10), User("u", 10), Volatile(User("now", 10)),
                                     Assistant("a", 10)};
  EXPECT_EQ(Find(blocks).tail, 1U);
  EXPECT_EQ(Find(blocks).barrier, 2U);
  const uint64_t prefix = SegmentsOf(blocks)[2].prefix.low;
  EXPECT_EQ(Find(blocks, {prefix}).tail, 3U) << "it stood there the last time";
  EXPECT_EQ(Find(blocks, {}, true).tail, 3U);
}

TEST(PlanLayoutTest, NoBreakpointStandsOnASettledVolatileBlock) {
  const std::vector<Block> blocks = {System("s", 10), User("u", 10), Volatile(User("now", 10))};
  EXPECT_EQ(Find(blocks, {}, true).tail, 1U);
}

TEST(PlanLayoutTest, NothingBehindANoticeIsFoundAgainButItsWordsAre) {
  const std::vector<Block> blocks = {System("s", 10), User("u", 10), Assistant("a", 10),
                                     User("v", 10)};
  std::vector<PlanSegment> segments = SegmentsOf(blocks);
  segments[1].notice = IdentityOf("u with a notice");
  LayoutArgs args{.segments = segments, .syntax = BreakpointSyntax::kCacheControl};
  EXPECT_EQ(FindLayout(args).tail, 1U);
  EXPECT_EQ(FindLayout(args).barrier, 2U);
  const uint64_t notice = segments[1].notice.low;
  args.settled = {&notice, 1};
  EXPECT_EQ(FindLayout(args).tail, 3U) << "it stood there the last time";
}

TEST(PlanLayoutTest, BreakpointsStandOnInputOnly) {
  const auto holds = [](const Block& block) {
    return CanHold(SegmentsOf({block})[0], BreakpointSyntax::kBreakpoint);
  };
  EXPECT_TRUE(holds(System("s", 10)));
  EXPECT_TRUE(holds(User("u", 10)));
  EXPECT_FALSE(holds(Tool("t", 10)));
  EXPECT_FALSE(holds(Assistant("a", 10)));
  Block result = User("r", 10);
  result.content = parse::Content::kToolResult;
  EXPECT_FALSE(holds(result));
  EXPECT_TRUE(CanHold(SegmentsOf({result})[0], BreakpointSyntax::kCacheControl));
  EXPECT_FALSE(CanHold(SegmentsOf({result})[0], BreakpointSyntax::kNone));
}

}  // namespace
}  // namespace kvgate::prompt::planner
