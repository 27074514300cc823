#include "kernels/cpu/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/peak.cc"
#include <hwy/foreach_target.h>
// These must follow foreach_target.
#include <algorithm>
#include <chrono>
#include <cstring>

#include <hwy/highway.h>

#include "kernels/cpu/machine/amx.h"
#include "kernels/cpu/machine/host_memory.h"
#include "kernels/cpu/machine/simd-inl.h"
#include "kernels/cpu/machine/simd_target.h"
#include "kernels/cpu/machine/thread_pool.h"
#include "kernels/cpu/matmul/matmul_amx.h"

#ifndef KVGATE_KERNELS_CPU_PEAK_TABLE_
#define KVGATE_KERNELS_CPU_PEAK_TABLE_
namespace kvgate::kernels::cpu {

struct PeakKernels {
  // Reads every byte once. The result keeps the compiler from removing the reads.
  uint32_t (*read)(const std::byte* data, size_t bytes);
  // Runs `rounds` rounds and returns the number of operations. *sink keeps the compiler from
  // removing them.
  double (*multiply_add)(int64_t rounds, float* sink);
};

}  // namespace kvgate::kernels::cpu
#endif  // KVGATE_KERNELS_CPU_PEAK_TABLE_

HWY_BEFORE_NAMESPACE();
namespace kvgate::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = machine::HWY_NAMESPACE;

uint32_t ReadAll(const std::byte* data, size_t bytes) {
  const simd::DU32 du;
  constexpr size_t kVectorsAtOnce = 8;
  const auto* words = reinterpret_cast<const uint32_t*>(data);
  hn::Vec<simd::DU32> seen[kVectorsAtOnce];
  KVGATE_UNROLL
  for (size_t v = 0; v < kVectorsAtOnce; ++v) seen[v] = hn::Zero(du);
  for (size_t i = 0; i < bytes / sizeof(uint32_t); i += kVectorsAtOnce * simd::kLanes) {
    KVGATE_UNROLL
    for (size_t v = 0; v < kVectorsAtOnce; ++v) {
      seen[v] = hn::Or(seen[v], hn::Load(du, words + i + v * simd::kLanes));
    }
  }
  for (size_t v = 1; v < kVectorsAtOnce; ++v) seen[0] = hn::Or(seen[0], seen[v]);
  return hn::GetLane(seen[0]);
}

double MultiplyAdd(int64_t rounds, float* sink) {
  const simd::DF df;
  // This exceeds two issue ports times a latency of four cycles, so that no chain has to wait.
  constexpr int kChains = 12;
  simd::VF sums[kChains];
  KVGATE_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = hn::Set(df, *sink + static_cast<float>(i));
  const simd::VF factor = hn::Set(df, 0.999f + *sink);
  const simd::VF term = hn::Set(df, 0.001f + *sink);
  for (int64_t round = 0; round < rounds; ++round) {
    KVGATE_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = hn::MulAdd(sums[i], factor, term);
  }
  for (int i = 1; i < kChains; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  *sink = hn::GetLane(sums[0]);
  return static_cast<double>(rounds) * kChains * simd::kLanes * 2;
}

PeakKernels MakePeakKernels() { return {.read = ReadAll, .multiply_add = MultiplyAdd}; }

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvgate::kernels::cpu {
namespace {

HWY_EXPORT(MakePeakKernels);

PeakKernels BestPeakKernels() {
  const int64_t target = machine::SupportedTargets().front();
  const machine::ScopedTarget scoped(target);
  return HWY_DYNAMIC_DISPATCH(MakePeakKernels)();
}

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct alignas(64) ThreadResult {
  double count = 0;
  float sink = 0;
};

}  // namespace

double MeasureReadBandwidth(int num_threads) {
  constexpr size_t kBytes = size_t{512} << 20;
  constexpr int kPasses = 6;
  const PeakKernels kernels = BestPeakKernels();
  machine::ThreadPool pool(num_threads);
  auto memory = machine::HostMemory::Allocate(kBytes, "bandwidth measurement");
  if (!memory) return 0;
  // The pages are written first, because unwritten ones all map to one zero page, which would be
  // cached.
  const size_t share = kBytes / num_threads / 4096 * 4096;
  std::byte* data = memory->data();
  pool.Run([&](int thread) { std::memset(data + thread * share, 1, share); });
  double best = 0;
  std::vector<ThreadResult> results(num_threads);
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = Clock::now();
    pool.Run(
        [&](int thread) { results[thread].count += kernels.read(data + thread * share, share); });
    best = std::max(best, static_cast<double>(share) * num_threads / SecondsSince(begin));
  }
  return best;
}

double MeasureFmaPeak(int num_threads) {
  constexpr int kPasses = 12;
  constexpr int64_t kRounds = 1'000'000;  // a few milliseconds
  const PeakKernels kernels = BestPeakKernels();
  machine::ThreadPool pool(num_threads);
  std::vector<ThreadResult> results(num_threads);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = Clock::now();
    pool.Run([&](int thread) {
      results[thread].sink = 0;
      results[thread].count = kernels.multiply_add(kRounds, &results[thread].sink);
    });
    const double seconds = SecondsSince(begin);
    double count = 0;
    for (const ThreadResult& result : results) count += result.count;
    best = std::max(best, count / seconds);
  }
  return best;
}

double MeasureTilePeak(int num_threads) {
  if (!machine::HasAmx()) return 0;
  constexpr int kPasses = 12;
  constexpr int64_t kRounds = 200'000;  // a few milliseconds
  machine::ThreadPool pool(num_threads);
  std::vector<ThreadResult> results(num_threads);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = Clock::now();
    pool.Run([&](int thread) { results[thread].count = matmul::RunAmxTiles(kRounds); });
    const double seconds = SecondsSince(begin);
    double count = 0;
    for (const ThreadResult& result : results) count += result.count;
    best = std::max(best, count / seconds);
  }
  return best;
}

}  // namespace kvgate::kernels::cpu
#endif  // HWY_ONCE
