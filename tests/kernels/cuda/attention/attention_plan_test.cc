#include "kernels/cuda/attention/attention_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "kernels/cuda/attention/attention.h"

namespace kvgate::kernels::cuda::attention {
namespace {

constexpr PlanShape kShape{.group = 4, .window = 0, .whole_rows = 128, .partials_max = 1000};

class AttentionPlanTest : public testing::Test {
 protected:
  void Add(int num_rows, int first_position, int mass_begin = -1) {
    const size_t blocks = static_cast<size_t>((first_position + num_rows + 31) / 32);
    tables_.emplace_back();
    for (size_t i = 0; i < blocks; ++i) {
      tables_.back().push_back(BlockId{static_cast<uint32_t>(1000 * tables_.size() + i)});
    }
    const int first_row =
        sequences_.empty() ? 0 : sequences_.back().first_row + sequences_.back().num_rows;
    sequences_.push_back({.first_row = first_row,
                          .num_rows = num_rows,
                          .first_position = first_position,
                          .block_table = {}});
    masses_.push_back(mass_begin);
    for (size_t i = 0; i < tables_.size(); ++i) sequences_[i].block_table = tables_[i];
  }

  // Checks that every row of every sequence has each of its splits once, in one of the two kernels.
  void CheckRowsAreTakenOnce(const AttentionPlan& plan, const PlanShape& shape) {
    std::map<std::tuple<int, int, int>, int> taken;  // first_row, packed row, split
    std::set<int> partials;
    const auto take = [&](const AttentionItem& item, int rows, int split) {
      for (int row = item.row_begin;
           row < std::min(item.row_begin + rows, item.num_tokens * shape.group); ++row) {
        ++taken[{item.first_row, row, split}];
      }
    };
    for (const AttentionItem& item : plan.split_items()) {
      if (item.first_row >= 0) take(item, kWarpRows, item.split);
    }
    for (const AttentionItem& item : plan.whole_items()) {
      if (item.first_row < 0) continue;
      const int last = item.first_position + item.num_tokens - 1;
      for (int split = 0; split <= last / 256; ++split) take(item, shape.whole_rows, split);
    }
    for (const JoinItem& item : plan.join_items()) {
      if (item.row < 0) continue;
      for (int i = 0; i < item.num_splits; ++i) {
        EXPECT_TRUE(partials.insert(item.partial_begin + i).second) << "a place taken twice";
        EXPECT_LT(item.partial_begin + i, plan.num_partials());
      }
    }
    for (const SequenceRows& sequence : sequences_) {
      const int last = sequence.first_position + sequence.num_rows - 1;
      for (int row = 0; row < sequence.num_rows * shape.group; ++row) {
        for (int split = 0; split <= last / 256; ++split) {
          EXPECT_EQ((taken[{sequence.first_row, row, split}]), 1);
        }
      }
    }
  }

