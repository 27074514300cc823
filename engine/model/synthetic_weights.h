// The weights of a random-weight model: which tensors it has and what stands in each row. Every
// element is a function of (seed, tensor, place), so rows can be made in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/gguf.h"
#include "engine/model/make_model.h"

namespace kvgate::model {

// A tensor of random rows with some set apart. Rows and columns are of the matrix [rows, columns];
// a vector is one row. Of several matrices in one tensor, rows are of them all.
struct MadeTensor {
  std::string name;
  int64_t rows = 1;
  int64_t columns = 0;
  int64_t num_matrices = 1;
  bool is_matrix = false;          // its format is what was asked for; else F32
  std::vector<float> values = {};  // of a vector: not random, but these
  float mean = 0;
  float deviation = 0;
  // Columns from here on hold `tail` instead (columns: none do).
  int64_t tail_start = 0;
  float tail = 0;
  // Rows from here on (of each matrix), and row `zero_row`, are zero but for `first_column` in
  // column 0.
  int64_t fixed_row_start = INT64_MAX;
  float first_column = 0;
  int64_t zero_row = -1;
  // Of a token table: the rows of tokens that must never be sampled. Their tail is `banned_tail`;
  // with `banned_only_tail` the rest of the row is zero.
  const std::vector<bool>* sampled = nullptr;
  float banned_tail = 0;
  bool banned_only_tail = false;
  // Of a vector: the element 0, where it differs.
  bool has_first = false;
  float first = 0;
};

// The innermost first, as in the file.
std::vector<int64_t> MadeDimensions(const MadeTensor& tensor);

// What a made model of these options has of attention, by its keys.
struct MadeScales {
  float embedding = 1;
  float residual = 1;
  float logit = 1;      // logits are divided by it
  float attention = 0;  // scores are multiplied by it
};
MadeScales ScalesOf(const MakeModelOptions& options);

// All tensors of the model, in file order. `sampled` must outlive the result.
std::vector<MadeTensor> ListMadeTensors(const MakeModelOptions& options,
                                        const std::vector<bool>& sampled);

// Writes rows first_row.. of `tensor` into `data` as `type`.
void FillMadeRows(const MadeTensor& tensor, GgufType type, uint64_t seed, int64_t first_row,
                  std::span<std::byte> data);

}  // namespace kvgate::model
