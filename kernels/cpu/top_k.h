// TopRows on the CPU, a row at a time: an engine whose logits lie in host memory reads them whole,
// so this is here for the contract, and for what compares with it.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace kvgate::kernels::cpu {

// Writes row `row` of the results of Backend::TopRows.
void TopOfRow(const TopRowsTask& task, int64_t row, const TopRowsResult& to);

}  // namespace kvgate::kernels::cpu