  std::vector<SequenceRows> sequences_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<int> masses_;
  AttentionPlan plan_;
};

TEST_F(AttentionPlanTest, EveryRowHasEverySplitOnce) {
  for (const auto& [num_rows, first_position] :
       std::vector<std::pair<int, int>>{{1, 5000}, {1, 0}, {300, 0}, {32, 700}, {33, 700}}) {
    Add(num_rows, first_position);
  }
  plan_.Make(sequences_, masses_, kShape);
  CheckRowsAreTakenOnce(plan_, kShape);
  EXPECT_EQ(plan_.join_items()[2].num_splits, 3);
  EXPECT_EQ(plan_.tables()[0], 1000u);
}

TEST_F(AttentionPlanTest, SequencesBeyondThePartialResultsTakeTheirSplitsInTurn) {
  Add(1, 5000);
  Add(1, 6000);
  PlanShape shape = kShape;
  shape.partials_max = 20;  // the first sequence uses all 20
  plan_.Make(sequences_, masses_, shape);
  CheckRowsAreTakenOnce(plan_, shape);
  EXPECT_EQ(plan_.num_partials(), 20);
  ASSERT_EQ(plan_.whole_items().size(), 1u);
  EXPECT_EQ(plan_.whole_items()[0].first_row, 1);
}

TEST_F(AttentionPlanTest, AWindowHasNoSplitsBeforeIt) {
  Add(1, 5000, 7);
  PlanShape shape = kShape;
  shape.window = 300;
  plan_.Make(sequences_, masses_, shape);
  EXPECT_EQ(plan_.num_partials(), 2);
  EXPECT_EQ(plan_.split_items()[0].split, 4701 / 256);
  EXPECT_EQ(plan_.mass_items()[1].split, 5000 / 256);
  EXPECT_EQ(plan_.mass_items()[1].mass_begin, 7);
}

// A step of many long sequences is launched in parts, whose sizes rely on this bound.
TEST_F(AttentionPlanTest, APlanStagesNoMoreBytesThanWasSaid) {
  Add(1, 20000, 0);
  Add(32, 5000, 1000);
  Add(700, 3000, 2000);
  for (const PlanShape& shape : {kShape, PlanShape{.group = 4, .window = 600, .whole_rows = 16}}) {
    plan_.Make(sequences_, masses_, shape);
    size_t said = 0;
    for (const SequenceRows& sequence : sequences_) said += PlannedBytes(sequence, shape.group);
    const size_t items = plan_.split_items().size() + plan_.whole_items().size() +
                         plan_.mass_items().size() + plan_.float_items().size();
    EXPECT_LE(items * sizeof(AttentionItem) + plan_.join_items().size_bytes() +
                  plan_.tables().size_bytes(),
              said);
    EXPECT_LE(said, size_t{100} << 10);
  }
}

TEST_F(AttentionPlanTest, LongItemsComeFirst) {
  Add(600, 0);
  plan_.Make(sequences_, masses_, kShape);
  EXPECT_EQ(plan_.whole_items()[0].row_begin, 18 * 128);
  CheckRowsAreTakenOnce(plan_, kShape);
}

TEST_F(AttentionPlanTest, F32RowsAreItemsOfTheirOwn) {
  Add(3, 10);
  PlanShape shape = kShape;
  shape.whole_rows = 0;
  plan_.Make(sequences_, masses_, shape);
  EXPECT_EQ(plan_.float_items().size(), 3u);
  EXPECT_EQ(plan_.float_items()[2].row_begin, 2);
  EXPECT_TRUE(plan_.split_items().empty() && plan_.whole_items().empty());
}

TEST_F(AttentionPlanTest, AGrowingContextSeldomChangesTheNumberOfItems) {
  std::set<size_t> sizes;
  for (int position = 20000; position < 21000; ++position) {
    sequences_.clear();
    tables_.clear();
    masses_.clear();
    Add(1, position);
    plan_.Make(sequences_, masses_, kShape);
    sizes.insert(plan_.split_items().size());
  }
  EXPECT_LE(sizes.size(), 2u);
  EXPECT_EQ(Bucket(1), 1u);
  EXPECT_EQ(Bucket(17), 18u);
  EXPECT_EQ(Bucket(81), 88u);
}

TEST_F(AttentionPlanTest, APlanKnowsWhatItWasMadeOf) {
  Add(1, 500);
  Add(2, 40);
  plan_.Make(sequences_, masses_, kShape);
  EXPECT_TRUE(plan_.IsOf(sequences_, masses_, kShape));
  PlanShape shape = kShape;
  shape.window = 3;
  EXPECT_FALSE(plan_.IsOf(sequences_, masses_, shape));
  tables_[1][1] = BlockId{77};
  EXPECT_FALSE(plan_.IsOf(sequences_, masses_, kShape));
  plan_.Make(sequences_, masses_, kShape);
  masses_[0] = 5;
  EXPECT_FALSE(plan_.IsOf(sequences_, masses_, kShape));
  masses_[0] = -1;
  sequences_[0].first_position = 499;
  EXPECT_FALSE(plan_.IsOf(sequences_, masses_, kShape));
}

}  // namespace
}  // namespace kvgate::kernels::cuda::attention
