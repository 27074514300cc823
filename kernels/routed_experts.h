// The scratch layout of a backend that routes experts itself (BackendInfo::routes_experts). It
// knows no device, so that memory can be planned without one.
//
// A pair is a row and one of its num_used experts. If more than a few rows are mixed, the pairs of
// one expert are stored together.
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
  kOrder,          // [pairs]: pairs sorted by expert
  kPlaces,         // [rows, num_used]: index of a pair in kOrder
  kInputGroups,    // [pairs, 4]: runs of pairs of one expert
  kOutputGroups,   // likewise
  kGate,           // [pairs, ffn_dim] or [rows, shared_dim]
  kUp,             // likewise, later the experts' outputs, [pairs, hidden_dim]
  kHalves,         // [pairs, hidden_dim or ffn_dim, padded], 2 bytes per value
  kHalfScales,     // [pairs]
  kCount,
};
inline constexpr int kRoutedPadding = 128;        // row alignment of kHalves, in values
inline constexpr uint64_t kRoutedAlignment = 64;  // alignment of the start of a part, in floats

// Returns the floats per row, without padding for alignment.
uint64_t RoutedPartFloats(const ExpertShape& shape, RoutedPart part);
ExpertScratchFloats CountRoutedExpertScratch(const ExpertShape& shape);

// Returns the aligned offsets of the parts in a scratch of CountRoutedExpertScratch floats for that
// many rows.
using RoutedPartOffsets = std::array<uint64_t, static_cast<size_t>(RoutedPart::kCount)>;
RoutedPartOffsets CutRoutedExpertScratch(const ExpertShape& shape, int num_rows_max);

}  // namespace kvgate::kernels
