// EmbeddingTables: rows of a model file's embedding tables, dequantized on the device.
//
// A loaded table is kept in device memory as stored in the file. For other tables the requested
// rows are staged in each step. That costs a prefill a few percent and a decode step almost
// nothing, so a table need not take device memory. Dtypes without a kernel here are dequantized on
// the host, for a loaded table only once.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/command_stream.h"
#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda::rows {

class EmbeddingTables {
 public:
  // The stream must outlive this object.
  EmbeddingTables(int num_multiprocessors, device::CommandStream& stream)
      : num_multiprocessors_(num_multiprocessors), stream_(stream) {}

  // As Backend::LoadTable. A table loaded from the same address before is replaced, because the
  // memory may belong to another file.
  Result<void> Load(const WeightView& table);
  // As Backend::EmbedRows, bit for bit as kernels/weight_format.h defines it.
  void EmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y);

 private:
  struct Table {
    WeightView view;  // the view that was copied
    DType dtype;      // dtype of the copy: the view's or f32
    memory::DeviceMemory memory;
  };
  const Table* Find(const WeightView& view) const;
  void EmbedStaged(const WeightView& table, std::span<const TokenId> ids, float* y);
  void Launch(DType dtype, const std::byte* rows, const TokenId* ids, int64_t num_ids,
              int64_t columns, float* y);

  const int num_multiprocessors_;
  device::CommandStream& stream_;
  std::vector<Table> tables_;
};

}  // namespace kvgate::kernels::cuda::rows
