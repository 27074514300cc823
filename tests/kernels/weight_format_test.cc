// Compares every format's values with plain formulas over the bytes of a block, written
// independently from the documents of the GGUF formats, element by element.
#include "kernels/weight_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

using Bytes = std::vector<uint8_t>;

float Half(const Bytes& b, size_t at) {
  return F16ToF32(static_cast<uint16_t>(b[at] | b[at + 1] << 8));
}

int Nibble32(const Bytes& b, size_t at, int i) {
  return i < 16 ? b[at + i] & 0xf : b[at + i - 16] >> 4;
}

int FifthBit(const Bytes& b, size_t at, int i) { return (b[at + i / 8] >> (i % 8)) & 1; }

// Returns the 6-bit scale or min of group j of Q4_K and Q5_K.
int SixBits(const Bytes& b, size_t at, int j, bool is_min) {
  const size_t own = at + (is_min ? 4 : 0);
  if (j < 4) return b[own + j] & 0x3f;
  const int low = is_min ? b[at + 4 + j] >> 4 : b[at + 4 + j] & 0xf;
  return low + 16 * (b[own + j - 4] >> 6);
}

int TwoBits(const Bytes& b, size_t at, int i) {
  return (b[at + (i / 128) * 32 + i % 32] >> (2 * ((i % 128) / 32))) & 3;
}

int KNibble(const Bytes& b, size_t at, int i) {
  const int byte = b[at + (i / 64) * 32 + i % 32];
  return i % 64 < 32 ? byte & 0xf : byte >> 4;
}

float Q2K(const Bytes& b, int i) {
  const int scales = b[i / 16];
  const float d = Half(b, 80) * static_cast<float>(scales & 0xf);
  const float m = Half(b, 82) * static_cast<float>(scales >> 4);
  return d * static_cast<float>(TwoBits(b, 16, i)) - m;
}

float Q3K(const Bytes& b, int i) {
  const int g = i / 16;
  const int low = g < 8 ? b[96 + g] & 0xf : b[96 + g - 8] >> 4;
  const int high = (b[104 + g % 4] >> (2 * (g / 4))) & 3;
  const float d = Half(b, 108) * static_cast<float>(low + 16 * high - 32);
  const bool set = (b[i % 32] >> (i / 32)) & 1;
  return d * static_cast<float>(TwoBits(b, 32, i) - (set ? 0 : 4));
}

float Q4K(const Bytes& b, int i) {
  const float d = Half(b, 0) * static_cast<float>(SixBits(b, 4, i / 32, false));
  const float m = Half(b, 2) * static_cast<float>(SixBits(b, 4, i / 32, true));
  return d * static_cast<float>(KNibble(b, 16, i)) - m;
}

float Q5K(const Bytes& b, int i) {
  const float d = Half(b, 0) * static_cast<float>(SixBits(b, 4, i / 32, false));
  const float m = Half(b, 2) * static_cast<float>(SixBits(b, 4, i / 32, true));
  const int high = (b[16 + i % 32] >> (i / 32)) & 1;
  return d * static_cast<float>(KNibble(b, 48, i) + 16 * high) - m;
}

float Q6K(const Bytes& b, int i) {
  const int byte = b[(i / 128) * 64 + i % 64];
  const int low = i % 128 < 64 ? byte & 0xf : byte >> 4;
  const float d = Half(b, 208) * static_cast<float>(static_cast<int8_t>(b[192 + i / 16]));
  return d * static_cast<float>(low + 16 * TwoBits(b, 128, i) - 32);
}

constexpr int kIq4Values[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};

float Iq4Xs(const Bytes& b, int i) {
  const int g = i / 32;
  const int low = (b[4 + g / 2] >> (4 * (g % 2))) & 0xf;
  const int high = ((b[2] | b[3] << 8) >> (2 * g)) & 3;
  const float d = Half(b, 0) * static_cast<float>(low + 16 * high - 32);
  return d * static_cast<float>(kIq4Values[Nibble32(b, 8 + g * 16, i % 32)]);
}

float Mxfp4(const Bytes& b, int i) {
  const int code = Nibble32(b, 1, i);
  constexpr float kE2M1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const double value = std::ldexp(static_cast<double>(kE2M1[code & 7]), b[0] - 127);
  return static_cast<float>(code <= 8 ? value : -value);  // code 8, a negative zero, reads as zero
}

struct Formula {
  DType dtype;
  uint32_t gguf_type;
  int elements;
  size_t bytes;
  std::vector<size_t> halves;  // offsets of f16 numbers
  float (*value)(const Bytes& block, int i);
};

