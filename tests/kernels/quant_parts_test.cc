#include "kernels/quant_parts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/weight_format.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

TEST(QuantPartsTest, EveryBlockSurvivesBeingTakenApart) {
  TestRandom random(51);
  for (const WeightFormat& format : WeightFormats()) {
    if (!HasQuantLayout(format.dtype)) continue;
    std::vector<std::byte> block(format.bytes);
    std::vector<std::byte> again(format.bytes);
    for (int trial = 0; trial < 500; ++trial) {
      for (std::byte& byte : block) byte = static_cast<std::byte>(random.Next());
      QuantParts parts;
      UnpackBlock(format.dtype, block.data(), &parts);
      PackBlock(format.dtype, parts, again.data());
      ASSERT_EQ(block, again) << format.name;
    }
  }
}

TEST(QuantPartsTest, PartsStayWithinTheBoundsOfTheirLayout) {
  TestRandom random(52);
  for (const WeightFormat& format : WeightFormats()) {
    if (!HasQuantLayout(format.dtype)) continue;
    const QuantLayout layout = QuantLayoutOf(format.dtype);
    ASSERT_EQ(layout.elements, format.elements) << format.name;
    std::vector<std::byte> block(format.bytes);
    for (int trial = 0; trial < 500; ++trial) {
      for (std::byte& byte : block) byte = static_cast<std::byte>(random.Next());
      QuantParts parts;
      UnpackBlock(format.dtype, block.data(), &parts);
      for (int g = 0; g < layout.num_groups(); ++g) {
        ASSERT_GE(parts.group_scales[g], layout.group_scale_min) << format.name;
        ASSERT_LE(parts.group_scales[g], layout.group_scale_max) << format.name;
      }
      for (int i = 0; i < layout.elements; ++i) {
        ASSERT_LT(parts.codes[i], 1 << layout.bits) << format.name;
      }
    }
  }
}

TEST(QuantPartsTest, PlainFormatsAndQ8HaveNoLayout) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    EXPECT_FALSE(HasQuantLayout(dtype)) << DTypeName(dtype);
  }
}

TEST(QuantPartsTest, AnExponentIsAPowerOfTwoDownToTheSubnormals) {
  for (int exponent = 0; exponent < 256; ++exponent) {
    EXPECT_EQ(ExponentScale(static_cast<uint8_t>(exponent)), std::ldexp(1.0, exponent - 128));
  }
}

}  // namespace
}  // namespace kvgate::kernels
