#include "kernels/cpu/row_kernels.h"

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_kernels.cc"
#include <hwy/foreach_target.h>
// These must follow foreach_target.
#include <algorithm>
#include <cmath>

#include <hwy/highway.h>

#include "kernels/cpu/machine/simd-inl.h"
#include "kernels/cpu/machine/simd_target.h"
#include "kernels/weight_format.h"

HWY_BEFORE_NAMESPACE();
namespace kvgate::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = machine::HWY_NAMESPACE;

using simd::DF;
using simd::kLanes;
using simd::VF;

constexpr int64_t kStep = static_cast<int64_t>(kLanes);

// ---- norm -----------------------------------------------------------------------------------

// Adds with four vector accumulators over groups of four vectors, then single vectors, then single
// values. It uses DSum vectors, so that AVX-512 adds in the order of AVX2.
float SumOfSquares(const float* x, int64_t columns) {
  const simd::DSum df;
  constexpr auto kSumStep = static_cast<int64_t>(hn::MaxLanes(df));
  using V = hn::Vec<simd::DSum>;
  V sums[4];
  KVGATE_UNROLL
  for (int j = 0; j < 4; ++j) sums[j] = hn::Zero(df);
  int64_t i = 0;
  for (; i + 4 * kSumStep <= columns; i += 4 * kSumStep) {
    KVGATE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const V v = hn::LoadU(df, x + i + j * kSumStep);
      sums[j] = hn::MulAdd(v, v, sums[j]);
    }
  }
  for (; i + kSumStep <= columns; i += kSumStep) {
    const V v = hn::LoadU(df, x + i);
    sums[0] = hn::MulAdd(v, v, sums[0]);
  }
  const V total = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  float sum = hn::GetLane(hn::SumOfLanes(df, total));
  for (; i < columns; ++i) sum += x[i] * x[i];
  return sum;
}

void RmsNorm(const float* x, const NormArgs& norm, int64_t columns, float* y) {
  const float* const weight = norm.weight;
  const DF df;
  const float mean = SumOfSquares(x, columns) / static_cast<float>(columns);
  const float scale = 1.0f / std::sqrt(mean + norm.eps);
  const VF scales = hn::Set(df, scale);
  int64_t i = 0;
  for (; i + kStep <= columns; i += kStep) {
    const VF scaled = hn::Mul(hn::LoadU(df, x + i), scales);
    hn::StoreU(hn::Mul(scaled, hn::LoadU(df, weight + i)), df, y + i);
  }
  for (; i < columns; ++i) y[i] = x[i] * scale * weight[i];
}

// Adds term(x) in the order of SumOfSquares. `term` takes vectors of DSum.
template <typename Term>
HWY_INLINE float SumOfTerms(const float* x, int64_t columns, const Term& term) {
  const simd::DSum df;
  constexpr auto kSumStep = static_cast<int64_t>(hn::MaxLanes(df));
  using V = hn::Vec<simd::DSum>;
  V sums[4];
  KVGATE_UNROLL
  for (int j = 0; j < 4; ++j) sums[j] = hn::Zero(df);
  int64_t i = 0;
  for (; i + 4 * kSumStep <= columns; i += 4 * kSumStep) {
    KVGATE_UNROLL
    for (int j = 0; j < 4; ++j) {
      sums[j] = hn::Add(sums[j], term(hn::LoadU(df, x + i + j * kSumStep)));
    }
  }
  for (; i + kSumStep <= columns; i += kSumStep) {
    sums[0] = hn::Add(sums[0], term(hn::LoadU(df, x + i)));
  }
  const V total = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  float sum = hn::GetLane(hn::SumOfLanes(df, total));
  for (; i < columns; ++i) sum += hn::GetLane(term(hn::Set(df, x[i])));
  return sum;
}

// The variance is summed in a second pass over the differences, which does not cancel.
void LayerNorm(const float* x, const NormArgs& norm, int64_t columns, float* y) {
  using V = hn::Vec<simd::DSum>;
  const auto count = static_cast<float>(columns);
  const float mean = SumOfTerms(x, columns, [](V v) { return v; }) / count;
  const V sum_means = hn::Set(simd::DSum(), mean);
  const float squares = SumOfTerms(x, columns, [sum_means](V v) {
    const V difference = hn::Sub(v, sum_means);
    return hn::Mul(difference, difference);
  });
  const float scale = 1.0f / std::sqrt(squares / count + norm.eps);
  const DF df;
  const VF means = hn::Set(df, mean);
  const VF scales = hn::Set(df, scale);
  int64_t i = 0;
  for (; i + kStep <= columns; i += kStep) {
    const VF scaled = hn::Mul(hn::Sub(hn::LoadU(df, x + i), means), scales);
    const VF weighted = hn::Mul(scaled, hn::LoadU(df, norm.weight + i));
    hn::StoreU(hn::Add(weighted, hn::LoadU(df, norm.bias + i)), df, y + i);
  }
  for (; i < columns; ++i) y[i] = (x[i] - mean) * scale * norm.weight[i] + norm.bias[i];
}