float Q4Plain(const Bytes& b, int i) {
  return Half(b, 0) * static_cast<float>(Nibble32(b, 2, i) - 8);
}
float Q4WithMin(const Bytes& b, int i) {
  return Half(b, 0) * static_cast<float>(Nibble32(b, 4, i)) + Half(b, 2);
}
float Q5Plain(const Bytes& b, int i) {
  return Half(b, 0) * static_cast<float>(Nibble32(b, 6, i) + 16 * FifthBit(b, 2, i) - 16);
}
float Q5WithMin(const Bytes& b, int i) {
  return Half(b, 0) * static_cast<float>(Nibble32(b, 8, i) + 16 * FifthBit(b, 4, i)) + Half(b, 2);
}
float Q8Plain(const Bytes& b, int i) {
  return Half(b, 0) * static_cast<float>(static_cast<int8_t>(b[2 + i]));
}
float Iq4Nl(const Bytes& b, int i) {
  return Half(b, 0) * static_cast<float>(kIq4Values[Nibble32(b, 2, i)]);
}
float PlainF32(const Bytes& b, int) {
  float value;
  std::memcpy(&value, b.data(), sizeof(value));
  return value;
}
float PlainF16(const Bytes& b, int) { return Half(b, 0); }
float PlainBf16(const Bytes& b, int) {
  return std::bit_cast<float>(static_cast<uint32_t>(b[0] | b[1] << 8) << 16);
}

const Formula kFormulas[] = {
    {DType::kF32, 0, 1, 4, {}, PlainF32},       {DType::kF16, 1, 1, 2, {0}, PlainF16},
    {DType::kBF16, 30, 1, 2, {}, PlainBf16},    {DType::kQ8_0, 8, 32, 34, {0}, Q8Plain},
    {DType::kQ4_0, 2, 32, 18, {0}, Q4Plain},    {DType::kQ4_1, 3, 32, 20, {0, 2}, Q4WithMin},
    {DType::kQ5_0, 6, 32, 22, {0}, Q5Plain},    {DType::kQ5_1, 7, 32, 24, {0, 2}, Q5WithMin},
    {DType::kQ2_K, 10, 256, 84, {80, 82}, Q2K}, {DType::kQ3_K, 11, 256, 110, {108}, Q3K},
    {DType::kQ4_K, 12, 256, 144, {0, 2}, Q4K},  {DType::kQ5_K, 13, 256, 176, {0, 2}, Q5K},
    {DType::kQ6_K, 14, 256, 210, {208}, Q6K},   {DType::kIQ4_NL, 20, 32, 18, {0}, Iq4Nl},
    {DType::kIQ4_XS, 23, 256, 136, {0}, Iq4Xs}, {DType::kMXFP4, 39, 32, 17, {}, Mxfp4},
};

class WeightFormatTest : public testing::TestWithParam<Formula> {
 protected:
  const WeightFormat& format() const { return WeightFormatOf(GetParam().dtype); }

  // Expects the same bits, or NaN in both, because the NaN that a product gives depends on the
  // machine.
  void ExpectExact(const Bytes& block, const std::string& what) {
    std::vector<float> values(static_cast<size_t>(format().elements));
    format().dequantize(reinterpret_cast<const std::byte*>(block.data()), values.data());
    for (int i = 0; i < format().elements; ++i) {
      const float want = GetParam().value(block, i);
      const float got = values[static_cast<size_t>(i)];
      if (std::isnan(want) && std::isnan(got)) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want))
          << what << ", element " << i << ": " << got << " for " << want;
    }
  }

  Bytes RandomBlock(TestRandom& random) const {
    Bytes block(GetParam().bytes);
    for (uint8_t& byte : block) byte = static_cast<uint8_t>(random.Next());
    return block;
  }
};

TEST_P(WeightFormatTest, TheTableHasTheNumbersOfTheFileFormat) {
  EXPECT_EQ(format().dtype, GetParam().dtype);
  EXPECT_EQ(format().gguf_type, GetParam().gguf_type);
  EXPECT_EQ(format().elements, GetParam().elements);
  EXPECT_EQ(format().bytes, GetParam().bytes);
  EXPECT_EQ(FindWeightFormat(GetParam().gguf_type), &format());
  EXPECT_EQ(FindDType(format().name), GetParam().dtype);
}

TEST_P(WeightFormatTest, RandomBlocksAreReadExactly) {
  TestRandom random(41);
  for (int trial = 0; trial < 2000; ++trial) {
    ExpectExact(RandomBlock(random), "random block " + std::to_string(trial));
    if (HasFatalFailure()) return;
  }
}

TEST_P(WeightFormatTest, UniformBlocksAreReadExactly) {
  for (const uint8_t fill : {0x00, 0xff, 0x0f, 0xf0, 0x55, 0xaa, 0x80, 0x7f}) {
    ExpectExact(Bytes(GetParam().bytes, fill), "block of " + std::to_string(fill));
  }
}

// The scales are infinity, NaN, the smallest and largest subnormal, the largest number, and both
// zeros.
TEST_P(WeightFormatTest, OddScalesAreReadExactly) {
  TestRandom random(42);
  for (const size_t at : GetParam().halves) {
    for (const uint16_t bits :
         {0x7c00, 0xfc00, 0x7e00, 0xffff, 0x0001, 0x8001, 0x03ff, 0x7bff, 0xfbff, 0x0000, 0x8000}) {
      Bytes block = RandomBlock(random);
      block[at] = static_cast<uint8_t>(bits);
      block[at + 1] = static_cast<uint8_t>(bits >> 8);
      ExpectExact(block, "half at " + std::to_string(at) + " of bits " + std::to_string(bits));
    }
  }
  for (const int exponent : {0, 1, 2, 127, 254, 255}) {
    Bytes block = RandomBlock(random);
    block[0] = static_cast<uint8_t>(exponent);
    ExpectExact(block, "first byte " + std::to_string(exponent));
  }
}

