// The reference backend: plain loops with double accumulation. It is the specification of every
// operation, and slow. It is invariant because each output is computed separately.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace kvgate::kernels::reference {

std::unique_ptr<Backend> MakeReferenceBackend();

}  // namespace kvgate::kernels::reference
