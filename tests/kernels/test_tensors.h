// Test data for kernels (difficult values: outliers, denormals, zeros), buffers with guards around
// them, weights in every dtype, and comparisons that name the row and element that differ.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/quant_parts.h"
#include "kernels/weight_format.h"

namespace kvgate::kernels {

// Gives the same numbers on every machine, which <random>'s distributions do not promise.
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t Next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  float Uniform() { return static_cast<float>(Next() >> 40) * 0x1p-23f - 1.0f; }  // [-1, 1)
  // Approximates a normal distribution with unit variance.
  float Normal() { return (Uniform() + Uniform() + Uniform()); }

 private:
  uint64_t state_;
};

inline std::vector<float> NormalValues(size_t count, uint64_t seed, float scale = 1.0f) {
  TestRandom random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.Normal() * scale;
  return values;
}

// In 64 values about one is 1000 times too large, one a denormal, and one a zero of either sign.
inline std::vector<float> HostileValues(size_t count, uint64_t seed, float scale = 1.0f) {
  TestRandom random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = random.Normal() * scale;
    switch (random.Below(64)) {
      case 0:
        value *= 1000.0f;
        break;
      case 1:
        value = std::copysign(1e-40f, value);
        break;
      case 2:
        value = std::copysign(0.0f, value);
        break;
      default:
        break;
    }
  }
  return values;
}

// Returns activations [rows, columns]: of each eight rows one is tiny, one huge, one denormal and
// one zero; the others are hostile values of ordinary size.
inline std::vector<float> HostileRows(int rows, int64_t columns, uint64_t seed,
                                      float huge = 1e20f) {
  std::vector<float> values = HostileValues(static_cast<size_t>(rows * columns), seed);
  for (int row = 0; row < rows; ++row) {
    const std::span<float> run(values.data() + row * columns, static_cast<size_t>(columns));
    const float scales[8] = {1, 1, 1, 1e-30f, 1, huge, 1e-40f, 0};
    for (float& value : run) value *= scales[row % 8];
  }
  return values;
}

// A weight matrix in file form with its memory. The bytes start 4 past an aligned address, because
// files only promise the alignment of an element.
class TestWeight {
 public:
  TestWeight(DType dtype, int64_t rows, int64_t columns, uint64_t seed)
      : dtype_(dtype), rows_(rows), columns_(columns) {
    const auto count = static_cast<size_t>(rows * columns);
    bytes_.resize(kOffset + DTypeBytes(dtype, count));
    std::vector<float> values = NormalValues(count, seed, 0.1f);
    TestRandom random(seed + 1);
    for (float& value : values) {
      const uint64_t kind = random.Below(128);
      if (kind == 0) value *= 100;
      if (kind == 1) value *= 1e-6f;  // subnormal in f16
    }
    Encode(values, random);
  }

  WeightView view() const {
    return {.dtype = dtype_, .data = bytes_.data() + kOffset, .rows = rows_, .columns = columns_};
  }

 private:
  static constexpr size_t kOffset = 4;

  template <typename T>
  void Put(size_t index, const T& value) {
    std::memcpy(bytes_.data() + kOffset + index * sizeof(T), &value, sizeof(T));
  }

  void Encode(std::span<const float> values, TestRandom& random) {
    if (dtype_ == DType::kQ8_0) return EncodeQ8(values.size(), random);
    if (DTypeElements(dtype_) != 1) return EncodeParts(random);
    QuantizeValues(dtype_, values.data(), static_cast<int64_t>(values.size()),
                   bytes_.data() + kOffset);
  }

  // Any int8 is a legal quant, including -128; scales have either sign and are sometimes subnormal
  // or zero.
  void EncodeQ8(size_t count, TestRandom& random) {
    for (size_t b = 0; b < count / QuantBlockQ8_0::kElements; ++b) {
      const uint64_t kind = random.Below(32);
      QuantBlockQ8_0 block{.scale = Scale(kind, random), .quants = {}};
      for (int8_t& quant : block.quants) quant = static_cast<int8_t>(random.Below(256));
      if (kind == 3) std::fill(std::begin(block.quants), std::end(block.quants), int8_t{-128});
      Put(b, block);
    }
  }

