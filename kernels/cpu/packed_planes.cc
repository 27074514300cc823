#include "kernels/cpu/packed_planes.h"

#include <cstring>

#include "kernels/weight_format.h"

namespace kvgate::kernels::cpu {
namespace {

// The words of one plane of one unit, for one row: `bits` bits of each code, from bit `at` on.
void PackPlane(const uint8_t* codes, int bits, int at, int row, std::byte* plane) {
  const uint32_t mask = (1u << bits) - 1;
  const int pairs = kUnitPairs / bits;  // in a word
  for (int word = 0; word < bits; ++word) {
    uint32_t value = 0;
    for (int pair = 0; pair < pairs; ++pair) {
      const uint8_t* from = codes + 2 * (word * pairs + pair);
      value |= (from[0] >> at & mask) << pair * bits;
      value |= (from[1] >> at & mask) << (16 + pair * bits);
    }
    std::memcpy(plane + (word * kPanelRows + row) * sizeof(value), &value, sizeof(value));
  }
}

void PackGroups(const PlaneShape& shape, const QuantParts& parts, int unit, int row,
                std::byte* to) {
  const int groups = shape.groups();
  for (int g = 0; g < groups; ++g) {
    int scale = parts.group_scales[unit * groups + g];
    const int min = parts.group_mins[unit * groups + g];
    if (shape.shares_scale_byte()) scale |= min << 4;
    to[g * kPanelRows + row] = static_cast<std::byte>(scale);
    if (shape.layout.min == QuantMin::kOfGroups && !shape.shares_scale_byte()) {
      to[(groups + g) * kPanelRows + row] = static_cast<std::byte>(min);
    }
  }
}

void PackParts(const PlaneShape& shape, const QuantParts& parts, int row, std::byte* block) {
  if (shape.layout.scale == QuantScale::kF16) {
    std::memcpy(block + row * sizeof(uint16_t), &parts.scale, sizeof(uint16_t));
  } else {
    block[row] = static_cast<std::byte>(parts.scale);
  }
  if (shape.has_min()) {
    std::byte* mins = block + kPanelRows * shape.scale_bytes();
    std::memcpy(mins + row * sizeof(uint16_t), &parts.min, sizeof(uint16_t));
  }
  for (int unit = 0; unit < shape.units(); ++unit) {
    std::byte* to = block + shape.head_bytes() + unit * shape.unit_bytes();
    const uint8_t* codes = parts.codes.data() + unit * kUnitColumns;
    if (shape.layout.has_group_scales()) PackGroups(shape, parts, unit, row, to);
    to += shape.group_bytes();
    PackPlane(codes, shape.low_bits(), 0, row, to);
    if (shape.high_bits() == 0) continue;
    to += static_cast<size_t>(kPanelRows) * shape.low_bits() * sizeof(uint32_t);
    PackPlane(codes, shape.high_bits(), shape.low_bits(), row, to);
  }
}

}  // namespace

size_t PlanePanelBytes(DType dtype, int64_t columns) {
  const PlaneShape shape = PlaneShapeOf(dtype);
  return static_cast<size_t>(columns / shape.layout.elements) * shape.block_bytes();
}

void PackPlanePanel(const WeightView& view, int64_t first_row, int num_rows, std::byte* panel) {
  const PlaneShape shape = PlaneShapeOf(view.dtype);
  const int64_t num_blocks = view.columns / shape.layout.elements;
  const size_t file_bytes = WeightFormatOf(view.dtype).bytes;
  QuantParts parts;
  for (int64_t index = 0; index < num_blocks; ++index) {
    for (int row = 0; row < num_rows; ++row) {
      const int64_t at = (first_row + row) * num_blocks + index;
      UnpackBlock(view.dtype, view.data + static_cast<size_t>(at) * file_bytes, &parts);
      PackParts(shape, parts, row, panel + static_cast<size_t>(index) * shape.block_bytes());
    }
  }
}

}  // namespace kvgate::kernels::cpu
