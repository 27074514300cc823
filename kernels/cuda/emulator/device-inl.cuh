// Implements device.cuh in the emulator: the effect of each instruction, lane by lane.
#pragma once

#include "base/check.h"
#include "kernels/dtype.h"

namespace kvgate::kernels::cuda::device {

KVGATE_DEVICE std::byte* SharedMemory() { return emulator::CurrentShared(); }
KVGATE_DEVICE void SyncThreads() { emulator::Barrier(); }
KVGATE_DEVICE void SyncWarp() {
  emulator::Collective("SyncWarp", nullptr, [](void* const*) {});
}
KVGATE_DEVICE int LaneIndex() { return static_cast<int>(threadIdx.x % kWarpLanes); }
KVGATE_DEVICE int WarpIndex() { return static_cast<int>(threadIdx.x / kWarpLanes); }

}  // namespace kvgate::kernels::cuda::device

namespace kvgate::kernels::cuda::emulator {

template <typename T>
struct ShuffleOperands {
  T value;
  int source;
  T result;
};

template <typename T>
inline T ShuffleFrom(T value, int source) {
  ShuffleOperands<T> operands{value, source, {}};
  Collective("Shuffle", &operands, [](void* const* lanes) {
    for (int i = 0; i < device::kWarpLanes; ++i) {
      auto* lane = static_cast<ShuffleOperands<T>*>(lanes[i]);
      lane->result =
          static_cast<ShuffleOperands<T>*>(lanes[lane->source % device::kWarpLanes])->value;
    }
  });
  return operands.result;
}

inline float LowHalf(uint32_t pair) { return F16ToF32(static_cast<uint16_t>(pair)); }
inline float HighHalf(uint32_t pair) { return F16ToF32(static_cast<uint16_t>(pair >> 16)); }
inline uint32_t HalfPair(float low, float high) {
  return static_cast<uint32_t>(F32ToF16(low)) | static_cast<uint32_t>(F32ToF16(high)) << 16;
}

struct MmaOperands {
  float* c;
  const uint32_t* a;
  const uint32_t* b;
};

// Products are exact in f64 and their sum is rounded once. No device adds like this; it is more
// exact.
template <float (*kConvert)(uint16_t)>
inline void RunMma(void* const* lanes) {
  float a[16][16];
  float b[16][8];
  for (int lane = 0; lane < device::kWarpLanes; ++lane) {
    const auto* operands = static_cast<const MmaOperands*>(lanes[lane]);
    const int g = lane / 4;
    const int t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      for (int half = 0; half < 2; ++half) {
        a[g + i % 2 * 8][2 * t + i / 2 * 8 + half] =
            kConvert(static_cast<uint16_t>(operands->a[i] >> (16 * half)));
      }
    }
    for (int i = 0; i < 2; ++i) {
      for (int half = 0; half < 2; ++half) {
        b[2 * t + i * 8 + half][g] = kConvert(static_cast<uint16_t>(operands->b[i] >> (16 * half)));
      }
    }
  }
  for (int lane = 0; lane < device::kWarpLanes; ++lane) {
    const auto* operands = static_cast<const MmaOperands*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      const int column = lane % 4 * 2 + i % 2;
      double sum = operands->c[i];
      for (int k = 0; k < 16; ++k) sum += double{a[row][k]} * double{b[k][column]};
      operands->c[i] = static_cast<float>(sum);
    }
  }
}

struct WarpgroupMmaOperands {
  float* d;
  uint32_t a[4];
  const std::byte* b;
  int step;
  bool accumulates;
};

