// TopK on the CPU, one row at a time. The engine reads logits in host memory directly, so this
// serves the Backend contract and tests that compare backends.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace kvgate::kernels::cpu {

// Writes row `row` of the results of Backend::TopK.
void TopOfRow(const TopKTask& task, int64_t row, const TopKResult& to);

}  // namespace kvgate::kernels::cpu