void Norm(const float* x, const NormArgs& norm, int64_t columns, float* y) {
  if (norm.kind == NormKind::kLayer) return LayerNorm(x, norm, columns, y);
  RmsNorm(x, norm, columns, y);
}

// ---- rope -----------------------------------------------------------------------------------

// Products and their sum are rounded separately, so that vector and scalar code agree.
void RotateHalves(float* x, int half, const float* table) {
  const DF df;
  float* upper = x + half;
  int i = 0;
  for (; i + static_cast<int>(kLanes) <= half; i += kLanes) {
    VF cosine, sine;
    hn::LoadInterleaved2(df, table + 2 * i, cosine, sine);
    const VF a = hn::LoadU(df, x + i);
    const VF b = hn::LoadU(df, upper + i);
    hn::StoreU(hn::Sub(hn::Mul(a, cosine), hn::Mul(b, sine)), df, x + i);
    hn::StoreU(hn::Add(hn::Mul(a, sine), hn::Mul(b, cosine)), df, upper + i);
  }
  for (; i < half; ++i) {
    const float cosine = table[2 * i];
    const float sine = table[2 * i + 1];
    const float a = x[i];
    const float b = upper[i];
    x[i] = a * cosine - b * sine;
    upper[i] = a * sine + b * cosine;
  }
}

void RotatePairs(float* x, int half, const float* table) {
  const DF df;
  int i = 0;
  for (; i + static_cast<int>(kLanes) <= half; i += kLanes) {
    VF cosine, sine, a, b;
    hn::LoadInterleaved2(df, table + 2 * i, cosine, sine);
    hn::LoadInterleaved2(df, x + 2 * i, a, b);
    hn::StoreInterleaved2(hn::Sub(hn::Mul(a, cosine), hn::Mul(b, sine)),
                          hn::Add(hn::Mul(a, sine), hn::Mul(b, cosine)), df, x + 2 * i);
  }
  for (; i < half; ++i) {
    const float cosine = table[2 * i];
    const float sine = table[2 * i + 1];
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = a * cosine - b * sine;
    x[2 * i + 1] = a * sine + b * cosine;
  }
}

void Rope(float* x, const Backend::RopeArgs& args, const float* table) {
  const int half = args.rotary_dim / 2;
  for (int head = 0; head < args.num_heads; ++head, x += args.head_dim) {
    if (args.kind == RopeKind::kHalves) {
      RotateHalves(x, half, table);
    } else {
      RotatePairs(x, half, table);
    }
  }
}

// ---- elementwise ----------------------------------------------------------------------------

// Computed from exp(-|x|), which is in [0, 1], so that a huge negative x gives 0, not 1 / infinity.
HWY_INLINE VF Sigmoid(VF x) {
  const DF df;
  const VF one = hn::Set(df, 1.0f);
  const VF decay = simd::Exp(hn::Neg(hn::Abs(x)));
  const VF numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(df)), decay, one);
  return hn::Div(numerator, hn::Add(one, decay));
}

// Abramowitz & Stegun 7.1.26: erfc(z) = (a1 t + ... + a5 t^5) e^(-z^2) with t = 1 / (1 + p z), for
// z >= 0, to 1.5e-7. Both halves of the distribution come from the tail, which does not cancel.
HWY_INLINE VF Gelu(VF x) {
  const DF df;
  const VF z = hn::Mul(hn::Abs(x), hn::Set(df, 0.70710678118654752f));
  const VF one = hn::Set(df, 1.0f);
  const VF t = hn::Div(one, hn::MulAdd(z, hn::Set(df, 0.3275911f), one));
  VF p = hn::Set(df, 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(df, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(df, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(df, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(df, 0.254829592f));
  const VF decay = simd::Exp(hn::Neg(hn::Mul(z, z)));
  const VF tail = hn::Mul(hn::Mul(hn::Mul(p, t), decay), hn::Set(df, 0.5f));
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(df)), tail, hn::Sub(one, tail)));
}

