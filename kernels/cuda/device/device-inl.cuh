// Implements device.cuh on a device with PTX and the toolkit's intrinsics.
#pragma once

namespace kvgate::kernels::cuda::device {

KVGATE_DEVICE std::byte* SharedMemory() {
  extern __shared__ __align__(1024) unsigned char kvgate_shared_memory[];
  return reinterpret_cast<std::byte*>(kvgate_shared_memory);
}

KVGATE_DEVICE void SyncThreads() { __syncthreads(); }
KVGATE_DEVICE void SyncWarp() { __syncwarp(); }
KVGATE_DEVICE int LaneIndex() { return static_cast<int>(threadIdx.x % kWarpLanes); }
KVGATE_DEVICE int WarpIndex() { return static_cast<int>(threadIdx.x / kWarpLanes); }

KVGATE_DEVICE float ShuffleXor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
KVGATE_DEVICE uint32_t ShuffleXor(uint32_t value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
KVGATE_DEVICE float Shuffle(float value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
KVGATE_DEVICE uint32_t Shuffle(uint32_t value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
KVGATE_DEVICE uint32_t Ballot(bool value) { return __ballot_sync(0xffffffffu, value); }
KVGATE_DEVICE uint32_t WarpSum(uint32_t value) { return __reduce_add_sync(0xffffffffu, value); }
KVGATE_DEVICE void AtomicAdd(unsigned long long* to, unsigned long long value) {
  atomicAdd(to, value);
}
KVGATE_DEVICE uint32_t AtomicFetchAdd(uint32_t* to, uint32_t value) { return atomicAdd(to, value); }

KVGATE_DEVICE uint32_t BitsOf(__half2 value) { return *reinterpret_cast<uint32_t*>(&value); }
KVGATE_DEVICE __half2 Half2Of(uint32_t bits) { return *reinterpret_cast<__half2*>(&bits); }

KVGATE_DEVICE float HalfToFloat(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
KVGATE_DEVICE uint16_t FloatToHalf(float value) { return __half_as_ushort(__float2half_rn(value)); }
KVGATE_DEVICE uint32_t FloatsToHalf2(float low, float high) {
  return BitsOf(__floats2half2_rn(low, high));
}
KVGATE_DEVICE uint32_t HalfSub2(uint32_t a, uint32_t b) {
  return BitsOf(__hsub2(Half2Of(a), Half2Of(b)));
}
KVGATE_DEVICE uint32_t HalfMul2(uint32_t a, uint32_t b) {
  return BitsOf(__hmul2(Half2Of(a), Half2Of(b)));
}
KVGATE_DEVICE uint32_t HalfFma2(uint32_t a, uint32_t b, uint32_t c) {
  return BitsOf(__hfma2(Half2Of(a), Half2Of(b), Half2Of(c)));
}
KVGATE_DEVICE float Bf16ToFloat(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
KVGATE_DEVICE uint16_t FloatToBf16(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
KVGATE_DEVICE uint32_t FloatsToBf16x2(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t*>(&pair);
}

KVGATE_DEVICE float Fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
KVGATE_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
KVGATE_DEVICE float BitsToFloat(uint32_t bits) { return __uint_as_float(bits); }
KVGATE_DEVICE uint32_t FloatToBits(float value) { return __float_as_uint(value); }

KVGATE_DEVICE void MmaHalf(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
KVGATE_DEVICE void MmaBf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

KVGATE_DEVICE void LoadMatrices4(uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
KVGATE_DEVICE void LoadMatrices4Transposed(uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

KVGATE_DEVICE Vector16 LoadOnce(const void* from) {
  Vector16 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(from));
  return v;
}
KVGATE_DEVICE void CopyAsync16(void* to, const void* from, bool is_there) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = is_there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(from), "r"(bytes)
               : "memory");
}
KVGATE_DEVICE void CopyCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroupsLeft>
KVGATE_DEVICE void CopyWait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kGroupsLeft) : "memory");
}

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// PTX ISA 8.x, "Asynchronous warpgroup level matrix instructions": the descriptor of a matrix with
// rows of 128 bytes in the 128-byte swizzle; groups of 8 rows are 1024 bytes apart. A step of 16
// columns is 32 bytes of a row.
KVGATE_DEVICE uint64_t DescriptorOf(const void* b, int step) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(b)) + step * 32;
  return uint64_t{(address & 0x3ffffu) >> 4} | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 |
         uint64_t{1} << 62;
}

// Operand lists for d, because an asm statement must name each register.
#define KVGATE_IN_OUT_8(i)                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define KVGATE_IN_OUT_32(i) \
  KVGATE_IN_OUT_8(i), KVGATE_IN_OUT_8(i + 8), KVGATE_IN_OUT_8(i + 16), KVGATE_IN_OUT_8(i + 24)
#define KVGATE_IN_OUT_64 KVGATE_IN_OUT_32(0), KVGATE_IN_OUT_32(32)
#define KVGATE_IN_OUT_96 KVGATE_IN_OUT_64, KVGATE_IN_OUT_32(64)

template <>
KVGATE_DEVICE void WarpgroupMma<128>(float (&d)[64], const uint32_t (&a)[4], const void* b,
                                     int step, bool accumulates) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
      "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, {%64,%65,%66,%67}, %68, p, 1, 1, 0;}\n"
      : KVGATE_IN_OUT_64
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(DescriptorOf(b, step)),
        "r"(static_cast<int>(accumulates)));
}
template <>
KVGATE_DEVICE void WarpgroupMma<192>(float (&d)[96], const uint32_t (&a)[4], const void* b,
                                     int step, bool accumulates) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %101, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
      "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,"
      "%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,"
      "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
      "}, {%96,%97,%98,%99}, %100, p, 1, 1, 0;}\n"
      : KVGATE_IN_OUT_96
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(DescriptorOf(b, step)),
        "r"(static_cast<int>(accumulates)));
}

KVGATE_DEVICE void WarpgroupFence(uint32_t (&a)[2][4]) {
  asm volatile("wgmma.fence.sync.aligned;"
               : "+r"(a[0][0]), "+r"(a[0][1]), "+r"(a[0][2]), "+r"(a[0][3]), "+r"(a[1][0]),
                 "+r"(a[1][1]), "+r"(a[1][2]), "+r"(a[1][3])
               :
               : "memory");
}
KVGATE_DEVICE void WarpgroupCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kGroupsLeft>
KVGATE_DEVICE void WarpgroupWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kGroupsLeft) : "memory");
}
template <>
KVGATE_DEVICE void WarpgroupWaitAll<64>(float (&d)[64]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : KVGATE_IN_OUT_64 : : "memory");
}
template <>
KVGATE_DEVICE void WarpgroupWaitAll<96>(float (&d)[96]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : KVGATE_IN_OUT_96 : : "memory");
}
KVGATE_DEVICE void PublishShared() { asm volatile("fence.proxy.async;" ::: "memory"); }

#undef KVGATE_IN_OUT_96
#undef KVGATE_IN_OUT_64
#undef KVGATE_IN_OUT_32
#undef KVGATE_IN_OUT_8

#endif

}  // namespace kvgate::kernels::cuda::device
