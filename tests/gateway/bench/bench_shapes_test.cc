#include "gateway/bench/bench_shapes.h"

#include <gtest/gtest.h>

namespace kvgate::bench {
namespace {

// Returns the matrix weights in billions, which the names of the shapes promise.
double Billions(const model::MakeModelOptions& shape) {
  const double hidden = shape.hidden_dim;
  const double kv = hidden / shape.num_heads * shape.num_kv_heads;
  const double layer = hidden * (2 * hidden + 2 * kv + 3.0 * shape.ffn_dim);
  return (layer * shape.num_layers + hidden * shape.vocab_size) / 1e9;
}

TEST(BenchShapesTest, EachNameIsAShapeOfItsSize) {
  for (const std::string& name : BenchShapeNames()) {
    const auto shape = FindBenchShape(name);
    ASSERT_TRUE(shape.has_value()) << name;
    EXPECT_NEAR(Billions(*shape), std::stod(name), 0.25 * std::stod(name)) << name;
  }
  EXPECT_FALSE(FindBenchShape("2b").has_value());
}

}  // namespace
}  // namespace kvgate::bench