// The gate is multiplied with its sigmoid first, so that a vanishing gate gives 0 even for a huge
// up.
template <GluKind kKind>
HWY_INLINE VF GluOf(VF gate, VF up) {
  const DF df;
  if constexpr (kKind == GluKind::kSilu) {
    return hn::Mul(hn::Mul(gate, Sigmoid(gate)), up);
  } else if constexpr (kKind == GluKind::kGeluTanh) {
    // (1 + tanh(u)) / 2 is sigmoid(2u).
    constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
    const VF square = hn::Mul(gate, gate);
    const VF bend = hn::MulAdd(square, hn::Set(df, 0.044715f), hn::Set(df, 1.0f));
    const VF u2 = hn::Mul(hn::Mul(gate, hn::Set(df, kTwoRootTwoOverPi)), bend);
    return hn::Mul(hn::Mul(gate, Sigmoid(u2)), up);
  } else if constexpr (kKind == GluKind::kGelu) {
    return hn::Mul(Gelu(gate), up);
  } else {
    // The value is the second operand: x86 min and max return the second one if one is NaN.
    const VF limit = hn::Set(df, 7.0f);
    const VF g = hn::Min(limit, gate);
    const VF u = hn::Max(hn::Set(df, -7.0f), hn::Min(limit, up));
    const VF swish = hn::Mul(g, Sigmoid(hn::Mul(g, hn::Set(df, 1.702f))));
    return hn::Mul(swish, hn::Add(u, hn::Set(df, 1.0f)));
  }
}

template <GluKind kKind>
void GluRun(const float* gate, const float* up, size_t count, float* out) {
  const DF df;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(GluOf<kKind>(hn::LoadU(df, gate + i), hn::LoadU(df, up + i)), df, out + i);
  }
  if (i < count) {
    HWY_ALIGN float gates[kLanes] = {};
    HWY_ALIGN float ups[kLanes] = {};
    std::copy(gate + i, gate + count, gates);
    std::copy(up + i, up + count, ups);
    hn::Store(GluOf<kKind>(hn::Load(df, gates), hn::Load(df, ups)), df, gates);
    std::copy(gates, gates + (count - i), out + i);
  }
}

void GeluRun(const float* x, size_t count, float* out) {
  const DF df;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(Gelu(hn::LoadU(df, x + i)), df, out + i);
  if (i < count) {
    HWY_ALIGN float values[kLanes] = {};
    std::copy(x + i, x + count, values);
    hn::Store(Gelu(hn::Load(df, values)), df, values);
    std::copy(values, values + (count - i), out + i);
  }
}

void Glu(GluKind kind, const float* gate, const float* up, size_t count, float* out) {
  if (up == nullptr) return GeluRun(gate, count, out);
  switch (kind) {
    case GluKind::kSilu:
      return GluRun<GluKind::kSilu>(gate, up, count, out);
    case GluKind::kGeluTanh:
      return GluRun<GluKind::kGeluTanh>(gate, up, count, out);
    case GluKind::kGelu:
      return GluRun<GluKind::kGelu>(gate, up, count, out);
    case GluKind::kClampedSilu:
      return GluRun<GluKind::kClampedSilu>(gate, up, count, out);
  }
}

// Product and sum are rounded separately, so that vector and scalar code agree.
void AddScaled(const float* x, float factor, size_t count, float* y) {
  const DF df;
  const VF factors = hn::Set(df, factor);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VF product = hn::Mul(hn::LoadU(df, x + i), factors);
    hn::StoreU(hn::Add(hn::LoadU(df, y + i), product), df, y + i);
  }
  for (; i < count; ++i) y[i] += x[i] * factor;
}

void Scale(float factor, size_t count, float* x) {
  const DF df;
  const VF factors = hn::Set(df, factor);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(df, x + i), factors), df, x + i);
  }
  for (; i < count; ++i) x[i] *= factor;
}

void SoftCapRun(float cap, size_t count, float* x) {
  const DF df;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(simd::SoftCap(cap, hn::LoadU(df, x + i)), df, x + i);
  }
  if (i < count) {
    HWY_ALIGN float values[kLanes] = {};
    std::copy(x + i, x + count, values);
    hn::Store(simd::SoftCap(cap, hn::Load(df, values)), df, values);
    std::copy(values, values + (count - i), x + i);
  }
}

// ---- conversions ----------------------------------------------------------------------------

template <typename T>
void WidenValues(const std::byte* from, int64_t count, float* to) {
  T stored[kLanes] = {};
  HWY_ALIGN float values[kLanes];
  for (int64_t i = 0; i < count; i += kStep) {
    const size_t here = static_cast<size_t>(std::min(kStep, count - i));
    std::memcpy(stored, from + i * sizeof(T), here * sizeof(T));
    hn::Store(simd::LoadAsF32(stored), DF(), values);
    std::memcpy(to + i, values, here * sizeof(float));
  }
}

