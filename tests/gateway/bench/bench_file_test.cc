#include "gateway/bench/bench_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/base/temp_folder.h"

namespace kvgate::bench {
namespace {

namespace fs = std::filesystem;

const model::MakeModelOptions kShape = {
    .num_layers = 1, .hidden_dim = 64, .ffn_dim = 64, .vocab_size = 300, .name = ""};

TEST(BenchFileTest, WithoutACacheTheFileGoesWithItsOwner) {
  fs::path path;
  {
    const auto file = BenchFile::Make(kShape, {});
    ASSERT_TRUE(file.has_value()) << file.error().ToString();
    path = (*file)->path();
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(BenchFileTest, ACachedFileIsMadeOnce) {
  const TempFolder temp;
  const fs::path folder = temp / "made";
  fs::path path;
  {
    const auto file = BenchFile::Make(kShape, folder);
    ASSERT_TRUE(file.has_value()) << file.error().ToString();
    path = (*file)->path();
  }
  ASSERT_TRUE(fs::exists(path));
  const auto written_at = fs::last_write_time(path);
  const auto again = BenchFile::Make(kShape, folder);
  ASSERT_TRUE(again.has_value()) << again.error().ToString();
  EXPECT_EQ((*again)->path(), path);
  EXPECT_EQ(fs::last_write_time(path), written_at);
}

}  // namespace
}  // namespace kvgate::bench
