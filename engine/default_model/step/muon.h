// Muon (K. Jordan, 2024): a momentum of gradients, made orthogonal by a few Newton-Schulz steps.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/default_model/step/products.h"

namespace kvgate::default_model::step {

// What one thread needs for matrices of up to `size` values with at most `rows` rows or columns,
// whichever are fewer.
struct MuonScratch {
  Buffer<float> update, turned, gram, square;
  Buffer<Bf16> x, gram_rounded, packed;
};

inline constexpr int kNewtonSchulzSteps = 5;
inline constexpr float kNewtonSchulz[3] = {3.4445F, -4.7750F, 2.0315F};

// x [rows, columns], rows <= columns, both multiples of 64, becomes the nearest matrix with
// orthogonal rows, roughly.
inline void Orthogonalise(float* x, std::int64_t rows, std::int64_t columns, MuonScratch& s) {
  const std::int64_t size = rows * columns;
  double squares = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  const float norm = 1.0F / (static_cast<float>(std::sqrt(squares)) + 1e-7F);
  for (std::int64_t i = 0; i < size; ++i) {
    x[i] *= norm;
  }
  s.x.Grow(size);
  s.packed.Grow(size);
  s.gram.Grow(rows * rows);
  s.square.Grow(rows * rows);
  s.gram_rounded.Grow(rows * rows);
  const auto [a, b, c] = kNewtonSchulz;
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    ToBf16(x, s.x.data(), size);
    PackColumns(s.x.data(), columns, rows, columns, s.packed.data());
    Product(Operand::Rows(s.x.data(), columns), rows, s.packed.data(), columns, rows,
            s.gram.data());
    ToBf16(s.gram.data(), s.gram_rounded.data(), rows * rows);
    PackRows(s.gram_rounded.data(), rows, rows, rows, s.packed.data(), 0, rows);
    Product(Operand::Rows(s.gram_rounded.data(), rows), rows, s.packed.data(), rows, rows,
            s.square.data());
    for (std::int64_t i = 0; i < rows * rows; ++i) {
      s.square[i] = b * s.gram[i] + c * s.square[i];
    }
    ToBf16(s.square.data(), s.gram_rounded.data(), rows * rows);
    PackRows(s.x.data(), columns, rows, columns, s.packed.data(), 0, rows);
    for (std::int64_t begin = 0; begin < columns; begin += kPanel) {
      PanelProduct(Operand::Rows(s.gram_rounded.data(), rows), rows, s.packed.data() + begin * rows,
                   rows / 2, [&](std::int64_t row, int column, __m512 sums) {
                     float* at = x + row * columns + begin + column;
                     _mm512_storeu_ps(
                         at, _mm512_fmadd_ps(_mm512_set1_ps(a), _mm512_loadu_ps(at), sums));
                   });
    }
  }
}

// One step on a matrix [rows, columns], in place.
inline void MuonStep(float* weight, const float* gradient, float* momentum, std::int64_t rows,
                     std::int64_t columns, float rate, float decay, MuonScratch& s) {
  const std::int64_t size = rows * columns;
  const bool tall = rows > columns;
  s.update.Grow(size);
  s.turned.Grow(size);
  for (std::int64_t i = 0; i < size; ++i) {
    const float value = gradient[i];
    momentum[i] += 0.05F * (value - momentum[i]);
    s.update[i] = value + 0.95F * (momentum[i] - value);
  }
  float* x = s.update.data();
  const auto turn = [](const float* from, std::int64_t from_rows, std::int64_t from_columns,
                       float* to) {
    for (std::int64_t row = 0; row < from_rows; ++row) {
      for (std::int64_t column = 0; column < from_columns; ++column) {
        to[column * from_rows + row] = from[row * from_columns + column];
      }
    }
  };
  if (tall) {
    turn(x, rows, columns, s.turned.data());
    Orthogonalise(s.turned.data(), columns, rows, s);
    turn(s.turned.data(), columns, rows, x);
  } else {
    Orthogonalise(x, rows, columns, s);
  }
  const float size_scale =
      tall ? std::sqrt(static_cast<float>(rows) / static_cast<float>(columns)) : 1.0F;
  for (std::int64_t i = 0; i < size; ++i) {
    weight[i] = weight[i] * (1 - rate * decay) - rate * size_scale * x[i];
  }
}

}  // namespace kvgate::default_model::step
