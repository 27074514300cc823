// The weights of a random-weight model: its tensors and the content of each row. Every element is a
// function of (seed, tensor, position), so rows can be made in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/make_model.h"
#include "engine/modelfile/gguf.h"

namespace kvgate::model {

// A tensor of random rows, with some rows and columns reserved. They are those of the matrix [rows,
// columns]; a vector is one row. If the tensor holds several matrices, `rows` counts the rows of
// all.
struct SyntheticTensor {
  std::string name;
  int64_t rows = 1;
  int64_t columns = 0;
  int64_t num_matrices = 1;
  bool is_matrix = false;          // in the requested format; otherwise F32
  std::vector<float> values = {};  // the content of a vector that is not random
  float mean = 0;
  float deviation = 0;
  // Columns from here on hold `tail` instead; equal to `columns` if there are none.
  int64_t tail_start = 0;
  float tail = 0;
  // Rows from here on (of each matrix), and row `zero_row`, are zero, except that the former have
  // `first_column` in column 0.
  int64_t fixed_row_start = INT64_MAX;
  float first_column = 0;
  int64_t zero_row = -1;
  // For a token table: false marks tokens that must never be sampled. Their rows have `banned_tail`
  // as tail; with `banned_only_tail` the rest of the row is zero.
  const std::vector<bool>* sampled = nullptr;
  float banned_tail = 0;
  bool banned_only_tail = false;
  // For a vector: element 0, if has_first.
  bool has_first = false;
  float first = 0;
};

// Returns the dimensions in the file's order, innermost first.
std::vector<int64_t> SyntheticDimensions(const SyntheticTensor& tensor);

// The scale factors that a made model of these options has in its keys.
struct SyntheticScales {
  float embedding = 1;
  float residual = 1;
  float logit = 1;      // logits are divided by it
  float attention = 0;  // scores are multiplied by it
};
SyntheticScales ScalesOf(const MakeModelOptions& options);

// Returns all tensors of the model in file order. `sampled` must outlive the result.
std::vector<SyntheticTensor> ListSyntheticTensors(const MakeModelOptions& options,
                                                  const std::vector<bool>& sampled);

// Writes the rows of `tensor` from first_row on into `data` in the format `type`.
void FillSyntheticRows(const SyntheticTensor& tensor, modelfile::GgufType type, uint64_t seed,
                       int64_t first_row, std::span<std::byte> data);

}  // namespace kvgate::model