  // Formats with codes also allow any code and any group scale.
  void EncodeParts(TestRandom& random) {
    const WeightFormat& format = WeightFormatOf(dtype_);
    const QuantLayout layout = QuantLayoutOf(dtype_);
    for (size_t at = kOffset; at < bytes_.size(); at += format.bytes) {
      const uint64_t kind = random.Below(32);
      QuantParts parts{.scale = Scale(kind, random), .min = Scale(random.Below(32), random)};
      if (layout.scale == QuantScale::kExponent) {
        parts.scale = static_cast<uint16_t>(110 + random.Below(10));
      }
      const int range = layout.group_scale_max - layout.group_scale_min + 1;
      for (int g = 0; g < layout.num_groups() && layout.has_group_scales(); ++g) {
        parts.group_scales[g] = static_cast<int16_t>(
            layout.group_scale_min + static_cast<int>(random.Below(static_cast<uint64_t>(range))));
        parts.group_mins[g] =
            static_cast<uint8_t>(random.Below(static_cast<uint64_t>(layout.group_scale_max) + 1));
      }
      const uint64_t num_codes = uint64_t{1} << layout.bits;
      for (uint8_t& code : parts.codes) {
        code = static_cast<uint8_t>(kind == 3 ? num_codes - 1 : random.Below(num_codes));
      }
      PackBlock(dtype_, parts, bytes_.data() + at);
    }
  }

  static uint16_t Scale(uint64_t kind, TestRandom& random) {
    const float scale = 0.001f + 0.002f * std::abs(random.Uniform());
    if (kind == 0) return 0;
    if (kind == 1) return F32ToF16(1e-6f);
    return F32ToF16(kind == 2 ? -scale : scale);
  }

  DType dtype_;
  int64_t rows_;
  int64_t columns_;
  std::vector<std::byte> bytes_;
};

inline std::unique_ptr<Weight> Load(Backend& backend, const TestWeight& weight) {
  auto loaded = backend.LoadWeight(weight.view());
  if (!loaded) {
    ADD_FAILURE() << "LoadWeight: " << loaded.error().ToString();
    return nullptr;
  }
  return std::move(*loaded);
}

// Floats in a backend's memory with guards before and behind them; Read() fails the test if an
// operation wrote outside. Uninitialised values are NaN, which reveals elements that were not
// written.
class TestFloats {
 public:
  TestFloats(Backend& backend, std::span<const float> values)
      : backend_(backend), count_(values.size()) {
    auto buffer = backend.AllocateFloats(count_ + 2 * kGuard);
    if (!buffer) {
      ADD_FAILURE() << "AllocateFloats: " << buffer.error().ToString();
      return;
    }
    buffer_ = std::move(*buffer);
    std::vector<float> all(count_ + 2 * kGuard, kGuardValue);
    std::copy(values.begin(), values.end(), all.begin() + kGuard);
    backend.CopyIn(all, buffer_->data());
  }
  TestFloats(Backend& backend, size_t count)
      : TestFloats(backend, std::vector<float>(count, std::numeric_limits<float>::quiet_NaN())) {}

  float* data() { return buffer_->data() + kGuard; }

  std::vector<float> Read() {
    backend_.Synchronize();
    std::vector<float> all(count_ + 2 * kGuard);
    backend_.CopyOut(buffer_->data(), all);
    const auto is_guard = [](float value) { return value == kGuardValue; };
    const std::vector<float> values(all.begin() + kGuard, all.end() - kGuard);
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuard, is_guard)) << "wrote before";
    EXPECT_TRUE(std::all_of(all.end() - kGuard, all.end(), is_guard)) << "wrote behind";
    return values;
  }

 private:
  static constexpr size_t kGuard = 16;
  static constexpr float kGuardValue = 12345.5f;

  Backend& backend_;
  size_t count_;
  std::unique_ptr<FloatBuffer> buffer_;
};