// Computes one warp's 16 rows. b is read only at the wait, because a device may read it that late.
template <int kColumns>
inline void RunWarpgroupMma(void* const* lanes) {
  float a[16][16];
  float b[kColumns][16];
  const bool rounds = WarpgroupsRound();
  const auto* first = static_cast<const WarpgroupMmaOperands*>(lanes[0]);
  for (int column = 0; column < kColumns; ++column) {
    for (int k = 0; k < 16; ++k) {
      const int chunk = (first->step * 2 + k / 8) ^ (column % 8);
      uint16_t value = 0;
      std::memcpy(&value, first->b + column * 128 + chunk * 16 + k % 8 * 2, 2);
      b[column][k] = F16ToF32(value);
    }
  }
  for (int lane = 0; lane < device::kWarpLanes; ++lane) {
    const auto* operands = static_cast<const WarpgroupMmaOperands*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      float* to = &a[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8];
      to[0] = LowHalf(operands->a[i]);
      to[1] = HighHalf(operands->a[i]);
    }
  }
  for (int lane = 0; lane < device::kWarpLanes; ++lane) {
    const auto* operands = static_cast<const WarpgroupMmaOperands*>(lanes[lane]);
    for (int i = 0; i < kColumns / 2; ++i) {
      const float* row = a[lane / 4 + i % 4 / 2 * 8];
      const float* column = b[i / 4 * 8 + lane % 4 * 2 + i % 2];
      double sum = operands->accumulates ? operands->d[i] : 0.0f;
      for (int k = 0; k < 16; ++k) {
        sum += double{row[k]} * double{column[k]};
        if (rounds) sum = static_cast<float>(sum);
      }
      operands->d[i] = static_cast<float>(sum);
    }
  }
}

struct MatrixOperands {
  uint32_t* to;
  const void* row;
};

template <bool kTransposed>
inline void RunLoadMatrices(void* const* lanes) {
  for (int lane = 0; lane < device::kWarpLanes; ++lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint32_t pair = 0;
      for (int half = 0; half < 2; ++half) {
        const int row = kTransposed ? 2 * t + half : g;
        const int column = kTransposed ? g : 2 * t + half;
        uint16_t value = 0;
        const auto* operands = static_cast<const MatrixOperands*>(lanes[matrix * 8 + row]);
        std::memcpy(&value, static_cast<const std::byte*>(operands->row) + 2 * column, 2);
        pair |= static_cast<uint32_t>(value) << (16 * half);
      }
      static_cast<const MatrixOperands*>(lanes[lane])->to[matrix] = pair;
    }
  }
}

}  // namespace kvgate::kernels::cuda::emulator

