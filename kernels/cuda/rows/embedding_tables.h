// EmbeddingTables: rows of a model file's embedding tables, dequantized on the device.
//
// A table that was loaded lies in device memory as the file holds it. Of another the rows asked for
// are staged, step by step: that costs a prefill a few percent and a decode step nothing to speak
// of, so a table need not take device memory. Dtypes without a kernel here are dequantized on the
// host, a loaded table once.
#pragma once

#include <span>
#include <vector>

#include <kvgate/result.h>

#include "kernels/backend.h"
#include "kernels/cuda/command_stream.h"
#include "kernels/cuda/device_memory.h"

namespace kvgate::kernels::cuda {

class EmbeddingTables {
 public:
  // The stream outlives this.
  EmbeddingTables(int num_multiprocessors, CommandStream& stream)
      : num_multiprocessors_(num_multiprocessors), stream_(stream) {}

  // As Backend::LoadTable. What was loaded from the same place before is
  // replaced: a file's memory may hold another one now.
  Result<void> Load(const WeightView& table);
  // As Backend::EmbedRows, bit for bit what kernels/weight_format.h says.
  void EmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y);

 private:
  struct Table {
    WeightView view;  // whose bytes it is a copy of
    DType dtype;      // of the copy: the view's or f32
    DeviceMemory memory;
  };
  const Table* Find(const WeightView& view) const;
  void EmbedStaged(const WeightView& table, std::span<const TokenId> ids, float* y);
  void Launch(DType dtype, const std::byte* rows, const TokenId* ids, int64_t num_ids,
              int64_t columns, float* y);

  const int num_multiprocessors_;
  CommandStream& stream_;
  std::vector<Table> tables_;
};

}  // namespace kvgate::kernels::cuda
