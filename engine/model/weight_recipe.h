// Chooses the format of each matrix of a model: one format for all, or q4_k_m, the mixed recipe of
// most published files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dtype.h"

namespace kvgate::model {

struct WeightRecipe {
  kernels::DType dtype = kernels::DType::kF16;
  // q4_k_m: q6_k for the output matrix and, in half of the layers, for attn_v and ffn_down.
  bool is_mixed = false;
};

// `name` is "f32" ... "mxfp4" or "q4_k_m"; returns nullopt for any other.
std::optional<WeightRecipe> FindRecipe(std::string_view name);
std::string RecipeName(const WeightRecipe& recipe);
// All names, for help and messages.
std::vector<std::string> RecipeNames();
// Returns ggml's number for general.file_type, "mostly this type".
uint32_t RecipeFileType(const WeightRecipe& recipe);

// One matrix ("blk.3.ffn_down.weight") of a model. Rows that are no multiple of 256 cannot use a
// format with blocks of 256; they get the nearest one with blocks of 32, as in published files
// (q2_k, q3_k, iq4_xs: iq4_nl; q4_k: q5_0; q5_k: q5_1; q6_k: q8_0). mxfp4 is for experts only: the
// other matrices of a mixture of experts are q8_0.
struct RecipeTensor {
  std::string_view name;
  int64_t columns = 0;
  int num_layers = 0;
  int num_experts = 0;
  bool is_output = false;  // output.weight, or token_embd.weight if that serves as output too
};
kernels::DType RecipeDType(const WeightRecipe& recipe, const RecipeTensor& tensor);

}  // namespace kvgate::model
