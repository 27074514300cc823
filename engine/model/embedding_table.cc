#include "engine/model/embedding_table.h"

#include <cstring>

#include <fmt/format.h>

#include "base/digest.h"
#include "kernels/dtype.h"

namespace kvgate::model {

Result<EmbeddingTable> EmbeddingTable::Make(const modelfile::GgufTensor& tensor,
                                            const kernels::WeightView& view) {
  EmbeddingTable table;
  table.view_ = view;
  table.file_ = tensor.file;
  if (table.file_ != nullptr) {
    table.offset_ = static_cast<uint64_t>(tensor.data.data() - table.file_->bytes().data());
  }
  table.row_bytes_ = kernels::DTypeBytes(view.dtype, static_cast<size_t>(view.columns));
  table.digests_.resize(static_cast<size_t>(view.rows));
  std::vector<std::byte> row(table.row_bytes_);
  for (size_t i = 0; i < table.digests_.size(); ++i) {
    KVGATE_TRY_VOID(table.ReadRow(i, row));
    table.digests_[i] = Xxh3(row).first;
  }
  return table;
}

void EmbeddingTable::Reserve(size_t num_rows) { staged_.reserve(num_rows * row_bytes_); }

Result<void> EmbeddingTable::ReadRow(size_t row, std::span<std::byte> to) const {
  if (file_ != nullptr) return file_->ReadAt(offset_ + row * row_bytes_, to);
  std::memcpy(to.data(), view_.data + row * row_bytes_, row_bytes_);
  return {};
}

Result<void> EmbeddingTable::ReadProved(size_t row, std::span<std::byte> to) const {
  KVGATE_TRY_VOID(ReadRow(row, to));
  if (Xxh3(to).first == digests_[row]) return {};
  return MakeError(ErrorCode::kDataLoss, "model",
                   fmt::format("{} was overwritten: the embedding of token {} is another",
                               file_ != nullptr ? file_->path().string() : "the memory", row));
}

Result<kernels::WeightView> EmbeddingTable::Stage(std::span<const TokenId> ids) {
  staged_.resize(ids.size() * row_bytes_);
  for (size_t i = 0; i < ids.size(); ++i) {
    KVGATE_TRY_VOID(ReadProved(static_cast<size_t>(ids[i]),
                               std::span(staged_).subspan(i * row_bytes_, row_bytes_)));
  }
  return kernels::WeightView{.dtype = view_.dtype,
                             .data = staged_.data(),
                             .rows = static_cast<int64_t>(ids.size()),
                             .columns = view_.columns};
}

Result<void> EmbeddingTable::CheckAll(const std::stop_token& stop) const {
  std::vector<std::byte> row(row_bytes_);
  for (size_t i = 0; i < digests_.size() && !stop.stop_requested(); ++i) {
    KVGATE_TRY_VOID(ReadProved(i, row));
  }
  return {};
}

}  // namespace kvgate::model
