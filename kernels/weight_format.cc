#include "kernels/weight_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/quant_blocks.h"
#include "kernels/quant_parts.h"

namespace kvgate::kernels {
namespace {

constexpr uint16_t kNanF16 = 0x7e00;
constexpr float kLargestF16 = 65504.0f;
constexpr int kExponentMax = 252;  // above it the largest value, 12 * 2^(e - 128), is infinite

// ---- plain elements and Q8_0 ----------------------------------------------------------------

template <typename T, float (*kRead)(T)>
void ReadElement(const std::byte* block, float* values) {
  T bits;
  std::memcpy(&bits, block, sizeof(bits));
  *values = kRead(bits);
}

template <typename T, T (*kWrite)(float)>
void WriteElement(const float* values, std::byte* block) {
  const T bits = kWrite(*values);
  std::memcpy(block, &bits, sizeof(bits));
}

float Same(float value) { return value; }

template <typename Block>
void ReadBlock(const std::byte* bytes, float* values) {
  Block block;
  std::memcpy(&block, bytes, sizeof(block));
  DequantizeBlock(block, values);
}

template <typename Block>
void WriteBlock(const float* values, std::byte* bytes) {
  Block block;
  QuantizeBlock(values, &block);
  std::memcpy(bytes, &block, sizeof(block));
}

// ---- formats with a layout ------------------------------------------------------------------

float ScaleOf(const QuantLayout& layout, const QuantParts& parts) {
  return layout.scale == QuantScale::kF16 ? F16ToF32(parts.scale)
                                          : ExponentScale(static_cast<uint8_t>(parts.scale));
}

template <DType kDType>
void DequantizeParts(const std::byte* block, float* values) {
  constexpr QuantLayout kLayout = QuantLayoutOf(kDType);
  QuantParts parts;
  UnpackBlock(kDType, block, &parts);
  const float scale = ScaleOf(kLayout, parts);
  const float min = F16ToF32(parts.min);
  for (int g = 0; g < kLayout.num_groups(); ++g) {
    const float s = kLayout.has_group_scales() ? scale * parts.group_scales[g] : scale;
    const float m = min * parts.group_mins[g];
    for (int i = g * kLayout.group; i < (g + 1) * kLayout.group; ++i) {
      const float product = s * static_cast<float>(kLayout.ValueOf(parts.codes[i]));
      switch (kLayout.min) {
        case QuantMin::kNone:
          values[i] = product;
          break;
        case QuantMin::kAdded:
          values[i] = product + min;
          break;
        case QuantMin::kOfGroups:
          values[i] = product - m;
          break;
      }
    }
  }
}

uint16_t ToScale(float value) { return F32ToF16(std::clamp(value, -kLargestF16, kLargestF16)); }

// Returns the rounded quotient clamped to [low, high]; 0 / 0 counts as 0.
int RoundTo(float value, float unit, int low, int high) {
  const float quotient = unit == 0 ? 0.0f : value / unit;
  return static_cast<int>(
      std::round(std::clamp(quotient, static_cast<float>(low), static_cast<float>(high))));
}

// The range of a group's values. With `with_zero` it is extended to include 0, for formats in which
// every group must be able to represent zero.
struct Range {
  float low = 0;
  float high = 0;
  float largest = 0;  // the value of largest magnitude, with its sign
};

Range RangeOf(const float* values, int count, bool with_zero) {
  Range range{.low = values[0], .high = values[0], .largest = values[0]};
  if (with_zero) range = {};
  for (int i = 0; i < count; ++i) {
    range.low = std::min(range.low, values[i]);
    range.high = std::max(range.high, values[i]);
    if (std::abs(values[i]) > std::abs(range.largest)) range.largest = values[i];
  }
  return range;
}

// Returns the exponent e for which 4 * 2^(e - 127) <= `magnitude` < 8 * 2^(e - 127); the format's
// largest value is 6 * 2^(e - 127).
uint16_t ExponentFor(float magnitude) {
  if (magnitude == 0) return 0;
  return static_cast<uint16_t>(std::clamp(std::ilogb(magnitude) - 2 + 127, 0, kExponentMax));
}

int NearestCode(const QuantLayout& layout, float value, float unit) {
  if (layout.codebook == nullptr) {
    return RoundTo(value, unit, -layout.offset, (1 << layout.bits) - 1 - layout.offset) +
           layout.offset;
  }
  int best = 0;
  for (int code = 1; code < 16; ++code) {
    const auto distance = [&](int c) {
      return std::abs(value - unit * static_cast<float>(layout.codebook[c]));
    };
    if (distance(code) < distance(best)) best = code;
  }
  return best;
}

// The ideal step between codes, and min, of each group, before both are rounded.
struct Wanted {
  float units[kQuantGroupsMax] = {};
  float mins[kQuantGroupsMax] = {};
};

Wanted WantedScales(const QuantLayout& layout, const float* values) {
  Wanted wanted;
  const bool has_min = layout.min != QuantMin::kNone;
  const auto codes_max = static_cast<float>((1 << layout.bits) - 1);
  for (int g = 0; g < layout.num_groups(); ++g) {
    const Range range =
        RangeOf(values + g * layout.group, layout.group, layout.min != QuantMin::kAdded);
    wanted.mins[g] = -range.low;
    // Code 0 has the value of largest magnitude, so the group's largest value is mapped to it.
    wanted.units[g] = has_min ? (range.high - range.low) / codes_max
                              : range.largest / static_cast<float>(layout.ValueOf(0));
  }
  return wanted;
}

void ChooseScales(const QuantLayout& layout, const float* values, QuantParts* parts) {
  if (layout.scale == QuantScale::kExponent) {
    parts->scale = ExponentFor(std::abs(RangeOf(values, layout.elements, true).largest));
    return;
  }
  const Wanted wanted = WantedScales(layout, values);
  if (!layout.has_group_scales()) {
    parts->scale = ToScale(wanted.units[0]);
    if (layout.min == QuantMin::kAdded) parts->min = ToScale(-wanted.mins[0]);
    return;
  }
  float unit_max = 0;
  float min_max = 0;
  for (int g = 0; g < layout.num_groups(); ++g) {
    unit_max = std::max(unit_max, std::abs(wanted.units[g]));
    min_max = std::max(min_max, wanted.mins[g]);
  }
  const int highest = layout.group_scale_max;
  parts->scale = ToScale(unit_max / static_cast<float>(highest));
  const float scale = F16ToF32(parts->scale);
  for (int g = 0; g < layout.num_groups(); ++g) {
    parts->group_scales[g] =
        static_cast<int16_t>(RoundTo(wanted.units[g], scale, layout.group_scale_min, highest));
  }
  if (layout.min != QuantMin::kOfGroups) return;
  parts->min = ToScale(min_max / static_cast<float>(highest));
  for (int g = 0; g < layout.num_groups(); ++g) {
    parts->group_mins[g] =
        static_cast<uint8_t>(RoundTo(wanted.mins[g], F16ToF32(parts->min), 0, highest));
  }
}

template <DType kDType>
void QuantizeParts(const float* values, std::byte* block) {
  constexpr QuantLayout kLayout = QuantLayoutOf(kDType);
  QuantParts parts;
  if (std::any_of(values, values + kLayout.elements, [](float v) { return std::isnan(v); })) {
    parts.scale = kLayout.scale == QuantScale::kF16 ? kNanF16 : uint16_t{kExponentMax};
    parts.codes.fill(3);  // valid in every format
    return PackBlock(kDType, parts, block);
  }
  float finite[kQuantElementsMax];
  for (int i = 0; i < kLayout.elements; ++i) finite[i] = std::clamp(values[i], -1e38f, 1e38f);
  ChooseScales(kLayout, finite, &parts);
  const float scale = ScaleOf(kLayout, parts);
  for (int g = 0; g < kLayout.num_groups(); ++g) {
    const float unit = kLayout.has_group_scales() ? scale * parts.group_scales[g] : scale;
    float min = 0;
    if (kLayout.min == QuantMin::kAdded) min = F16ToF32(parts.min);
    if (kLayout.min == QuantMin::kOfGroups) min = -F16ToF32(parts.min) * parts.group_mins[g];
    for (int i = g * kLayout.group; i < (g + 1) * kLayout.group; ++i) {
      parts.codes[i] = static_cast<uint8_t>(NearestCode(kLayout, finite[i] - min, unit));
    }
  }
  PackBlock(kDType, parts, block);
}

// ---- table ----------------------------------------------------------------------------------

template <DType kDType, typename Block>
constexpr WeightFormat Quantized(std::string_view name, uint32_t gguf_type, int elements) {
  return {.dtype = kDType,
          .name = name,
          .gguf_type = gguf_type,
          .elements = elements,
          .bytes = sizeof(Block),
          .dequantize = DequantizeParts<kDType>,
          .quantize = QuantizeParts<kDType>};
}

constexpr WeightFormat kFormats[] = {
    {DType::kF32, "f32", 0, 1, 4, ReadElement<float, Same>, WriteElement<float, Same>},
    {DType::kF16, "f16", 1, 1, 2, ReadElement<uint16_t, F16ToF32>,
     WriteElement<uint16_t, F32ToF16>},
    {DType::kBF16, "bf16", 30, 1, 2, ReadElement<uint16_t, BF16ToF32>,
     WriteElement<uint16_t, F32ToBF16>},
    {DType::kQ8_0, "q8_0", 8, QuantBlockQ8_0::kElements, sizeof(QuantBlockQ8_0),
     ReadBlock<QuantBlockQ8_0>, WriteBlock<QuantBlockQ8_0>},
    {DType::kQ4_0, "q4_0", 2, QuantBlockQ4_0::kElements, sizeof(QuantBlockQ4_0),
     ReadBlock<QuantBlockQ4_0>, WriteBlock<QuantBlockQ4_0>},
    Quantized<DType::kQ4_1, QuantBlockQ4_1>("q4_1", 3, 32),
    Quantized<DType::kQ5_0, QuantBlockQ5_0>("q5_0", 6, 32),
    Quantized<DType::kQ5_1, QuantBlockQ5_1>("q5_1", 7, 32),
    Quantized<DType::kQ2_K, QuantBlockQ2_K>("q2_k", 10, 256),
    Quantized<DType::kQ3_K, QuantBlockQ3_K>("q3_k", 11, 256),
    Quantized<DType::kQ4_K, QuantBlockQ4_K>("q4_k", 12, 256),
    Quantized<DType::kQ5_K, QuantBlockQ5_K>("q5_k", 13, 256),
    Quantized<DType::kQ6_K, QuantBlockQ6_K>("q6_k", 14, 256),
    Quantized<DType::kIQ4_NL, QuantBlockIQ4_NL>("iq4_nl", 20, 32),
    Quantized<DType::kIQ4_XS, QuantBlockIQ4_XS>("iq4_xs", 23, 256),
    Quantized<DType::kMXFP4, QuantBlockMXFP4>("mxfp4", 39, 32),
    {DType::kF8E4M3, "fp8_e4m3", kNoGgufType, 1, 1, ReadElement<uint8_t, F8E4M3ToF32>,
     WriteElement<uint8_t, F32ToF8E4M3>},
};
constexpr size_t kNumWeightFormats = static_cast<size_t>(DType::kF8E4M3);

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    if (static_cast<size_t>(kFormats[i].dtype) != i) return false;
  }
  return true;
}
static_assert(InOrder());

}  // namespace

std::span<const WeightFormat> WeightFormats() {
  return std::span(kFormats).first(kNumWeightFormats);
}

const WeightFormat& WeightFormatOf(DType dtype) {
  KVGATE_DCHECK(static_cast<size_t>(dtype) < std::size(kFormats), "unknown dtype");
  return kFormats[static_cast<size_t>(dtype)];
}

const WeightFormat* FindWeightFormat(uint32_t gguf_type) {
  for (const WeightFormat& format : WeightFormats()) {
    if (format.gguf_type == gguf_type) return &format;
  }
  return nullptr;
}

void DequantizeValues(DType dtype, const std::byte* from, int64_t count, float* to) {
  const WeightFormat& format = WeightFormatOf(dtype);
  for (int64_t i = 0; i < count; i += format.elements, from += format.bytes) {
    format.dequantize(from, to + i);
  }
}

void QuantizeValues(DType dtype, const float* from, int64_t count, std::byte* to) {
  const WeightFormat& format = WeightFormatOf(dtype);
  for (int64_t i = 0; i < count; i += format.elements, to += format.bytes) {
    format.quantize(from + i, to);
  }
}

}  // namespace kvgate::kernels