void WidenQuants(const std::byte* from, int64_t count, float* to) {
  const DF df;
  const hn::Rebind<int8_t, DF> d8;
  for (int64_t i = 0; i < count; i += QuantBlockQ8_0::kElements) {
    QuantBlockQ8_0 block;
    std::memcpy(&block, from, sizeof(block));
    from += sizeof(block);
    const VF scale = hn::Set(df, F16ToF32(block.scale));
    for (size_t j = 0; j < QuantBlockQ8_0::kElements; j += kLanes) {
      const simd::VI32 quants = hn::PromoteTo(simd::DI32(), hn::LoadU(d8, block.quants + j));
      hn::StoreU(hn::Mul(scale, hn::ConvertTo(df, quants)), df, to + i + j);
    }
  }
}

void Widen(DType dtype, const std::byte* from, int64_t count, float* to) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::kF16:
      return WidenValues<simd::F16>(from, count, to);
    case DType::kBF16:
      return WidenValues<simd::BF16>(from, count, to);
    case DType::kQ8_0:
      return WidenQuants(from, count, to);
    default:
      return DequantizeValues(dtype, from, count, to);
  }
}

void NarrowToF16(const float* from, int64_t count, uint16_t* to) {
  int64_t i = 0;
#if KVGATE_NATIVE_F16
  const hn::Rebind<hwy::float16_t, DF> df16;
  for (; i + kStep <= count; i += kStep) {
    hn::StoreU(hn::DemoteTo(df16, hn::LoadU(DF(), from + i)), df16,
               reinterpret_cast<hwy::float16_t*>(to + i));
  }
#endif
  for (; i < count; ++i) to[i] = F32ToF16(from[i]);
}

void NarrowToBF16(const float* from, int64_t count, uint16_t* to) {
  const simd::DU32 du;
  const simd::DI32 di;
  const hn::Rebind<uint16_t, DF> du16;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto bits = hn::BitCast(du, hn::LoadU(DF(), from + i));
    const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), even);
    const auto magnitude = hn::BitCast(di, hn::And(bits, hn::Set(du, 0x7fffffff)));
    const auto nan = hn::RebindMask(du, hn::Gt(magnitude, hn::Set(di, 0x7f800000)));
    const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
    const auto high = hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded));
    hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, high)), du16, to + i);
  }
  for (; i < count; ++i) to[i] = F32ToBF16(from[i]);
}

void Narrow16(DType dtype, const float* from, int64_t count, uint16_t* to) {
  KVGATE_DCHECK(dtype == DType::kF16 || dtype == DType::kBF16, "a 16-bit dtype");
  if (dtype == DType::kF16) return NarrowToF16(from, count, to);
  NarrowToBF16(from, count, to);
}

// As F32ToF8E4M3 of kernels/dtype.h.
void NarrowToF8(const float* from, int64_t count, uint8_t* to) {
  const DF df;
  const simd::DI32 di;
  const hn::Rebind<uint8_t, DF> du8;
  const VF shift = hn::Set(df, 16384.0f);
  const auto smallest_normal = hn::Set(di, 0x3c800000);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto bits = hn::BitCast(di, hn::LoadU(df, from + i));
    const auto sign =
        hn::BitCast(di, hn::ShiftRight<24>(hn::And(hn::BitCast(simd::DU32(), bits),
                                                   hn::Set(simd::DU32(), 0x80000000))));
    const auto whole = hn::And(bits, hn::Set(di, 0x7fffffff));
    const auto magnitude = hn::Min(whole, hn::Set(di, 0x43e00000));
    const auto even = hn::And(hn::ShiftRight<20>(magnitude), hn::Set(di, 1));
    const auto rounded = hn::Add(hn::Add(magnitude, even), hn::Set(di, 0x7ffff - (120 << 23)));
    const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(df, magnitude), shift)),
                                   hn::BitCast(di, shift));
    auto code =
        hn::IfThenElse(hn::Lt(magnitude, smallest_normal), subnormal, hn::ShiftRight<20>(rounded));
    code = hn::IfThenElse(hn::Gt(whole, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7f), code);
    hn::StoreU(hn::DemoteTo(du8, hn::Or(code, sign)), du8, to + i);
  }
  for (; i < count; ++i) to[i] = F32ToF8E4M3(from[i]);
}

RowKernels MakeRowKernels() {
  return {.norm = Norm,
          .rope = Rope,
          .glu = Glu,
          .add_scaled = AddScaled,
          .scale = Scale,
          .soft_cap = SoftCapRun,
          .widen = Widen,
          .narrow16 = Narrow16,
          .narrow8 = NarrowToF8};
}

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvgate::kernels::cpu {

HWY_EXPORT(MakeRowKernels);

RowKernels RowKernelsFor(int64_t target) {
  const machine::ScopedTarget scoped(target);
  return HWY_DYNAMIC_DISPATCH(MakeRowKernels)();
}

}  // namespace kvgate::kernels::cpu
#endif  // HWY_ONCE
