#include "kernels/cuda/experts/expert_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/kernels/cuda/device_values.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels::cuda::experts {

using matmul::RowGroup;

namespace {

class ExpertKernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    stream_ = std::move(*device::CommandStream::Open({.staging_bytes = 4096}));
  }

  std::unique_ptr<device::CommandStream> stream_;
};

// One routing, with all buffers that its launches write.
struct Routing {
  Routing(const ExpertRule& rule, const std::vector<float>& values)
      : num_rows(static_cast<int>(std::ssize(values)) / rule.num_experts),
        num_pairs(static_cast<size_t>(num_rows * rule.num_used)),
        logits(values),
        shares(num_pairs),
        chosen(num_pairs),
        order(num_pairs),
        places(num_pairs) {
    task = {.rule = rule,
            .num_rows = num_rows,
            .logits = logits.data(),
            .shares = shares.data(),
            .chosen = chosen.data(),
            .order = order.data(),
            .places = places.data()};
    ChooseExperts(rule, values, want);
  }

  int num_rows;
  size_t num_pairs;
  DeviceValues<float> logits;
  DeviceValues<float> shares;
  DeviceValues<int> chosen;
  DeviceValues<int> order;
  DeviceValues<int> places;
  RouteTask task;
  std::vector<ExpertShare> want;
};

// Returns logits with many ties and some NaN.
std::vector<float> Logits(int count, uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& logit : logits) {
    const uint64_t value = random.Below(40);
    logit = value == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value) / 4;
  }
  return logits;
}

TEST_F(ExpertKernelsTest, TheDeviceChoosesAsTheHost) {
  for (const int num_experts : {1, 5, 32, 60, 300}) {
    for (const bool renormalise : {false, true}) {
      const ExpertRule rule = {.num_experts = num_experts,
                               .num_used = (num_experts + 2) / 3,
                               .renormalise = renormalise,
                               .share_scale = 1.25f};
      Routing routing(rule, Logits(9 * num_experts, 3));
      LaunchRoute(routing.task, nullptr, *stream_);
      stream_->Synchronize();
      const std::vector<int> chosen = routing.chosen.Read();
      const std::vector<float> shares = routing.shares.Read();
      for (size_t i = 0; i < routing.num_pairs; ++i) {
        const ExpertShare& want = routing.want[i];
        EXPECT_EQ(chosen[i], want.expert);
        EXPECT_EQ(std::isnan(shares[i]), std::isnan(want.share));
        if (std::isnan(want.share)) continue;
        EXPECT_NEAR(shares[i], want.share, 1e-7f * want.share);
      }
    }
  }
}

TEST_F(ExpertKernelsTest, GroupsHoldEveryPairOnceByExpertAndAscending) {
  const ExpertRule rule = {.num_experts = 37, .num_used = 4};
  for (const int num_rows : {5, 33, 200}) {
    Routing routing(rule, NormalValues(static_cast<size_t>(num_rows * 37), 4));
    const auto num_pairs = static_cast<int64_t>(routing.num_pairs);
    const int most[2] = {GroupsMost(num_pairs, 37, 3), GroupsMost(num_pairs, 37, 32)};
    const DeviceValues<RowGroup> lists[2] = {DeviceValues<RowGroup>(static_cast<size_t>(most[0])),
                                             DeviceValues<RowGroup>(static_cast<size_t>(most[1]))};
    LaunchRoute(routing.task, nullptr, *stream_);
    LaunchGroupPairs(routing.task, {lists[0].data(), most[0], 3}, {lists[1].data(), most[1], 32},
                     *stream_);
    stream_->Synchronize();
    const std::vector<int> order = routing.order.Read();
    const std::vector<int> places = routing.places.Read();
    for (size_t place = 0; place < order.size(); ++place) {
      EXPECT_EQ(places[static_cast<size_t>(order[place])], static_cast<int>(place));
    }
    for (const int i : {0, 1}) {
      int next = 0;
      for (const RowGroup& group : lists[i].Read()) {
        if (group.count == 0) continue;
        EXPECT_EQ(group.first, next);
        EXPECT_LE(group.count, i == 0 ? 3 : 32);
        for (; next < group.first + group.count; ++next) {
          const int pair = order[static_cast<size_t>(next)];
          EXPECT_EQ(routing.want[static_cast<size_t>(pair)].expert, group.expert);
          EXPECT_TRUE(next == group.first || order[static_cast<size_t>(next) - 1] < pair);
        }
      }
      EXPECT_EQ(next, num_pairs);
    }
  }
}

TEST_F(ExpertKernelsTest, NoChoiceMakesMoreGroupsThanTheMost) {
  TestRandom random(9);
  for (int round = 0; round < 200; ++round) {
    const int num_experts = 1 + static_cast<int>(random.Below(9));
    const int rows_of_group = 1 + static_cast<int>(random.Below(8));
    std::vector<int> counts(static_cast<size_t>(num_experts));
    const int num_pairs = static_cast<int>(random.Below(60));
    for (int i = 0; i < num_pairs; ++i) ++counts[random.Below(counts.size())];
    int num_groups = 0;
    for (const int count : counts) num_groups += (count + rows_of_group - 1) / rows_of_group;
    EXPECT_LE(num_groups, GroupsMost(num_pairs, num_experts, rows_of_group));
  }
  EXPECT_EQ(GroupsMost(3, 8, 4), 3);
  EXPECT_EQ(GroupsMost(5 + 2 * 4, 6, 4), 6 + 7 / 4);  // five experts of one row, one of 2 * 4
}

TEST_F(ExpertKernelsTest, TermsAreAddedInTheirOrder) {
  // In f32 only this order gives 1: 0 + 1e8 - 1e8 + 1.
  const DeviceValues<float> terms(std::vector<float>{1, -1, 1, 7, 7, 7});
  const DeviceValues<float> factors(std::vector<float>{1e8f, 1e8f, 1});
  const DeviceValues<int> places(std::vector<int>{0, 1, 2});
  const DeviceValues<float> y(std::vector<float>{0});
  LaunchAddTerms({.terms = terms.data(),
                  .places = places.data(),
                  .factors = factors.data(),
                  .num_rows = 1,
                  .num_terms = 3,
                  .columns = 1,
                  .y = y.data()},
                 1, *stream_);
  stream_->Synchronize();
  EXPECT_EQ(y.Read(), std::vector<float>{1});
}

}  // namespace
}  // namespace kvgate::kernels::cuda::experts
