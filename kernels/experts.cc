#include "kernels/experts.h"

#include "kernels/host_experts.h"
#include "kernels/routed_experts.h"

namespace kvgate::kernels {

ExpertScratchFloats CountExpertScratch(const ExpertShape& shape, bool routes) {
  return routes ? CountRoutedExpertScratch(shape) : CountHostExpertScratch(shape);
}

}  // namespace kvgate::kernels
