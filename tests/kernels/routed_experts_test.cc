#include "kernels/routed_experts.h"

#include <gtest/gtest.h>

namespace kvgate::kernels {
namespace {

TEST(RoutedExpertsTest, PartsLieOneBehindTheOtherWithinWhatIsCounted) {
  const ExpertShape shapes[] = {
      {.num_experts = 128, .num_used = 8, .hidden_dim = 2048, .ffn_dim = 768},
      {.num_experts = 7, .num_used = 3, .hidden_dim = 83, .ffn_dim = 131, .shared_dim = 1001}};
  for (const ExpertShape& shape : shapes) {
    const ExpertScratchFloats count = CountRoutedExpertScratch(shape);
    for (const int num_rows : {1, 3, 64, 2048}) {
      const auto rows = static_cast<uint64_t>(num_rows);
      const RoutedPartOffsets offsets = CutRoutedExpertScratch(shape, num_rows);
      uint64_t end = 0;
      for (size_t i = 0; i < offsets.size(); ++i) {
        EXPECT_GE(offsets[i], end);
        EXPECT_EQ(offsets[i] % kRoutedAlignment, 0u);
        end = offsets[i] + rows * RoutedPartFloats(shape, static_cast<RoutedPart>(i));
      }
      EXPECT_LE(end, rows * count.per_row + count.fixed);
    }
  }
}

// The f16 rows have the width of the wider input, padded.
TEST(RoutedExpertsTest, APartHoldsWhatItsShapeSays) {
  const ExpertShape shape = {
      .num_experts = 7, .num_used = 3, .hidden_dim = 83, .ffn_dim = 131, .shared_dim = 1001};
  EXPECT_EQ(RoutedPartFloats(shape, RoutedPart::kHalves), 3u * 256 / 2);
  EXPECT_EQ(RoutedPartFloats(shape, RoutedPart::kGate), 1001u);
  EXPECT_EQ(RoutedPartFloats(shape, RoutedPart::kUp), 1001u);
  EXPECT_EQ(RoutedPartFloats(shape, RoutedPart::kShares), 3u);
}

}  // namespace
}  // namespace kvgate::kernels
