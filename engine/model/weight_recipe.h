// Which format each matrix of a model is written in. One format for all, or the mixed recipe that
// most files have: q4_k_m.
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

// "f32" ... "mxfp4" or "q4_k_m".
std::optional<WeightRecipe> FindRecipe(std::string_view name);
std::string RecipeName(const WeightRecipe& recipe);
// All names, for help and messages.
std::vector<std::string> RecipeNames();
// ggml's number for "mostly this type", the metadata general.file_type.
uint32_t RecipeFileType(const WeightRecipe& recipe);

// The matrix `tensor` ("blk.3.ffn_down.weight") of a model of so many layers. Rows that are no
// multiple of 256 cannot have a format of 256: they take the nearest one of 32, as everyone's files
// do (q2_k, q3_k, iq4_xs: iq4_nl; q4_k: q5_0; q5_k: q5_1; q6_k: q8_0). mxfp4 is for experts: in a
// mixture of them the other matrices are q8_0.
struct RecipeTensor {
  std::string_view name;
  int64_t columns = 0;
  int num_layers = 0;
  int num_experts = 0;
  bool is_output = false;  // output.weight, or token_embd.weight where that is the output too
};
kernels::DType RecipeDType(const WeightRecipe& recipe, const RecipeTensor& tensor);

}  // namespace kvgate::model
