// Rewrites a model file, or a Hugging Face folder, with its matrices in another format.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "kernels/dtype.h"

namespace kvgate::model {

// Matrices of f32, f16 or bf16 are rounded to the nearest values of `dtype` (f16, bf16, q8_0, q4_0,
// q4_1, q5_0 or q5_1). Vectors (norms, biases), the routers of experts and other metadata stay as
// they are. A model in parts becomes one file. A folder becomes a GGUF file with the rows of q and
// k in GGUF's order and the text of its tokenizer.json (kTokenizerJsonKey). Fails with
// kInvalidArgument for another dtype, for rows that are no multiple of its block, and for a matrix
// that is quantized already, because it would be rounded twice.
Result<void> QuantizeModel(const std::filesystem::path& in, const std::filesystem::path& out,
                           kernels::DType dtype);

}  // namespace kvgate::model
