#include "kernels/cpu/matmul/packed_planes.h"

#include <cstring>

#include "base/check.h"
#include "kernels/weight_format.h"

namespace kvgate::kernels::cpu::matmul {
namespace {

// Extracts kBits bits, from bit `at` on, of each of eight codes. Those of the even codes are placed
// side by side at bit 0, those of the odd codes at bit 16. The product moves the field at bit 16 i
// to bit 48 + kBits i; its other terms end below bit 48 or past bit 63, and no two fields overlap.
template <int kBits>
uint32_t TakeFields(uint64_t codes, int at) {
  constexpr uint64_t kMask = ((uint64_t{1} << kBits) - 1) * 0x0001'0001'0001'0001u;
  constexpr uint64_t kGather = uint64_t{1} << 48 | uint64_t{1} << (32 + kBits) |
                               uint64_t{1} << (16 + 2 * kBits) | uint64_t{1} << 3 * kBits;
  const uint64_t even = (codes >> at & kMask) * kGather >> 48;
  const uint64_t odd = (codes >> (at + 8) & kMask) * kGather >> 48;
  return static_cast<uint32_t>(even | odd << 16);
}

// Writes the words of one plane of one unit for one row: kBits bits of each code, from bit `at` on.
template <int kBits>
void PackPlane(const uint8_t* codes, int at, int row, std::byte* plane) {
  constexpr int kEights = 4 / kBits;  // groups of eight codes per word
  for (int word = 0; word < kBits; ++word) {
    uint32_t value = 0;
    for (int i = 0; i < kEights; ++i, codes += sizeof(uint64_t)) {
      uint64_t eight = 0;
      std::memcpy(&eight, codes, sizeof(eight));
      value |= TakeFields<kBits>(eight, at) << 4 * kBits * i;
    }
    std::memcpy(plane + (word * kPanelRows + row) * sizeof(value), &value, sizeof(value));
  }
}

template <DType kDType>
void PackGroups(const QuantParts& parts, int unit, int row, std::byte* to) {
  constexpr PlaneShape kShape = PlaneShapeOf(kDType);
  constexpr int kGroups = kShape.groups();
  for (int g = 0; g < kGroups; ++g) {
    int scale = parts.group_scales[unit * kGroups + g];
    if constexpr (kShape.layout.min == QuantMin::kOfGroups) {
      const int min = parts.group_mins[unit * kGroups + g];
      if constexpr (kShape.shares_scale_byte()) {
        scale |= min << 4;
      } else {
        to[(kGroups + g) * kPanelRows + row] = static_cast<std::byte>(min);
      }
    }
    to[g * kPanelRows + row] = static_cast<std::byte>(scale);
  }
}

template <DType kDType>
void PackParts(const QuantParts& parts, int row, std::byte* block) {
  constexpr PlaneShape kShape = PlaneShapeOf(kDType);
  if constexpr (kShape.layout.scale == QuantScale::kF16) {
    std::memcpy(block + row * sizeof(uint16_t), &parts.scale, sizeof(uint16_t));
  } else {
    block[row] = static_cast<std::byte>(parts.scale);
  }
  if constexpr (kShape.has_min()) {
    std::byte* mins = block + kPanelRows * kShape.scale_bytes();
    std::memcpy(mins + row * sizeof(uint16_t), &parts.min, sizeof(uint16_t));
  }
  for (int unit = 0; unit < kShape.units(); ++unit) {
    std::byte* to = block + kShape.head_bytes() + unit * kShape.unit_bytes();
    const uint8_t* codes = parts.codes.data() + unit * kUnitColumns;
    if constexpr (kShape.layout.has_group_scales()) PackGroups<kDType>(parts, unit, row, to);
    to += kShape.group_bytes();
    PackPlane<kShape.low_bits()>(codes, 0, row, to);
    if constexpr (kShape.high_bits() != 0) {
      to += static_cast<size_t>(kPanelRows) * kShape.low_bits() * sizeof(uint32_t);
      PackPlane<kShape.high_bits()>(codes, kShape.low_bits(), row, to);
    }
  }
}

template <DType kDType>
void PackPanelOf(const WeightView& view, int64_t first_row, int num_rows, std::byte* panel) {
  constexpr PlaneShape kShape = PlaneShapeOf(kDType);
  const int64_t num_blocks = view.columns / kShape.layout.elements;
  const size_t file_bytes = WeightFormatOf(kDType).bytes;
  QuantParts parts;
  for (int64_t index = 0; index < num_blocks; ++index) {
    for (int row = 0; row < num_rows; ++row) {
      const int64_t at = (first_row + row) * num_blocks + index;
      UnpackBlock(kDType, view.data + static_cast<size_t>(at) * file_bytes, &parts);
      PackParts<kDType>(parts, row, panel + static_cast<size_t>(index) * kShape.block_bytes());
    }
  }
}

}  // namespace

size_t PlanePanelBytes(DType dtype, int64_t columns) {
  const PlaneShape shape = PlaneShapeOf(dtype);
  return static_cast<size_t>(columns / shape.layout.elements) * shape.block_bytes();
}

void PackPlanePanel(const WeightView& view, int64_t first_row, int num_rows, std::byte* panel) {
  switch (view.dtype) {
    case DType::kQ4_0:
      return PackPanelOf<DType::kQ4_0>(view, first_row, num_rows, panel);
    case DType::kQ4_1:
      return PackPanelOf<DType::kQ4_1>(view, first_row, num_rows, panel);
    case DType::kQ5_0:
      return PackPanelOf<DType::kQ5_0>(view, first_row, num_rows, panel);
    case DType::kQ5_1:
      return PackPanelOf<DType::kQ5_1>(view, first_row, num_rows, panel);
    case DType::kQ2_K:
      return PackPanelOf<DType::kQ2_K>(view, first_row, num_rows, panel);
    case DType::kQ3_K:
      return PackPanelOf<DType::kQ3_K>(view, first_row, num_rows, panel);
    case DType::kQ4_K:
      return PackPanelOf<DType::kQ4_K>(view, first_row, num_rows, panel);
    case DType::kQ5_K:
      return PackPanelOf<DType::kQ5_K>(view, first_row, num_rows, panel);
    case DType::kQ6_K:
      return PackPanelOf<DType::kQ6_K>(view, first_row, num_rows, panel);
    case DType::kIQ4_NL:
      return PackPanelOf<DType::kIQ4_NL>(view, first_row, num_rows, panel);
    case DType::kIQ4_XS:
      return PackPanelOf<DType::kIQ4_XS>(view, first_row, num_rows, panel);
    case DType::kMXFP4:
      return PackPanelOf<DType::kMXFP4>(view, first_row, num_rows, panel);
    default:
      KVGATE_CHECK(false, "a dtype with planes");
  }
}

}  // namespace kvgate::kernels::cpu::matmul
