// RowKernels: operations on rows or single values: norms, rotation, gates, gathering and
// scattering. All are limited by memory bandwidth: each value is read and written once, 16 bytes at
// a time if the addresses allow it. The bits of a row depend on that row alone: sums have a fixed
// shape for each number of columns.
#pragma once

#include <span>

#include "kernels/backend.h"
#include "kernels/cuda/device/command_stream.h"

namespace kvgate::kernels::cuda::rows {

class RowKernels {
 public:
  // The stream must outlive this object.
  RowKernels(int num_multiprocessors, device::CommandStream& stream)
      : num_multiprocessors_(num_multiprocessors), stream_(stream) {}

  // Returns cudaSuccess, or the error if the current device cannot run the kernels of this build
  // because they were compiled for other architectures.
  static cudaError_t FindImage();

  // These are the operations of Backend with the same names; spans are host memory and are staged.
  void GatherRows(const float* x, std::span<const int> rows, int64_t columns, float* y);
  void ScatterAddRows(const float* x, std::span<const int> rows, std::span<const float> factors,
                      int64_t columns, float* y);
  void Norm(const float* x, const NormArgs& norm, int num_rows, int64_t columns, float* y);
  void RopeTable(std::span<const int> positions, std::span<const float> inv_freq, float magnitude,
                 float* table);
  void Rope(float* x, int num_rows, const Backend::RopeArgs& args, const float* table);
  void Glu(GluKind kind, const float* gate, const float* up, size_t count, float* out);
  void AddScaled(const float* x, float factor, size_t count, float* y);
  void Scale(float factor, size_t count, float* x);
  void SoftCap(float cap, size_t count, float* x);

 private:
  device::LaunchShape ShapeFor(int64_t num_items) const;

  const int num_multiprocessors_;
  device::CommandStream& stream_;
};

}  // namespace kvgate::kernels::cuda::rows
