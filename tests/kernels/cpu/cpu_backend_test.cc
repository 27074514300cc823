#include "kernels/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace kvgate::kernels::cpu {
namespace {

TEST(CpuBackendTest, EachTargetSaysItsNameAndTheNumericsItHas) {
  const std::vector<std::string> targets = SupportedCpuTargets();
  ASSERT_FALSE(targets.empty());
  std::set<std::string> ids;
  size_t num_fused = 0;
  for (const std::string& target : targets) {
    auto backend = MakeCpuBackend({.num_threads = 1, .target = target});
    ASSERT_TRUE(backend.has_value());
    EXPECT_EQ((*backend)->Info().target, target);
    // Stored KV moves between machines with equal numerics ids, whose bits the conformance suites
    // compare.
    const bool is_fused = target == "AVX2" || target.starts_with("AVX512") || target == "AMX";
    const std::string numerics = is_fused ? "AVX2" : target;
    EXPECT_THAT((*backend)->Info().numerics_id, testing::StartsWith("cpu-" + numerics + "-"));
    EXPECT_THAT((*backend)->Info().numerics_id, testing::HasSubstr("q8_0:i16"));
    EXPECT_TRUE((*backend)->Info().invariant);
    ids.insert((*backend)->Info().numerics_id);
    num_fused += is_fused ? 1 : 0;
  }
  EXPECT_EQ(ids.size(), targets.size() - (num_fused > 0 ? num_fused - 1 : 0));
}

TEST(CpuBackendTest, TheDefaultIsTheBestTargetOnAllHardwareThreads) {
  auto backend = MakeCpuBackend({});
  ASSERT_TRUE(backend.has_value());
  EXPECT_EQ((*backend)->Info().target, SupportedCpuTargets().front());
  EXPECT_GE((*backend)->Info().num_threads, 1);
}

TEST(CpuBackendTest, AnUnknownTargetIsRefusedWithTheKnownOnes) {
  auto backend = MakeCpuBackend({.num_threads = 1, .target = "ABACUS"});
  ASSERT_FALSE(backend.has_value());
  EXPECT_EQ(backend.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(backend.error().detail, testing::HasSubstr(SupportedCpuTargets().front()));
}

TEST(CpuBackendTest, ThreadCountsOutOfRangeAreRefused) {
  for (const int num_threads : {-1, 100000}) {
    auto backend = MakeCpuBackend({.num_threads = num_threads, .target = ""});
    ASSERT_FALSE(backend.has_value());
    EXPECT_EQ(backend.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(CpuBackendTest, AnArenaThatDoesNotFitIsRefusedNotKilled) {
  auto backend = MakeCpuBackend({.num_threads = 2, .target = ""});
  ASSERT_TRUE(backend.has_value());
  const KvShape shape{.num_layers = 80, .num_kv_heads = 8, .head_dim = 128, .dtype = DType::kF16};
  auto arena = (*backend)->AllocateKv(shape, 1'000'000);  // 10 TB
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code, ErrorCode::kOverloaded);
}

#if KVGATE_DEBUG
TEST(CpuBackendTest, FreshKvBlocksAreNanInDebugBuilds) {
  auto backend = MakeCpuBackend({.num_threads = 2, .target = ""});
  ASSERT_TRUE(backend.has_value());
  const KvShape shape{.num_layers = 2, .num_kv_heads = 2, .head_dim = 16, .dtype = DType::kF32};
  auto arena = (*backend)->AllocateKv(shape, 3);
  ASSERT_TRUE(arena.has_value());
  for (uint32_t id = 0; id < 3; ++id) {
    const auto* values = reinterpret_cast<const float*>((*arena)->block(BlockId{id}));
    for (size_t i = 0; i < shape.block_bytes() / sizeof(float); ++i) {
      ASSERT_TRUE(std::isnan(values[i]));
    }
  }
}
#endif

}  // namespace
}  // namespace kvgate::kernels::cpu
