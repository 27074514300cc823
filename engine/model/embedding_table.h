// EmbeddingTable: the rows of a model's token embeddings, read from its file when tokens need them.
// They are the only bytes of the file that are needed once a model is loaded, and the file may have
// been written since. So each row is copied and compared with its digest from load time before it
// is used: the result is the loaded model's, or an error.
//
// A digest costs about a tenth of a microsecond per KiB, and 8 bytes of memory per token of the
// vocabulary. It detects accidents, not forgeries: whoever may write the model file controls its
// answers anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/modelfile/mapped_file.h"
#include "engine/modelfile/model_file.h"
#include "kernels/backend.h"

namespace kvgate::model {

class EmbeddingTable {
 public:
  EmbeddingTable() = default;
  // Computes the digests of the tensor's current rows. `view` is the tensor as a matrix. The model
  // file must outlive the table. Fails with kDataLoss or kIo if the file is being cut or cannot be
  // read.
  static Result<EmbeddingTable> Make(const modelfile::GgufTensor& tensor,
                                     const kernels::WeightView& view);

  // The whole table in place, for a backend that copies all of it at load.
  const kernels::WeightView& view() const { return view_; }
  // The mapped file; null if the rows are in this process's own memory.
  const modelfile::MappedFile* file() const { return file_; }

  // Reserves memory for num_rows rows, so that Stage allocates none.
  void Reserve(size_t num_rows);
  // Returns the rows of these tokens in order, as a matrix that is valid until the next call. One
  // thread at a time. Fails with kDataLoss or kIo if the file is not what was loaded. REQUIRES: ids
  // in [0, rows).
  Result<kernels::WeightView> Stage(std::span<const TokenId> ids);
  // Compares all rows with their digests until `stop`. May run on any thread beside Stage; fails as
  // Stage does.
  Result<void> CheckAll(const std::stop_token& stop) const;

 private:
  Result<void> ReadRow(size_t row, std::span<std::byte> to) const;
  Result<void> ReadProved(size_t row, std::span<std::byte> to) const;

  kernels::WeightView view_;
  const modelfile::MappedFile* file_ = nullptr;
  uint64_t offset_ = 0;  // of the first row in the file
  size_t row_bytes_ = 0;
  std::vector<uint64_t> digests_;  // one per row
  std::vector<std::byte> staged_;
};

}  // namespace kvgate::model
