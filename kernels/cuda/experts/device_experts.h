// DeviceExperts: mixtures of experts (kernels/experts.h) that the device routes by itself: the host
// issues the same commands for every step of so many rows and waits for nothing.
//
// A step's pairs (a row and one of its experts) are gathered by expert, and each expert's matrices
// multiply its pairs by the kernels of DeviceMatMul, which cut K alike: a row's bits do not depend
// on how many rows share its expert, nor on which kernel takes them. Up to kAloneRows rows every
// pair is a product of its own, in place, and nothing is gathered.
#pragma once

#include <memory>

#include <kvgate/result.h>

#include "kernels/cuda/command_stream.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/row_kernels.h"
#include "kernels/experts.h"

namespace kvgate::kernels::cuda {

struct DeviceExpertsOptions {
  int num_multiprocessors = 1;
  size_t shared_bytes_max = size_t{99} << 10;  // as DeviceMatMulOptions has it
};

class DeviceExperts {
 public:
  // What it borrows outlives this.
  DeviceExperts(const DeviceExpertsOptions& options, DeviceMatMul& matmul, RowKernels& rows,
                CommandStream& stream)
      : options_(options), matmul_(matmul), rows_(rows), stream_(stream) {}

  // The weights are DeviceMatMul's. kOverloaded: no device memory for their table.
  static Result<std::unique_ptr<ExpertSet>> Load(const ExpertSetView& view);
  static Result<std::unique_ptr<ExpertScratch>> AllocateScratch(const ExpertShape& shape,
                                                                int num_rows_max);
  // As Backend::MixExperts, with what Load and AllocateScratch made.
  void Mix(const ExpertMixTask& task);

 private:
  struct Step;
  void Route(const ExpertMixTask& task, Step& step);
  void Multiply(const float* x, int64_t columns, bool is_input, const Step& step);
  void MixShared(const ExpertMixTask& task, const Step& step);

  const DeviceExpertsOptions options_;
  DeviceMatMul& matmul_;
  RowKernels& rows_;
  CommandStream& stream_;
};

}  // namespace kvgate::kernels::cuda
