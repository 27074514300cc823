// EmbeddingTable: the rows of a model's token embeddings, read from its file as tokens ask for
// them. They are the only bytes of the file that are needed once a model is loaded, and somebody
// may have written the file since. So each row is copied out and compared with the digest that it
// had at load before it is used: what is computed is the loaded model's, or nothing is.
//
// A digest costs about a tenth of a microsecond per KiB, and 8 bytes of memory per token of the
// vocabulary. It tells accidents apart, not forgeries: who may write the model decides what it says
// anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/modelfile/mapped_file.h"
#include "engine/model/model_file.h"
#include "kernels/backend.h"

namespace kvgate::model {

class EmbeddingTable {
 public:
  EmbeddingTable() = default;
  // Digests the rows of `tensor` as they are now; the model file outlives the table. `view` is the
  // same as a matrix. kDataLoss, kIo: the file is being cut or cannot be read.
  static Result<EmbeddingTable> Make(const GgufTensor& tensor, const kernels::WeightView& view);

  // As a matrix where it lies, for who copies all of it at load.
  const kernels::WeightView& view() const { return view_; }
  // The file, mapped; null: the rows lie in memory of ours.
  const MappedFile* file() const { return file_; }

  // Room for so many rows, so that Stage needs no memory.
  void Reserve(size_t num_rows);
  // The rows of these tokens, in order: a matrix of as many rows, good until the next call. One
  // thread at a time. kDataLoss, kIo: the file is not what was loaded. REQUIRES: ids in [0, rows).
  Result<kernels::WeightView> Stage(std::span<const TokenId> ids);
  // Compares all rows with what was loaded, beside Stage, on any thread. Errors as Stage's.
  Result<void> CheckAll(const std::stop_token& stop) const;

 private:
  Result<void> ReadRow(size_t row, std::span<std::byte> to) const;
  Result<void> ReadProved(size_t row, std::span<std::byte> to) const;

  kernels::WeightView view_;
  const MappedFile* file_ = nullptr;
  uint64_t offset_ = 0;  // of the first row in the file
  size_t row_bytes_ = 0;
  std::vector<uint64_t> digests_;  // of each row
  std::vector<std::byte> staged_;
};

}  // namespace kvgate::model
