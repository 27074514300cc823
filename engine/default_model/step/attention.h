// Causal attention of one group of heads of one sequence, forward and backward.
//
// Scores are kept with a key for each row and a query for each column, so that the greatest score
// and the sum of a query are found column by column, and every operand is packed from rows as they
// are. Queries go by blocks of 64, keys by chunks of at most kKeys.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/default_model/step/products.h"

namespace kvgate::default_model::step {

inline constexpr std::int64_t kHead = 64;    // dimensions of a head: one panel
inline constexpr std::int64_t kKeys = 256;   // of a chunk
inline constexpr std::int64_t kVector = 16;  // floats

// Rows of one sequence: queries, keys and values beside each other, `stride` values a row. Queries
// are rotated and scaled, keys are rotated.
struct GroupRows {
  const Bf16* queries = nullptr;  // of the group's first head; the others follow
  const Bf16* keys = nullptr;
  const Bf16* values = nullptr;
  std::int64_t stride = 0;
  std::int64_t length = 0;
  std::int64_t heads = 0;  // of the group
};

// What one thread needs. Grows with the longest sequence.
struct AttentionScratch {
  Buffer<Bf16> key_pairs, value_pairs;   // packed along the sequence
  Buffer<float> key_grads, value_grads;  // [length, kHead]
  Buffer<Bf16> query_columns{kHead * kPanel}, grad_columns{kHead * kPanel};
  Buffer<Bf16> query_pairs{kHead * kPanel}, grad_pairs{kHead * kPanel};
  Buffer<float> scores{kKeys * kPanel}, share_grads{kKeys * kPanel};
  Buffer<Bf16> shares{kKeys * kPanel}, score_grads{kKeys * kPanel};
  Buffer<Bf16> packed{kKeys * kPanel};
  Buffer<float> turned{kHead * kPanel};  // a block of results: [dimension, query]
};

// Columns of a chunk's row that a query of the block from `first_query` on may see.
inline __mmask16 Visible(std::int64_t key, std::int64_t first_query, std::int64_t column) {
  const std::int64_t hidden = key - first_query - column;
  return hidden <= 0         ? __mmask16{0xffff}
         : hidden >= kVector ? __mmask16{0}
                             : static_cast<__mmask16>(0xffff << hidden);
}

// Row `query` of a turned block, sixteen dimensions from `first` on.
inline __m512 TurnBack(const float* turned, std::int64_t query, std::int64_t first) {
  const __m512i step =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(static_cast<int>(kPanel)));
  return _mm512_i32gather_ps(step, turned + first * kPanel + query, 4);
}

// Makes scores of a chunk into shares of exp(score - maxima), and adds them to `sums`; maxima rise,
// and `turned` and the sums are scaled to them.
inline void SoftmaxChunk(AttentionScratch& s, std::int64_t keys, std::int64_t first_key,
                         std::int64_t first_query, float* maxima, float* sums) {
  for (std::int64_t column = 0; column < kPanel; column += kVector) {
    const __m512 before = _mm512_loadu_ps(maxima + column);
    __m512 greatest = before;
    for (std::int64_t key = 0; key < keys; ++key) {
      greatest = _mm512_mask_max_ps(greatest, Visible(first_key + key, first_query, column),
                                    greatest, _mm512_load_ps(&s.scores[key * kPanel + column]));
    }
    const __m512 fall = Exp(_mm512_sub_ps(before, greatest));
    __m512 sum = _mm512_mul_ps(_mm512_loadu_ps(sums + column), fall);
    for (std::int64_t key = 0; key < keys; ++key) {
      const __m512 share = _mm512_maskz_mov_ps(
          Visible(first_key + key, first_query, column),
          Exp(_mm512_sub_ps(_mm512_load_ps(&s.scores[key * kPanel + column]), greatest)));
      sum = _mm512_add_ps(sum, share);
      StoreBf16(&s.shares[key * kPanel + column], share);
    }
    _mm512_storeu_ps(maxima + column, greatest);
    _mm512_storeu_ps(sums + column, sum);
    for (std::int64_t i = 0; i < kHead; ++i) {
      float* at = &s.turned[i * kPanel + column];
      _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), fall));
    }
  }
}