namespace kvgate::kernels::cuda::device {

KVGATE_DEVICE float ShuffleXor(float value, int mask) {
  return emulator::ShuffleFrom(value, LaneIndex() ^ mask);
}
KVGATE_DEVICE uint32_t ShuffleXor(uint32_t value, int mask) {
  return emulator::ShuffleFrom(value, LaneIndex() ^ mask);
}
KVGATE_DEVICE float Shuffle(float value, int lane) { return emulator::ShuffleFrom(value, lane); }
KVGATE_DEVICE uint32_t Shuffle(uint32_t value, int lane) {
  return emulator::ShuffleFrom(value, lane);
}
KVGATE_DEVICE uint32_t Ballot(bool value) {
  emulator::ShuffleOperands<uint32_t> operands{value ? 1u : 0u, 0, 0};
  emulator::Collective("Ballot", &operands, [](void* const* lanes) {
    uint32_t bits = 0;
    for (int i = 0; i < kWarpLanes; ++i) {
      bits |= static_cast<emulator::ShuffleOperands<uint32_t>*>(lanes[i])->value << i;
    }
    for (int i = 0; i < kWarpLanes; ++i) {
      static_cast<emulator::ShuffleOperands<uint32_t>*>(lanes[i])->result = bits;
    }
  });
  return operands.result;
}
KVGATE_DEVICE uint32_t WarpSum(uint32_t value) {
  emulator::ShuffleOperands<uint32_t> operands{value, 0, 0};
  emulator::Collective("WarpSum", &operands, [](void* const* lanes) {
    uint32_t sum = 0;
    for (int i = 0; i < kWarpLanes; ++i) {
      sum += static_cast<emulator::ShuffleOperands<uint32_t>*>(lanes[i])->value;
    }
    for (int i = 0; i < kWarpLanes; ++i) {
      static_cast<emulator::ShuffleOperands<uint32_t>*>(lanes[i])->result = sum;
    }
  });
  return operands.result;
}
KVGATE_DEVICE void AtomicAdd(unsigned long long* to, unsigned long long value) { *to += value; }
KVGATE_DEVICE uint32_t AtomicFetchAdd(uint32_t* to, uint32_t value) {
  const uint32_t before = *to;
  *to += value;
  return before;
}

KVGATE_DEVICE float HalfToFloat(uint16_t bits) { return F16ToF32(bits); }
KVGATE_DEVICE uint16_t FloatToHalf(float value) { return F32ToF16(value); }
KVGATE_DEVICE uint32_t FloatsToHalf2(float low, float high) {
  return emulator::HalfPair(low, high);
}
KVGATE_DEVICE uint32_t HalfSub2(uint32_t a, uint32_t b) {
  return emulator::HalfPair(emulator::LowHalf(a) - emulator::LowHalf(b),
                            emulator::HighHalf(a) - emulator::HighHalf(b));
}
KVGATE_DEVICE uint32_t HalfMul2(uint32_t a, uint32_t b) {
  return emulator::HalfPair(emulator::LowHalf(a) * emulator::LowHalf(b),
                            emulator::HighHalf(a) * emulator::HighHalf(b));
}
// The product of two f16 is exact in f32, but the sum is rounded to f32 before f16, which a device
// does in one step. The results differ only in rare ties.
KVGATE_DEVICE uint32_t HalfFma2(uint32_t a, uint32_t b, uint32_t c) {
  return emulator::HalfPair(emulator::LowHalf(a) * emulator::LowHalf(b) + emulator::LowHalf(c),
                            emulator::HighHalf(a) * emulator::HighHalf(b) + emulator::HighHalf(c));
}
KVGATE_DEVICE float Bf16ToFloat(uint16_t bits) { return BF16ToF32(bits); }
KVGATE_DEVICE uint16_t FloatToBf16(float value) { return F32ToBF16(value); }
KVGATE_DEVICE uint32_t FloatsToBf16x2(float low, float high) {
  return static_cast<uint32_t>(F32ToBF16(low)) | static_cast<uint32_t>(F32ToBF16(high)) << 16;
}

KVGATE_DEVICE float Fma(float a, float b, float c) { return std::fma(a, b, c); }
KVGATE_DEVICE float Exp2(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;  // NaN passes through
}
KVGATE_DEVICE float BitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
KVGATE_DEVICE uint32_t FloatToBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

KVGATE_DEVICE void MmaHalf(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::MmaOperands operands{c, a, b};
  emulator::Collective("MmaHalf", &operands, emulator::RunMma<F16ToF32>);
}
KVGATE_DEVICE void MmaBf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::MmaOperands operands{c, a, b};
  emulator::Collective("MmaBf16", &operands, emulator::RunMma<BF16ToF32>);
}
KVGATE_DEVICE void LoadMatrices4(uint32_t (&to)[4], const void* row) {
  emulator::MatrixOperands operands{to, row};
  emulator::Collective("LoadMatrices4", &operands, emulator::RunLoadMatrices<false>);
}
KVGATE_DEVICE void LoadMatrices4Transposed(uint32_t (&to)[4], const void* row) {
  emulator::MatrixOperands operands{to, row};
  emulator::Collective("LoadMatrices4Transposed", &operands, emulator::RunLoadMatrices<true>);
}

template <int kColumns>
KVGATE_DEVICE void WarpgroupMma(float (&d)[kColumns / 2], const uint32_t (&a)[4], const void* b,
                                int step, bool accumulates) {
  KVGATE_CHECK(reinterpret_cast<uintptr_t>(b) % 1024 == 0, "b is aligned to its swizzle");
  const emulator::WarpgroupMmaOperands operands{
      d, {a[0], a[1], a[2], a[3]}, static_cast<const std::byte*>(b), step, accumulates};
  emulator::WorkLater(&emulator::RunWarpgroupMma<kColumns>, &operands, sizeof(operands));
}
KVGATE_DEVICE void WarpgroupFence(uint32_t (&)[2][4]) {}
KVGATE_DEVICE void WarpgroupCommit() { emulator::WorkCommit(); }
template <int kGroupsLeft>
KVGATE_DEVICE void WarpgroupWait() {
  emulator::WorkWait(kGroupsLeft);
}
template <int kCount>
KVGATE_DEVICE void WarpgroupWaitAll(float (&)[kCount]) {
  emulator::WorkWait(0);
}
KVGATE_DEVICE void PublishShared() {}

KVGATE_DEVICE Vector16 LoadOnce(const void* from) { return *static_cast<const Vector16*>(from); }
KVGATE_DEVICE void CopyAsync16(void* to, const void* from, bool is_there) {
  emulator::CopyLater(to, 16, from, is_there ? 16 : 0);
}
KVGATE_DEVICE void CopyCommit() { emulator::CopyCommit(); }
template <int kGroupsLeft>
KVGATE_DEVICE void CopyWait() {
  emulator::CopyWait(kGroupsLeft);
}

}  // namespace kvgate::kernels::cuda::device
