#include "gateway/bench/gpu/tiers.h"

#include <gtest/gtest.h>

namespace kvgate::bench::gpu {
namespace {

TEST(TiersTest, AFigureSaysWhereItsTokensCameFrom) {
  engine::RequestStats stats;
  stats.num_prompt_tokens = 200;
  stats.num_host_tokens = 100;
  stats.num_disk_tokens = 50;
  stats.num_computed_tokens = 50;
  EXPECT_EQ(SourceText(stats), "host 50.0 %, disk 25.0 %, computed 25.0 %");
  EXPECT_EQ(SourceText({}), "");
}

// The figure is about which tier answers, so this runs the whole part on a tiny model.
TEST(TiersTest, EachPrefixComesFromTheTierThatTheFigureNames) {
  const auto run = Run::Open({.shape = "tiny",
                              .is_cuda = false,
                              .is_quick = true,
                              .is_json = true,
                              .cpu_threads = 1,
                              .progress = nullptr});
  ASSERT_TRUE(run.has_value()) << run.error().ToString();
  const auto file = (*run)->MakeFile("bf16");
  ASSERT_TRUE(file.has_value()) << file.error().ToString();
  const auto done = MeasureTiers(**run, *file, "bf16");
  ASSERT_TRUE(done.has_value()) << done.error().ToString();
  int num_hits = 0;
  for (const Figure& figure : (*run)->figures().figures()) {
    EXPECT_GT(figure.measured, 0) << figure.name;
    for (const auto& [name, source] :
         {std::pair("GPU hit", "device "), std::pair("host hit", "host "),
          std::pair("disk hit", "disk ")}) {
      if (!figure.name.ends_with(name)) continue;
      // A disk hit may also be computed, when that is quicker: then it is not slower either.
      EXPECT_TRUE(figure.note.starts_with(source) ||
                  (source == std::string("disk ") && figure.note.starts_with("computed")))
          << figure.name << ": " << figure.note;
      ++num_hits;
    }
  }
  EXPECT_EQ(num_hits, 12);
}

}  // namespace
}  // namespace kvgate::bench::gpu