// Adds the product of a turned, packed operand [kHead, keys] by the packed chunk to `turned`.
inline void AddTurned(AttentionScratch& s, const Bf16* pairs, std::int64_t keys) {
  PanelProduct(Operand::Panel(pairs), kHead, s.packed.data(), (keys + 1) / 2,
               [&](std::int64_t row, int column, __m512 sums) {
                 float* at = &s.turned[row * kPanel + column];
                 _mm512_store_ps(at, _mm512_add_ps(_mm512_load_ps(at), sums));
               });
}

// out: rows of the group's first head, `out_stride` values a row. logs [length, log_stride]: of
// each query and head, the logarithm of the sum of its exponentials, which the backward pass needs.
inline void AttentionForward(const GroupRows& rows, AttentionScratch& s, Bf16* out,
                             std::int64_t out_stride, float* logs, std::int64_t log_stride) {
  const std::int64_t length = rows.length;
  s.value_pairs.Grow(PackedSize(length, kHead));
  PackRows(rows.values, rows.stride, length, kHead, s.value_pairs.data(), 0, length);
  for (std::int64_t head = 0; head < rows.heads; ++head) {
    const Bf16* queries = rows.queries + head * kHead;
    for (std::int64_t begin = 0; begin < length; begin += kPanel) {
      const std::int64_t count = std::min(kPanel, length - begin);
      PackColumns(queries + begin * rows.stride, rows.stride, count, kHead, s.query_columns.data());
      alignas(64) float maxima[kPanel], sums[kPanel];
      std::fill_n(maxima, kPanel, -std::numeric_limits<float>::max());
      std::fill_n(sums, kPanel, 0.0F);
      std::fill_n(s.turned.data(), kHead * kPanel, 0.0F);
      for (std::int64_t key = 0; key < begin + count; key += kKeys) {
        const std::int64_t keys = std::min(kKeys, begin + count - key);
        Product(Operand::Rows(rows.keys + key * rows.stride, rows.stride), keys,
                s.query_columns.data(), kHead, kPanel, s.scores.data());
        SoftmaxChunk(s, keys, key, begin, maxima, sums);
        PackRows(s.shares.data(), kPanel, keys, kPanel, s.packed.data(), 0, keys);
        AddTurned(s, s.value_pairs.data() + key * kHead, keys);
      }
      for (std::int64_t query = 0; query < count; ++query) {
        const __m512 inverse = _mm512_set1_ps(1.0F / sums[query]);
        for (std::int64_t i = 0; i < kHead; i += kVector) {
          StoreBf16(out + (begin + query) * out_stride + head * kHead + i,
                    _mm512_mul_ps(TurnBack(s.turned.data(), query, i), inverse));
        }
        logs[(begin + query) * log_stride + head] = maxima[query] + std::log(sums[query]);
      }
    }
  }
}

// Of one block of queries of one head, what the backward pass reads.
struct BlockGrads {
  const Bf16* queries;
  const Bf16* out;    // what attention gave
  const Bf16* grads;  // and its gradient; both `out_stride` values a row
  std::int64_t out_stride;
  const float* logs;
  std::int64_t log_stride;
  std::int64_t begin, count;
};

// Makes scores of a chunk and gradients of its shares into shares and gradients of scores.
inline void SoftmaxGradChunk(AttentionScratch& s, std::int64_t keys, std::int64_t first_key,
                             std::int64_t first_query, const float* logs, const float* means) {
  for (std::int64_t column = 0; column < kPanel; column += kVector) {
    const __m512 log = _mm512_load_ps(logs + column);
    const __m512 mean = _mm512_load_ps(means + column);
    for (std::int64_t key = 0; key < keys; ++key) {
      const std::int64_t at = key * kPanel + column;
      const __m512 share =
          _mm512_maskz_mov_ps(Visible(first_key + key, first_query, column),
                              Exp(_mm512_sub_ps(_mm512_load_ps(&s.scores[at]), log)));
      StoreBf16(&s.shares[at], share);
      StoreBf16(&s.score_grads[at],
                _mm512_mul_ps(share, _mm512_sub_ps(_mm512_load_ps(&s.share_grads[at]), mean)));
    }
  }
}

