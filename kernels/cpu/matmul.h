// MatMul on all threads: packs or quantizes x once for all products, cuts the products into parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/thread_pool.h"

namespace kvgate::kernels::cpu {

// Cuts num_rows rows into tiles of max_rows and, at the end, 1..6; no tile is small unless all are.
std::vector<RowTile> CutRows(int num_rows, int max_rows);

// Owns the scratch of its calls; one call at a time.
class ParallelMatMul {
 public:
  ParallelMatMul(int64_t target, ThreadPool& pool);
  // As Backend::MatMul; every task's weight is a PackedWeight.
  void Run(const float* x, int num_rows, std::span<const MatMulTask> tasks);

 private:
  using Multiply = void (*)(const MatMulPart& part);
  Multiply KernelFor(const MatMulTask& task) const;
  void PrepareRows(const float* x, int64_t columns, std::span<const MatMulTask> tasks);
  // By the vector kernels, and by AMX where every task is quantized and there are rows enough.
  void RunVectors(const float* x, int num_rows, std::span<const MatMulTask> tasks);
  void RunAmx(const float* x, int num_rows, std::span<const MatMulTask> tasks);

  const FloatMatMulKernels float_kernels_;
  const QuantMatMulKernels quant_kernels_;
  const PlaneMatMulKernels plane_kernels_;
  const bool has_amx_;
  ThreadPool& pool_;
  std::vector<RowTile> tiles_;  // of rows_.num_rows rows
  PackedRows rows_;
  HostMemory values_;
  HostMemory pairs_;
  HostMemory scales_;
  HostMemory sums_;
  HostMemory amx_rows_;
  HostMemory thread_scratch_;  // kMatMulScratchFloats per thread
};

}  // namespace kvgate::kernels::cpu
