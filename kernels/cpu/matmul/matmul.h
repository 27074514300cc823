// MatMul on all threads: packs or quantizes x once for all products and splits them into parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/machine/host_memory.h"
#include "kernels/cpu/machine/thread_pool.h"
#include "kernels/cpu/matmul/matmul_kernels.h"

namespace kvgate::kernels::cpu::matmul {

// Splits num_rows rows into tiles of max_rows, and tiles of 1..6 at the end. Small tiles are
// avoided unless all are small.
std::vector<RowTile> CutRows(int num_rows, int max_rows);

// Owns the scratch memory of its calls; one call at a time.
class ParallelMatMul {
 public:
  ParallelMatMul(int64_t target, machine::ThreadPool& pool);
  // As Backend::MatMul; every task's weight is a PackedWeight.
  void Run(const float* x, int num_rows, std::span<const MatMulTask> tasks);

 private:
  using Multiply = void (*)(const MatMulPart& part);
  Multiply KernelFor(const MatMulTask& task) const;
  void PrepareRows(const float* x, int64_t columns, std::span<const MatMulTask> tasks);
  // RunAmx is used if the machine has AMX, every task is quantized and there are enough rows; else
  // RunVectors.
  void RunVectors(const float* x, int num_rows, std::span<const MatMulTask> tasks);
  void RunAmx(const float* x, int num_rows, std::span<const MatMulTask> tasks);

  const FloatMatMulKernels float_kernels_;
  const QuantMatMulKernels quant_kernels_;
  const PlaneMatMulKernels plane_kernels_;
  const bool has_amx_;
  machine::ThreadPool& pool_;
  std::vector<RowTile> tiles_;  // of rows_.num_rows rows
  PackedRows rows_;
  machine::HostMemory values_;
  machine::HostMemory pairs_;
  machine::HostMemory scales_;
  machine::HostMemory sums_;
  machine::HostMemory amx_rows_;
  machine::HostMemory thread_scratch_;  // kMatMulScratchFloats per thread
};

}  // namespace kvgate::kernels::cpu::matmul
