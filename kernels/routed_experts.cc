#include "kernels/routed_experts.h"

#include <algorithm>

namespace kvgate::kernels {

uint64_t RoutedPartFloats(const ExpertShape& shape, RoutedPart part) {
  const int64_t num_used = shape.num_used;
  const int64_t widest = std::max(shape.hidden_dim, shape.ffn_dim);
  const auto floats = [&]() -> int64_t {
    switch (part) {
      case RoutedPart::kLogits:
        return shape.num_experts;
      case RoutedPart::kSharedLogits:
      case RoutedPart::kSharedFactors:
        return shape.shared_dim > 0 ? 1 : 0;
      case RoutedPart::kShares:
      case RoutedPart::kChosen:
      case RoutedPart::kOrder:
      case RoutedPart::kPlaces:
      case RoutedPart::kHalfScales:
        return num_used;
      case RoutedPart::kInputGroups:
      case RoutedPart::kOutputGroups:
        return 4 * num_used;
      case RoutedPart::kGate:
        return std::max(num_used * shape.ffn_dim, shape.shared_dim);
      case RoutedPart::kUp:
        return std::max(num_used * widest, shape.shared_dim);
      case RoutedPart::kHalves:
        return num_used * ((widest + kRoutedPadding - 1) / kRoutedPadding * (kRoutedPadding / 2));
      case RoutedPart::kCount:
        break;
    }
    return 0;
  };
  return static_cast<uint64_t>(floats());
}

ExpertScratchFloats CountRoutedExpertScratch(const ExpertShape& shape) {
  ExpertScratchFloats count;
  for (size_t part = 0; part < static_cast<size_t>(RoutedPart::kCount); ++part) {
    count.per_row += RoutedPartFloats(shape, static_cast<RoutedPart>(part));
    count.fixed += kRoutedAlignment;
  }
  return count;
}

RoutedPartOffsets CutRoutedExpertScratch(const ExpertShape& shape, int num_rows_max) {
  RoutedPartOffsets offsets{};
  uint64_t at = 0;
  for (size_t part = 0; part < offsets.size(); ++part) {
    offsets[part] = at;
    at += RoutedPartFloats(shape, static_cast<RoutedPart>(part)) *
          static_cast<uint64_t>(num_rows_max);
    at = (at + kRoutedAlignment - 1) / kRoutedAlignment * kRoutedAlignment;
  }
  return offsets;
}

}  // namespace kvgate::kernels
