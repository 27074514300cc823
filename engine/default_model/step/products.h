// Matrix products in bf16 with sums in f32, for training on a CPU with AVX-512 BF16.
//
// One operand of a product is packed: panels of 64 columns, in which two rows of the common
// dimension (the depth) stand beside each other, as the processor's instruction takes them. The
// other one is read by broadcasting pairs: from rows as they are, or from a packed matrix as its
// transpose. So no matrix is ever transposed element by element.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace kvgate::default_model::step {

using Bf16 = std::uint16_t;

inline constexpr std::int64_t kPanel = 64;  // columns of a panel
inline constexpr int kTileRows = 6;         // of a tile of sums, which is kTileRows x kPanel

// Memory for `size` values, aligned for vectors; its values are undefined.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t size) { Grow(size); }

  // What it held is lost where it grows.
  void Grow(std::int64_t size) {
    if (size <= size_) {
      return;
    }
    memory_.reset(static_cast<T*>(
        ::operator new(static_cast<std::size_t>(size) * sizeof(T), std::align_val_t(64))));
    size_ = size;
  }

  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  T& operator[](std::int64_t i) { return memory_.get()[i]; }
  const T& operator[](std::int64_t i) const { return memory_.get()[i]; }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete(memory, std::align_val_t(64)); }
  };
  std::unique_ptr<T, Free> memory_;
  std::int64_t size_ = 0;
};

inline __m512 LoadBf16(const Bf16* from) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

inline void StoreBf16(Bf16* to, __m512 values) {
  const __m256bh half = _mm512_cvtneps_pbh(values);
  __m256i bits;
  std::memcpy(&bits, &half, sizeof bits);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bits);
}

inline Bf16 ToBf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<Bf16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// size: a multiple of 16.
inline void ToBf16(const float* from, Bf16* to, std::int64_t size) {
  for (std::int64_t i = 0; i < size; i += 16) {
    StoreBf16(to + i, _mm512_loadu_ps(from + i));
  }
}

// Values of a packed matrix of this depth and number of columns (a multiple of kPanel).
inline std::int64_t PackedSize(std::int64_t depth, std::int64_t columns) {
  return (depth + 1) / 2 * 2 * columns;
}

// Packs rows of the depth: `rows` [depth, columns], a row every `stride` values. Two rows become
// one line of each panel; with an odd depth zeros stand beside the last one. `depth_all` is the
// depth of the whole packed matrix, of which this is the part from row `first` (even) on.
inline void PackRows(const Bf16* rows, std::int64_t stride, std::int64_t depth,
                     std::int64_t columns, Bf16* packed, std::int64_t first,
                     std::int64_t depth_all) {
  alignas(64) static constexpr auto kOrder = [] {
    std::array<std::uint16_t, 64> order{};
    for (std::uint16_t i = 0; i < 64; ++i) {
      order[i] = static_cast<std::uint16_t>(i / 2 + i % 2 * 32);
    }
    return order;
  }();
  const __m512i low = _mm512_load_si512(kOrder.data());
  const __m512i high = _mm512_load_si512(kOrder.data() + 32);
  const std::int64_t panel_size = (depth_all + 1) / 2 * 2 * kPanel;
  for (std::int64_t row = 0; row < depth; row += 2) {
    const Bf16* from = rows + row * stride;
    Bf16* to = packed + (first + row) * kPanel;
    for (std::int64_t column = 0; column < columns; column += 32) {
      const __m512i upper = _mm512_loadu_si512(from + column);
      const __m512i lower =
          row + 1 < depth ? _mm512_loadu_si512(from + stride + column) : _mm512_setzero_si512();
      Bf16* line = to + column / kPanel * panel_size + column % kPanel * 2;
      _mm512_storeu_si512(line, _mm512_permutex2var_epi16(upper, low, lower));
      _mm512_storeu_si512(line + 32, _mm512_permutex2var_epi16(upper, high, lower));
    }
  }
}

