// Tests the bit manipulation for E4M3 on devices without an instruction for it, against
// kernels/dtype.h.
#include "kernels/cuda/device/e4m3.cuh"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/dtype.h"

namespace kvgate::kernels::cuda::device {
namespace {

TEST(E4m3Test, EveryCodeBecomesTheF16OfItsValueInEveryPlaceOfAWord) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float want = F8E4M3ToF32(static_cast<uint8_t>(code));
    for (uint32_t place = 0; place < 4; ++place) {
      for (const uint32_t others : {0x00000000u, 0x7f7f7f7fu, 0xffffffffu, 0x01010101u}) {
        const uint32_t mask = 0xffu << (8 * place);
        uint32_t pairs[2];
        E4m3ToHalf4((others & ~mask) | code << (8 * place), pairs[0], pairs[1]);
        const auto bits = static_cast<uint16_t>(pairs[place / 2] >> (16 * (place % 2)));
        const float got = F16ToF32(bits);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got)) << "code " << code;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << "code " << code;
        }
      }
    }
  }
}

TEST(E4m3Test, FloatsBecomeWhatTheyDoOnTheHost) {
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x8000u, 0xffffu}) {
      const float value = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(FloatToE4m3(value), F32ToF8E4M3(value)) << value;
    }
  }
}

}  // namespace
}  // namespace kvgate::kernels::cuda::device
