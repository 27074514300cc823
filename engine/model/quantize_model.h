// Rewrites a model file with its matrices in another format.
#pragma once

#include <filesystem>

#include <kvgate/result.h>

#include "kernels/dtype.h"

namespace kvgate::model {

// Matrices of f32, f16 or bf16 become `dtype` (f16, bf16, q8_0, q4_0, q4_1, q5_0 or q5_1) by
// rounding to nearest; vectors (norms, biases), the routers of experts and what else the file says
// stay as they are. A model in parts becomes one file. kInvalidArgument: a dtype that is not one of
// those, rows that are no multiple of its block, a matrix that is quantized already (its rounding
// would be rounded again).
Result<void> QuantizeModel(const std::filesystem::path& in, const std::filesystem::path& out,
                           kernels::DType dtype);

}  // namespace kvgate::model