// Returns the maximum rounding error of a format, relative to the largest magnitude of a block. It
// includes the rounding of group scales of few bits.
double StepOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0;
    case DType::kF16:
    case DType::kBF16:
      return 0.004;
    case DType::kQ8_0:
      return 0.006;
    case DType::kQ6_K:
      return 0.04;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return 0.07;
    case DType::kQ2_K:
      return 0.5;
    case DType::kQ3_K:
      return 0.3;
    case DType::kMXFP4:
      return 0.26;  // 5 and 7, of at most 8, lie between codes
    default:
      return 0.14;
  }
}

TEST_P(WeightFormatTest, QuantizedValuesStayNear) {
  const auto count = static_cast<size_t>(std::max(GetParam().elements, 32));
  for (int trial = 0; trial < 50; ++trial) {
    const std::vector<float> values = NormalValues(count, 300 + static_cast<uint64_t>(trial));
    std::vector<std::byte> bytes(DTypeBytes(GetParam().dtype, count));
    std::vector<float> read(count);
    QuantizeValues(GetParam().dtype, values.data(), static_cast<int64_t>(count), bytes.data());
    DequantizeValues(GetParam().dtype, bytes.data(), static_cast<int64_t>(count), read.data());
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(read[i], values[i], StepOf(GetParam().dtype) * largest) << "element " << i;
    }
  }
}

TEST_P(WeightFormatTest, ZerosStayZeroBesideOtherGroups) {
  const auto count = static_cast<size_t>(std::max(GetParam().elements, 32));
  std::vector<float> values = NormalValues(count, 5);
  if (GetParam().elements <= 32) std::fill(values.begin(), values.end(), 0.0f);
  std::fill_n(values.end() - 32, 32, 0.0f);
  std::vector<std::byte> bytes(DTypeBytes(GetParam().dtype, count));
  std::vector<float> read(count);
  QuantizeValues(GetParam().dtype, values.data(), static_cast<int64_t>(count), bytes.data());
  DequantizeValues(GetParam().dtype, bytes.data(), static_cast<int64_t>(count), read.data());
  for (size_t i = count - 32; i < count; ++i) EXPECT_EQ(read[i], 0.0f) << i;
}

// Covers formats of blocks; DTypeTest covers formats of one element, which are plain conversions.
class BlockFormatTest : public WeightFormatTest {};

TEST_P(BlockFormatTest, QuantizingHostileValuesStaysFiniteAndNanIsNotHidden) {
  const auto count = static_cast<size_t>(GetParam().elements);
  std::vector<std::byte> bytes(GetParam().bytes);
  std::vector<float> read(count);
  for (const float odd : {std::numeric_limits<float>::infinity(), -3e38f, 1e-42f, -1e20f}) {
    std::vector<float> values = NormalValues(count, 6, odd == 1e-42f ? 1e-42f : 1.0f);
    values[7] = odd;
    format().quantize(values.data(), bytes.data());
    format().dequantize(bytes.data(), read.data());
    for (const float value : read) EXPECT_TRUE(std::isfinite(value)) << odd;
  }
  std::vector<float> values = NormalValues(count, 7);
  values[3] = std::nanf("");
  format().quantize(values.data(), bytes.data());
  format().dequantize(bytes.data(), read.data());
  for (const float value : read) {
    EXPECT_TRUE(GetParam().dtype == DType::kMXFP4 ? std::isfinite(value) : std::isnan(value));
  }
}

std::vector<Formula> BlockFormulas() {
  std::vector<Formula> chosen(std::begin(kFormulas), std::end(kFormulas));
  std::erase_if(chosen, [](const Formula& formula) { return formula.elements == 1; });
  return chosen;
}

std::string NameOf(const testing::TestParamInfo<Formula>& test) {
  return std::string(DTypeName(test.param.dtype));
}

INSTANTIATE_TEST_SUITE_P(All, WeightFormatTest, testing::ValuesIn(kFormulas), NameOf);
INSTANTIATE_TEST_SUITE_P(All, BlockFormatTest, testing::ValuesIn(BlockFormulas()), NameOf);

TEST(WeightFormatsTest, EveryFormatHasAFormulaHereAndUnknownNumbersHaveNone) {
  ASSERT_EQ(WeightFormats().size(), std::size(kFormulas));
  EXPECT_EQ(FindWeightFormat(16), nullptr);
  EXPECT_EQ(FindWeightFormat(9999), nullptr);
  EXPECT_EQ(FindWeightFormat(kNoGgufType), nullptr);  // stored in KV only
}

}  // namespace
}  // namespace kvgate::kernels
