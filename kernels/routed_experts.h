// How a backend that routes by itself (BackendInfo::routes_experts) lays out what it keeps between
// the parts of a mixture. Knows no device, so that a plan can be made where there is none.
//
// A pair is a row and one of its num_used experts; pairs of one expert lie together where more than
// a few rows are mixed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/experts.h"

namespace kvgate::kernels {

enum class RoutedPart : uint8_t {
  kLogits,         // [rows, num_experts]
  kSharedLogits,   // [rows]
  kSharedFactors,  // [rows]
  kShares,         // [rows, num_used]
  kChosen,         // [rows, num_used]: experts
  kOrder,          // [pairs]: the pairs by expert
  kPlaces,         // [rows, num_used]: where in the order a pair is
  kInputGroups,    // [pairs, 4]: runs of pairs of one expert
  kOutputGroups,   // likewise
  kGate,           // [pairs, ffn_dim] or [rows, shared_dim]
  kUp,             // likewise, and the experts' outputs, [pairs, hidden_dim]
  kHalves,         // [pairs, hidden_dim or ffn_dim, padded] of 2 bytes
  kHalfScales,     // [pairs]
  kCount,
};
inline constexpr int kRoutedPadding = 128;        // of a row of kHalves, in values
inline constexpr uint64_t kRoutedAlignment = 64;  // of a part's begin, in floats

// Floats of each row, without what alignment takes.
uint64_t RoutedPartFloats(const ExpertShape& shape, RoutedPart part);
ExpertScratchFloats CountRoutedExpertScratch(const ExpertShape& shape);

// Where the parts begin in CountRoutedExpertScratch floats for so many rows, which are aligned.
using RoutedPartOffsets = std::array<uint64_t, static_cast<size_t>(RoutedPart::kCount)>;
RoutedPartOffsets CutRoutedExpertScratch(const ExpertShape& shape, int num_rows_max);

}  // namespace kvgate::kernels
