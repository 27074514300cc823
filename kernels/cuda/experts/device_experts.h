// DeviceExperts: mixtures of experts (kernels/experts.h) with routing on the device. The host
// issues the same commands for every step with the same number of rows, and waits for no result.
//
// A step's pairs (a row and one of its experts) are grouped by expert. The kernels of DeviceMatMul
// multiply each expert's matrices with its pairs and split K in the same way, so a row's bits
// depend neither on how many rows share its expert nor on the kernel. Up to kAloneRows rows, every
// pair is a separate product and no grouping is needed.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/cuda/device/command_stream.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/experts.h"

namespace kvgate::kernels::cuda::experts {

struct DeviceExpertsOptions {
  int num_multiprocessors = 1;
  size_t shared_bytes_max = size_t{99} << 10;  // as in DeviceMatMulOptions
};

class DeviceExperts {
 public:
  // The borrowed objects must outlive this one.
  DeviceExperts(const DeviceExpertsOptions& options, matmul::DeviceMatMul& matmul,
                rows::RowKernels& rows, device::CommandStream& stream)
      : options_(options), matmul_(matmul), rows_(rows), stream_(stream) {}

  // The weights must come from DeviceMatMul. Returns kOverloaded without device memory for their
  // table.
  static Result<std::unique_ptr<ExpertSet>> Load(const ExpertSetView& view);
  static Result<std::unique_ptr<ExpertScratch>> AllocateScratch(const ExpertShape& shape,
                                                                int num_rows_max);
  // As Backend::MixExperts, with objects from Load and AllocateScratch.
  void Mix(const ExpertMixTask& task);

 private:
  struct Step;
  void Route(const ExpertMixTask& task, Step& step);
  void Multiply(const float* x, int64_t columns, bool is_input, const Step& step);
  void MixShared(const ExpertMixTask& task, const Step& step);

  const DeviceExpertsOptions options_;
  matmul::DeviceMatMul& matmul_;
  rows::RowKernels& rows_;
  device::CommandStream& stream_;
};

}  // namespace kvgate::kernels::cuda::experts
