#include "engine/model/weight_recipe.h"

#include <charconv>

#include "kernels/weight_format.h"

namespace kvgate::model {
namespace {

using kernels::DType;

constexpr std::string_view kMixedName = "q4_k_m";

// Returns LAYER of "blk.LAYER.…"; -1 if there is none.
int LayerOf(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  int layer = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return layer;
}

// The first and last eighth of the layers and every third in between, which errors affect most.
bool TakesMoreBits(int layer, int num_layers) {
  const int eighth = num_layers / 8;
  return layer < eighth || layer >= num_layers - eighth || (layer - eighth) % 3 == 2;
}

DType Fallback(DType dtype) {
  switch (dtype) {
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ5_K:
      return DType::kQ5_1;
    case DType::kQ6_K:
      return DType::kQ8_0;
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kIQ4_XS:
      return DType::kIQ4_NL;
    default:
      return dtype;
  }
}

}  // namespace

std::optional<WeightRecipe> FindRecipe(std::string_view name) {
  if (name == kMixedName) return WeightRecipe{.dtype = DType::kQ4_K, .is_mixed = true};
  const std::optional<DType> dtype = kernels::FindDType(name);
  if (!dtype || !kernels::IsWeightDType(*dtype)) return std::nullopt;
  return WeightRecipe{.dtype = *dtype, .is_mixed = false};
}

std::string RecipeName(const WeightRecipe& recipe) {
  return std::string(recipe.is_mixed ? kMixedName : kernels::DTypeName(recipe.dtype));
}

std::vector<std::string> RecipeNames() {
  std::vector<std::string> names;
  for (const kernels::WeightFormat& format : kernels::WeightFormats()) {
    names.emplace_back(format.name);
  }
  names.emplace_back(kMixedName);
  return names;
}

uint32_t RecipeFileType(const WeightRecipe& recipe) {
  switch (recipe.dtype) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kBF16:
      return 32;
    case DType::kQ8_0:
      return 7;
    case DType::kQ4_0:
      return 2;
    case DType::kQ4_1:
      return 3;
    case DType::kQ5_0:
      return 8;
    case DType::kQ5_1:
      return 9;
    case DType::kQ2_K:
      return 10;
    case DType::kQ3_K:
      return 12;
    case DType::kQ4_K:
      return recipe.is_mixed ? 15 : 14;
    case DType::kQ5_K:
      return 16;
    case DType::kQ6_K:
      return 18;
    case DType::kIQ4_NL:
      return 25;
    case DType::kIQ4_XS:
      return 30;
    case DType::kMXFP4:
      return 38;
    case DType::kF8E4M3:  // a KV format, which no recipe uses
      break;
  }
  return 0;
}

DType RecipeDType(const WeightRecipe& recipe, const RecipeTensor& tensor) {
  DType dtype = recipe.dtype;
  if (recipe.is_mixed) {
    const bool is_sensitive = tensor.name.ends_with("attn_v.weight") ||
                              tensor.name.ends_with("ffn_down.weight") ||
                              tensor.name.ends_with("ffn_down_exps.weight");
    const int layer = LayerOf(tensor.name);
    if (tensor.is_output || (is_sensitive && TakesMoreBits(layer, tensor.num_layers))) {
      dtype = DType::kQ6_K;
    }
  }
  const bool is_expert = tensor.name.ends_with("_exps.weight");
  if (dtype == DType::kMXFP4 && tensor.num_experts > 0 && !is_expert) dtype = DType::kQ8_0;
  return tensor.columns % kernels::DTypeElements(dtype) == 0 ? dtype : Fallback(dtype);
}

}  // namespace kvgate::model