// Packs the transpose: `rows` [columns, depth] become the columns; the depth is even. Of the last
// panel, what `columns` does not fill is zero.
inline void PackColumns(const Bf16* rows, std::int64_t stride, std::int64_t columns,
                        std::int64_t depth, Bf16* packed) {
  for (std::int64_t begin = 0; begin < columns; begin += kPanel) {
    const std::int64_t count = std::min(kPanel, columns - begin);
    for (std::int64_t pair = 0; pair < depth / 2; ++pair) {
      Bf16* line = packed + begin * depth + pair * 2 * kPanel;
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(line + 2 * i, rows + (begin + i) * stride + 2 * pair, 4);
      }
      std::memset(line + 2 * count, 0, static_cast<std::size_t>(4 * (kPanel - count)));
    }
  }
}

// How a product reads its first operand: pair p of row r begins at rows + r * row + p * pair.
struct Operand {
  const Bf16* rows = nullptr;
  std::int64_t row = 0;
  std::int64_t pair = 2;

  static Operand Rows(const Bf16* rows, std::int64_t stride) { return {rows, stride, 2}; }
  // The transpose of one panel of a packed matrix: its 64 columns are the rows.
  static Operand Panel(const Bf16* panel) { return {panel, 2, 2 * kPanel}; }

  Operand From(std::int64_t first_row) const { return {rows + first_row * row, row, pair}; }
};

// Sums of kRows rows by one panel over `pairs` of the depth, handed to `store(row, column, sums)`
// sixteen columns at a time.
template <int kRows, typename Store>
inline void Tile(Operand a, const Bf16* panel, std::int64_t pairs, const Store& store) {
  __m512 sums[kRows][4];
  for (auto& row : sums) {
    for (__m512& sum : row) {
      sum = _mm512_setzero_ps();
    }
  }
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const Bf16* line = panel + pair * 2 * kPanel;
    __m512bh columns[4];
    for (int j = 0; j < 4; ++j) {
      columns[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(line + 32 * j));
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      std::int32_t both;
      std::memcpy(&both, a.rows + r * a.row + pair * a.pair, 4);
      const auto row = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        sums[r][j] = _mm512_dpbf16_ps(sums[r][j], row, columns[j]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      store(r, 16 * j, sums[r][j]);
    }
  }
}

// The product of `rows` rows of `a` by one panel; `store(row, column, sums)`.
template <typename Store>
inline void PanelProduct(Operand a, std::int64_t rows, const Bf16* panel, std::int64_t pairs,
                         const Store& store) {
  std::int64_t row = 0;
  const auto at = [&](int r, int column, __m512 sums) { store(row + r, column, sums); };
  for (; row + kTileRows <= rows; row += kTileRows) {
    Tile<kTileRows>(a.From(row), panel, pairs, at);
  }
  switch (rows - row) {
    case 1:
      Tile<1>(a.From(row), panel, pairs, at);
      break;
    case 2:
      Tile<2>(a.From(row), panel, pairs, at);
      break;
    case 3:
      Tile<3>(a.From(row), panel, pairs, at);
      break;
    case 4:
      Tile<4>(a.From(row), panel, pairs, at);
      break;
    case 5:
      Tile<5>(a.From(row), panel, pairs, at);
      break;
    default:
      break;
  }
}

// to [rows, columns] = a times a packed matrix [depth, columns]; the depth is even.
inline void Product(Operand a, std::int64_t rows, const Bf16* packed, std::int64_t depth,
                    std::int64_t columns, float* to) {
  for (std::int64_t begin = 0; begin < columns; begin += kPanel) {
    PanelProduct(a, rows, packed + begin * depth, depth / 2,
                 [&](std::int64_t row, int column, __m512 sums) {
                   _mm512_storeu_ps(to + row * columns + begin + column, sums);
                 });
  }
}

// e to the power of x, for x <= 88, with an error of some units in the last place.
inline __m512 Exp(__m512 x) {
  x = _mm512_max_ps(x, _mm512_set1_ps(-100.0F));
  const __m512 power = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504F)), 0);
  __m512 rest = _mm512_fnmadd_ps(power, _mm512_set1_ps(0.693359375F), x);
  rest = _mm512_fnmadd_ps(power, _mm512_set1_ps(-2.12194440e-4F), rest);
  __m512 sum = _mm512_set1_ps(1.0F / 720);
  for (const float factor : {1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F}) {
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(factor));
  }
  return _mm512_scalef_ps(sum, power);
}

}  // namespace kvgate::default_model::step
