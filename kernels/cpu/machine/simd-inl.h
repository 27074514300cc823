// Vector helpers shared by the kernels of one SIMD target. Included once per target.
#if defined(KVGATE_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVGATE_KERNELS_CPU_SIMD_INL_H_
#undef KVGATE_KERNELS_CPU_SIMD_INL_H_
#else
#define KVGATE_KERNELS_CPU_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/dtype.h"

#undef KVGATE_UNROLL
// Small loops over arrays of vectors must be unrolled, or the arrays stay in memory. With a
// sanitizer they are not, because its checks of straight-line code take minutes to compile.
#ifdef KVGATE_SANITIZED
#define KVGATE_UNROLL _Pragma("GCC unroll 1")
#else
#define KVGATE_UNROLL _Pragma("GCC unroll 32")
#endif

#undef KVGATE_IN_REGISTER
// Forces a vector into a register at this point. Otherwise g++ 12 moves the loads of an unrolled
// loop to its start and spills the accumulators (measured: half the speed of the int16 products).
#if HWY_ARCH_X86 && HWY_TARGET < HWY_SSE4
#define KVGATE_IN_REGISTER(vector) asm volatile("" : "+v"((vector).raw))
#else
#define KVGATE_IN_REGISTER(vector) \
  do {                             \
  } while (false)
#endif

#undef KVGATE_NATIVE_F16
// Half-precision conversions in hardware. Other targets use the code below, because Highway's
// emulation does not handle infinities.
#if HWY_ARCH_X86 && HWY_TARGET < HWY_SSE4 && !defined(HWY_DISABLE_F16C)
#define KVGATE_NATIVE_F16 1
#else
#define KVGATE_NATIVE_F16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace kvgate::kernels::cpu::machine {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI32 = hn::RebindToSigned<DF>;
using DU32 = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
using VI32 = hn::Vec<DI32>;
constexpr size_t kLanes = hn::MaxLanes(DF());
static_assert(kLanes <= 16 && (kLanes & (kLanes - 1)) == 0);

// Sums across lanes use vectors of at most 8 lanes, the order of AVX2, so that all targets with
// fused products give the same bits.
using DSum = hn::CappedTag<float, 8>;

// Adds the lanes of `sums` to `total`, one DSum vector after the other.
HWY_INLINE hn::Vec<DSum> AddToSum(hn::Vec<DSum> total, VF sums) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const hn::Half<DF> dh;
  total = hn::Add(total, hn::LowerHalf(dh, sums));
  return hn::Add(total, hn::UpperHalf(dh, sums));
#else
  return hn::Add(total, sums);
#endif
}

// Storage types of a weight or KV element; distinct from each other, unlike uint16_t.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
struct F8E4M3 {
  uint8_t bits;
};

// Load kLanes stored values as f32. Alignment is that of the element.
HWY_INLINE VF LoadAsF32(const float* from) { return hn::LoadU(DF(), from); }

HWY_INLINE VF LoadAsF32(const BF16* from) {
  const hn::Rebind<uint16_t, DF> du16;
  const auto bits = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(DU32(), bits)));
}

using DU16 = hn::Rebind<uint16_t, DF>;

// Converts f16 bits to f32.
HWY_INLINE VF HalvesAsF32(hn::Vec<DU16> halves) {
#if KVGATE_NATIVE_F16
  return hn::PromoteTo(DF(), hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), halves));
#else
  // Shifting exponent and mantissa leaves the bias off by 112, which one exact product corrects,
  // for subnormals too. The all-ones exponent is set separately, because it must stay all ones.
  const DF df;
  const DU32 du;
  const auto bits = hn::PromoteTo(du, halves);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffu));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const VF scaled = hn::Mul(hn::BitCast(df, hn::ShiftLeft<13>(magnitude)),
                            hn::Set(df, 5.192296858534828e33f));  // 2^112
  const auto special = hn::Gt(hn::BitCast(DI32(), magnitude), hn::Set(DI32(), 0x7bff));
  const auto ones = hn::IfThenElseZero(hn::RebindMask(du, special), hn::Set(du, 0x7f800000u));
  return hn::BitCast(df, hn::Or(hn::Or(hn::BitCast(du, scaled), ones), sign));
#endif
}

HWY_INLINE VF LoadAsF32(const F16* from) {
  return HalvesAsF32(hn::LoadU(DU16(), reinterpret_cast<const uint16_t*>(from)));
}