inline double Norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

// Checks that each row of `got` is within `bound` of `want`, relative to the row's norm or to
// `scales[row]` (if given), for rows that cancellation made smaller than their terms. Results below
// 1e-35 may be flushed.
inline void ExpectRowsClose(std::span<const float> want, std::span<const float> got,
                            int64_t columns, double bound, std::span<const double> scales = {}) {
  ASSERT_EQ(want.size(), got.size());
  const auto width = static_cast<size_t>(columns);
  for (size_t row = 0; row * width < want.size(); ++row) {
    const auto w = want.subspan(row * width, width);
    const auto g = got.subspan(row * width, width);
    double sum = 0;
    size_t worst = 0;
    double worst_delta = 0;
    for (size_t i = 0; i < width; ++i) {
      const double delta = static_cast<double>(g[i]) - w[i];
      sum += delta * delta;
      if (!(std::abs(delta) <= worst_delta)) worst = i, worst_delta = std::abs(delta);
    }
    const double scale = std::max(Norm(w), scales.empty() ? 0.0 : scales[row]);
    const double limit = bound * scale + 1e-35 * std::sqrt(static_cast<double>(columns));
    ASSERT_LE(std::sqrt(sum), limit)
        << "row " << row << ", worst at column " << worst << ": want " << w[worst] << ", got "
        << g[worst] << "; relative error " << std::sqrt(sum) / scale << ", bound " << bound;
  }
}

// Checks that every float has the same bits.
inline void ExpectSameBits(std::span<const float> want, std::span<const float> got,
                           int64_t columns) {
  ASSERT_EQ(want.size(), got.size());
  if (std::memcmp(want.data(), got.data(), want.size_bytes()) == 0) return;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto want_bits = std::bit_cast<uint32_t>(want[i]);
    const auto got_bits = std::bit_cast<uint32_t>(got[i]);
    ASSERT_EQ(want_bits, got_bits)
        << "row " << i / static_cast<size_t>(columns) << ", column "
        << i % static_cast<size_t>(columns) << ": want " << want[i] << ", got " << got[i];
  }
}

inline std::span<const float> RowsOf(std::span<const float> values, int64_t first_row,
                                     int64_t num_rows, int64_t columns) {
  return values.subspan(static_cast<size_t>(first_row * columns),
                        static_cast<size_t>(num_rows * columns));
}

inline constexpr DType kWeightDTypes[] = {
    DType::kF32,  DType::kF16,    DType::kBF16,   DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
    DType::kQ5_0, DType::kQ5_1,   DType::kQ2_K,   DType::kQ3_K, DType::kQ4_K, DType::kQ5_K,
    DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4};
// Quantized KV has groups of 32 along head_dim, so head_dim must be a multiple.
inline bool FitsHead(DType dtype, int head_dim) { return head_dim % DTypeElements(dtype) == 0; }

// Returns `values` after they were stored as `dtype` and read, in groups that begin at the first
// value.
inline std::vector<float> RoundedTo(DType dtype, std::span<const float> values) {
  std::vector<float> rounded(values.begin(), values.end());
  for (size_t i = 0; i < rounded.size(); i += static_cast<size_t>(DTypeElements(dtype))) {
    if (dtype == DType::kF16) rounded[i] = F16ToF32(F32ToF16(values[i]));
    if (dtype == DType::kBF16) rounded[i] = BF16ToF32(F32ToBF16(values[i]));
    if (dtype == DType::kF8E4M3) rounded[i] = F8E4M3ToF32(F32ToF8E4M3(values[i]));
    if (dtype == DType::kQ8_0) {
      QuantBlockQ8_0 block;
      QuantizeBlock(values.data() + i, &block);
      DequantizeBlock(block, rounded.data() + i);
    }
    if (dtype == DType::kQ4_0) {
      QuantBlockQ4_0 block;
      QuantizeBlock(values.data() + i, &block);
      DequantizeBlock(block, rounded.data() + i);
    }
  }
  return rounded;
}

}  // namespace kvgate::kernels