// to [keys, kHead] += a chunk [keys, queries] times packed rows of the queries.
inline void AddToKeys(const Bf16* chunk, std::int64_t keys, const Bf16* pairs, std::int64_t queries,
                      float* to) {
  PanelProduct(Operand::Rows(chunk, kPanel), keys, pairs, (queries + 1) / 2,
               [&](std::int64_t row, int column, __m512 sums) {
                 float* at = to + row * kHead + column;
                 _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), sums));
               });
}

// The gradients of a block's queries are left in `turned`; those of keys and values are added.
inline void BlockBackward(const GroupRows& rows, const BlockGrads& block, AttentionScratch& s) {
  PackColumns(block.queries, rows.stride, block.count, kHead, s.query_columns.data());
  PackColumns(block.grads, block.out_stride, block.count, kHead, s.grad_columns.data());
  PackRows(block.queries, rows.stride, block.count, kHead, s.query_pairs.data(), 0, kPanel);
  PackRows(block.grads, block.out_stride, block.count, kHead, s.grad_pairs.data(), 0, kPanel);
  alignas(64) float logs[kPanel], means[kPanel];
  for (std::int64_t query = 0; query < kPanel; ++query) {
    // Queries that are not there have no shares.
    logs[query] = query < block.count ? block.logs[query * block.log_stride] : 1e30F;
    __m512 sum = _mm512_setzero_ps();
    for (std::int64_t i = 0; query < block.count && i < kHead; i += kVector) {
      sum = _mm512_fmadd_ps(LoadBf16(block.out + query * block.out_stride + i),
                            LoadBf16(block.grads + query * block.out_stride + i), sum);
    }
    means[query] = _mm512_reduce_add_ps(sum);
  }
  std::fill_n(s.turned.data(), kHead * kPanel, 0.0F);
  for (std::int64_t key = 0; key < block.begin + block.count; key += kKeys) {
    const std::int64_t keys = std::min(kKeys, block.begin + block.count - key);
    Product(Operand::Rows(rows.keys + key * rows.stride, rows.stride), keys, s.query_columns.data(),
            kHead, kPanel, s.scores.data());
    Product(Operand::Rows(rows.values + key * rows.stride, rows.stride), keys,
            s.grad_columns.data(), kHead, kPanel, s.share_grads.data());
    SoftmaxGradChunk(s, keys, key, block.begin, logs, means);
    AddToKeys(s.shares.data(), keys, s.grad_pairs.data(), block.count, &s.value_grads[key * kHead]);
    AddToKeys(s.score_grads.data(), keys, s.query_pairs.data(), block.count,
              &s.key_grads[key * kHead]);
    PackRows(s.score_grads.data(), kPanel, keys, kPanel, s.packed.data(), 0, keys);
    AddTurned(s, s.key_pairs.data() + key * kHead, keys);
  }
}

// Calls `query_grads(head, query, turned, index)` for each query, whose gradient is column `index`
// of `turned`; gradients of keys and values stand in the scratch at the end.
template <typename QueryGrads>
inline void AttentionBackward(const GroupRows& rows, AttentionScratch& s, const Bf16* out,
                              const Bf16* grads, std::int64_t out_stride, const float* logs,
                              std::int64_t log_stride, const QueryGrads& query_grads) {
  const std::int64_t length = rows.length;
  s.key_pairs.Grow(PackedSize(length, kHead));
  s.key_grads.Grow(length * kHead);
  s.value_grads.Grow(length * kHead);
  PackRows(rows.keys, rows.stride, length, kHead, s.key_pairs.data(), 0, length);
  std::fill_n(s.key_grads.data(), length * kHead, 0.0F);
  std::fill_n(s.value_grads.data(), length * kHead, 0.0F);
  for (std::int64_t head = 0; head < rows.heads; ++head) {
    for (std::int64_t begin = 0; begin < length; begin += kPanel) {
      const std::int64_t count = std::min(kPanel, length - begin);
      const std::int64_t at = begin * out_stride + head * kHead;
      BlockBackward(rows,
                    {rows.queries + begin * rows.stride + head * kHead, out + at, grads + at,
                     out_stride, logs + begin * log_stride + head, log_stride, begin, count},
                    s);
      for (std::int64_t query = 0; query < count; ++query) {
        query_grads(head, begin + query, s.turned.data(), query);
      }
    }
  }
}

}  // namespace kvgate::default_model::step