// E4M3 values / 256 as f16 bits: the fields are shifted to their f16 places, where the bias is 8
// more.
template <class D16>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D16>> LoadAsSmallF16(D16 d16, const F8E4M3* from) {
  const hn::RebindToUnsigned<D16> du16;
  const hn::Rebind<int8_t, D16> d8;
  const auto bytes = hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(from)));
  // The shift copies the sign to bits 14 and 15; bit 14 belongs to the exponent and is cleared.
  const auto fields =
      hn::And(hn::BitCast(du16, hn::ShiftLeft<7>(bytes)), hn::Set(du16, uint16_t{0xbfff}));
  const auto nan = hn::Set(du16, uint16_t{0x3f80});
  const auto is_nan = hn::Eq(hn::And(fields, nan), nan);
  return hn::Or(fields, hn::VecFromMask(du16, is_nan));
}

HWY_INLINE VF LoadAsF32(const F8E4M3* from) {
  const auto halves = LoadAsSmallF16(hn::RebindToSigned<DU16>(), from);
  return hn::Mul(HalvesAsF32(halves), hn::Set(DF(), 256.0f));
}

// Loads 2 * kLanes stored values as f32.
template <typename T>
HWY_INLINE void LoadPairAsF32(const T* from, VF* low, VF* high) {
  *low = LoadAsF32(from);
  *high = LoadAsF32(from + kLanes);
}

// Does most of the work on whole vectors of 16-bit values.
HWY_INLINE void LoadPairAsF32(const F8E4M3* from, VF* low, VF* high) {
  const hn::Repartition<int16_t, DF> d16;
  const auto halves = LoadAsSmallF16(d16, from);
  const VF factor = hn::Set(DF(), 256.0f);
  *low = hn::Mul(HalvesAsF32(hn::LowerHalf(DU16(), halves)), factor);
  *high = hn::Mul(HalvesAsF32(hn::UpperHalf(DU16(), halves)), factor);
}

// Computes e^x to about 2 ulp; 0 below -87.6 (where 2^n would be subnormal), e^88 above 88; NaN
// stays NaN. It splits x = n ln2 + r with |r| <= ln2 / 2 (Cody & Waite 1980); e^r is its Taylor
// polynomial of degree 7, whose error in that range is below 1e-8.
HWY_INLINE VF Exp(VF x) {
  const DF df;
  constexpr float kLowest = -87.6f;
  // x86 min and max return the second operand when one is NaN.
  const VF clamped = hn::Max(hn::Set(df, kLowest), hn::Min(hn::Set(df, 88.0f), x));
  const auto n = hn::NearestInt(hn::Mul(clamped, hn::Set(df, 1.44269504088896341f)));
  const VF nf = hn::ConvertTo(df, n);
  VF r = hn::NegMulAdd(nf, hn::Set(df, 0.693359375f), clamped);
  r = hn::NegMulAdd(nf, hn::Set(df, -2.12194440e-4f), r);
  VF p = hn::Set(df, 1.0f / 5040);
  p = hn::MulAdd(p, r, hn::Set(df, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(df, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(df, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(df, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(df, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(df, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(df, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::Add(n, hn::Set(DI32(), 127)));
  const VF result = hn::Mul(p, hn::BitCast(df, power));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(df, kLowest)), result);
}

// Computes tanh to about 2 ulp; NaN stays NaN. Near zero, where 1 - 2 / (e^2x + 1) cancels, it uses
// the odd polynomial of Cephes' tanhf (Moshier).
HWY_INLINE VF Tanh(VF x) {
  const DF df;
  const VF magnitude = hn::Abs(x);
  const VF one = hn::Set(df, 1.0f);
  const VF power = Exp(hn::Add(magnitude, magnitude));
  const VF large = hn::Sub(one, hn::Div(hn::Set(df, 2.0f), hn::Add(power, one)));
  const VF z = hn::Mul(x, x);
  VF p = hn::Set(df, -5.70498872745e-3f);
  p = hn::MulAdd(p, z, hn::Set(df, 2.06390887954e-2f));
  p = hn::MulAdd(p, z, hn::Set(df, -5.37397155531e-2f));
  p = hn::MulAdd(p, z, hn::Set(df, 1.33314422036e-1f));
  p = hn::MulAdd(p, z, hn::Set(df, -3.33332819422e-1f));
  const VF small = hn::MulAdd(hn::Mul(p, z), x, x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(df, 0.625f)), small, hn::CopySign(large, x));
}

HWY_INLINE VF SoftCap(float cap, VF x) {
  const VF caps = hn::Set(DF(), cap);
  return hn::Mul(caps, Tanh(hn::Div(x, caps)));
}

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu::machine
HWY_AFTER_NAMESPACE();

#endif  // include guard
