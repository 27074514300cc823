#include "engine/model/weight_recipe.h"

#include <gtest/gtest.h>

#include <set>

namespace kvgate::model {
namespace {

using kernels::DType;

DType Mixed(std::string_view name, int64_t columns, bool is_output = false) {
  return RecipeDType({.dtype = DType::kQ4_K, .is_mixed = true},
                     {.name = name, .columns = columns, .num_layers = 16, .is_output = is_output});
}

TEST(WeightRecipeTest, EveryNameIsFoundAndHasAFileTypeOfItsOwn) {
  std::set<uint32_t> numbers;
  for (const std::string& name : RecipeNames()) {
    const auto recipe = FindRecipe(name);
    ASSERT_TRUE(recipe.has_value()) << name;
    EXPECT_EQ(RecipeName(*recipe), name);
    EXPECT_TRUE(numbers.insert(RecipeFileType(*recipe)).second) << name;
  }
  EXPECT_EQ(numbers.size(), 17u);
  EXPECT_FALSE(FindRecipe("q4_k_s").has_value());
  EXPECT_FALSE(FindRecipe("fp8_e4m3").has_value());  // a type for KV only
}

TEST(WeightRecipeTest, TheMixedRecipeGivesMoreBitsWhereErrorsCostMost) {
  EXPECT_EQ(Mixed("blk.0.attn_v.weight", 256), DType::kQ6_K);
  EXPECT_EQ(Mixed("blk.1.ffn_down.weight", 256), DType::kQ6_K);
  EXPECT_EQ(Mixed("blk.2.ffn_down.weight", 256), DType::kQ4_K);
  EXPECT_EQ(Mixed("blk.4.ffn_down.weight", 256), DType::kQ6_K);
  EXPECT_EQ(Mixed("blk.15.attn_v.weight", 256), DType::kQ6_K);
  EXPECT_EQ(Mixed("blk.0.attn_q.weight", 256), DType::kQ4_K);
  EXPECT_EQ(Mixed("token_embd.weight", 256), DType::kQ4_K);
  EXPECT_EQ(Mixed("token_embd.weight", 256, true), DType::kQ6_K);
}

TEST(WeightRecipeTest, Mxfp4IsForExpertsWhereThereAre) {
  const WeightRecipe mxfp4 = *FindRecipe("mxfp4");
  const auto of = [&](const char* name, int num_experts) {
    return RecipeDType(mxfp4, {.name = name, .columns = 64, .num_experts = num_experts});
  };
  EXPECT_EQ(of("blk.0.ffn_up_exps.weight", 8), DType::kMXFP4);
  EXPECT_EQ(of("blk.0.attn_q.weight", 8), DType::kQ8_0);
  EXPECT_EQ(of("blk.0.attn_q.weight", 0), DType::kMXFP4);
}

TEST(WeightRecipeTest, NarrowRowsTakeTheNearestFormatOf32) {
  EXPECT_EQ(Mixed("blk.0.attn_q.weight", 896), DType::kQ5_0);
  EXPECT_EQ(Mixed("blk.0.attn_v.weight", 896), DType::kQ8_0);
  for (const std::string& name : RecipeNames()) {
    const DType dtype = RecipeDType(*FindRecipe(name), {.name = "x", .columns = 96});
    EXPECT_EQ(96 % kernels::DTypeElements(dtype), 0) << name;
    if (kernels::DTypeElements(FindRecipe(name)->dtype) <= 32) {
      EXPECT_EQ(dtype, FindRecipe(name)->dtype) << name;
    }
  }
}

}  // namespace
}  // namespace kvgate::model
