#include "gateway/bench/gpu/run.h"

#include <gtest/gtest.h>

namespace kvgate::bench::gpu {
namespace {

RunOptions Tiny() {
  return {.shape = "tiny",
          .is_cuda = false,
          .is_quick = true,
          .is_json = true,
          .cpu_threads = 1,
          .progress = nullptr};
}

TEST(RunTest, LimitsAreMeasuredAndTheDirectoryIsGoneAtTheEnd) {
  auto run = Run::Open(Tiny());
  ASSERT_TRUE(run.has_value()) << run.error().ToString();
  EXPECT_GT((*run)->limits().read_bytes_per_second, 0);
  EXPECT_GT((*run)->limits().host_to_device_bytes_per_second, 0);
  EXPECT_GT((*run)->limits().operations_per_second, 0);
  const std::filesystem::path directory = (*run)->directory();
  EXPECT_TRUE(std::filesystem::is_directory(directory));
  run->reset();
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(RunTest, BoundsAreAskedOfTheRealShapeOnADeviceAlone) {
  const auto run = Run::Open(Tiny());
  ASSERT_TRUE(run.has_value()) << run.error().ToString();
  EXPECT_EQ((*run)->Asked({.kind = BoundKind::kMin, .value = 1}).kind, BoundKind::kNone);
}

TEST(RunTest, EachEngineHasANewDiskTierUnlessOneIsNamed) {
  const auto run = Run::Open(Tiny());
  ASSERT_TRUE(run.has_value()) << run.error().ToString();
  const auto file = (*run)->MakeFile("q8_0");
  ASSERT_TRUE(file.has_value()) << file.error().ToString();
  const std::vector<TokenId> prompt = RandomTokens(96, 1024, 1);
  const auto cached = [&](const std::filesystem::path& directory) {
    const auto opened = (*run)->OpenEngine(
        *file,
        {.disk_bytes = uint64_t{64} << 20, .disk_directory = directory, .context_tokens = 256});
    EXPECT_TRUE(opened.has_value()) << opened.error().ToString();
    const auto answer = AskOne(*opened->engine, {.prompt = prompt, .num_stable_tokens = 96});
    EXPECT_TRUE(answer.has_value()) << answer.error().ToString();
    EXPECT_TRUE(opened->engine->Drain(std::chrono::seconds(60)));
    EXPECT_GT(opened->directory->kv().Stats().num_records, 0u);
    return opened->directory->kv().Stats().num_writes;
  };
  EXPECT_GT(cached({}), 0u);
  EXPECT_GT(cached({}), 0u);
  const std::filesystem::path named = (*run)->directory() / "named";
  EXPECT_GT(cached(named), 0u);
  EXPECT_EQ(cached(named), 0u);  // everything was on disk
}

TEST(RunTest, AnUnknownDTypeIsNamed) {
  const auto run = Run::Open(Tiny());
  ASSERT_TRUE(run.has_value()) << run.error().ToString();
  EXPECT_EQ((*run)->MakeFile("f12").error().field, "dtype");
}

}  // namespace
}  // namespace kvgate::bench::gpu
