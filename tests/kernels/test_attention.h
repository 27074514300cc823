// Sequences with their q, k and v, and a run of StoreKv and Attention over them that may be cut
// into calls in any way.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {

struct HeadShape {
  int num_heads;
  int num_kv_heads;
  int head_dim;

  int64_t q_columns() const { return static_cast<int64_t>(num_heads) * head_dim; }
  int64_t kv_columns() const { return static_cast<int64_t>(num_kv_heads) * head_dim; }
  KvShape KvShapeOf(DType dtype) const {
    return {.num_layers = 2, .num_kv_heads = num_kv_heads, .head_dim = head_dim, .dtype = dtype};
  }
  AttentionShape AttentionShapeOf() const {
    return {.num_heads = num_heads, .scale = 1 / std::sqrt(static_cast<float>(head_dim))};
  }
};

// q [length, num_heads, head_dim]; k and v [length, num_kv_heads, head_dim].
struct TestSequence {
  int length;
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
};

// Scores have a spread of a few units, times q_scale; v has outliers and denormals.
inline TestSequence MakeSequence(const HeadShape& shape, int length, uint64_t seed,
                                 float q_scale = 1.0f) {
  const auto q_count = static_cast<size_t>(length * shape.q_columns());
  const auto kv_count = static_cast<size_t>(length * shape.kv_columns());
  return {.length = length,
          .q = NormalValues(q_count, seed * 3, q_scale),
          .k = NormalValues(kv_count, seed * 3 + 1),
          .v = HostileValues(kv_count, seed * 3 + 2)};
}

// Rows first_position .. first_position + num_rows of one sequence, as part of one call.
struct Piece {
  size_t sequence;
  int first_position;
  int num_rows;
};

class AttentionRun {
 public:
  // Every block starts as NaN. `seed` determines the blocks of a sequence, which results must not
  // depend on.
  AttentionRun(Backend& backend, const HeadShape& shape, DType dtype,
               std::span<const TestSequence> sequences, uint64_t seed)
      : backend_(backend),
        shape_(shape),
        sequences_(sequences),
        attention_(shape.AttentionShapeOf()) {
    uint32_t num_blocks = 3;
    for (const TestSequence& sequence : sequences) num_blocks += BlocksOf(sequence);
    arena_ = std::move(*backend.AllocateKv(shape.KvShapeOf(dtype), num_blocks));
    std::vector<BlockId> ids;
    for (uint32_t id = 0; id < num_blocks; ++id) ids.push_back(BlockId{id});
    for (const BlockId id : ids) backend.PoisonKvBlock(*arena_, id);
    TestRandom random(seed);
    for (size_t i = ids.size() - 1; i > 0; --i) std::swap(ids[i], ids[random.Below(i + 1)]);
    for (const TestSequence& sequence : sequences) {
      tables_.emplace_back(ids.end() - BlocksOf(sequence), ids.end());
      ids.resize(ids.size() - BlocksOf(sequence));
      outputs_.emplace_back(sequence.q.size(), std::numeric_limits<float>::quiet_NaN());
    }
  }

  // Sets the window, softcap and (if not empty) sinks of later calls; sinks has one value per head.
  void Use(int window, float softcap, std::span<const float> sinks) {
    attention_ = shape_.AttentionShapeOf();
    attention_.window = window;
    attention_.softcap = softcap;
    sinks_ = sinks.empty() ? nullptr : std::make_unique<TestFloats>(backend_, sinks);
    attention_.sinks = sinks.empty() ? nullptr : sinks_->data();
  }

  // Fills blocks [begin, end), which no window reaches any more, with NaN and makes their table
  // entries invalid.
  void ForgetBlocks(size_t sequence, size_t begin, size_t end) {
    for (size_t b = begin; b < end; ++b) {
      backend_.PoisonKvBlock(*arena_, tables_[sequence][b]);
      tables_[sequence][b] = BlockId{0x7fffffff};
    }
  }

  // Runs StoreKv and Attention of one call in layer 1. Layer 0 gets k and v exchanged, which
  // reveals any access to the wrong layer.
  void Call(std::span<const Piece> pieces) {
    std::vector<SequenceRows> rows;
    std::vector<float> q;
    std::vector<float> k;
    std::vector<float> v;
    int next_row = 0;
    for (const Piece& piece : pieces) {
      const TestSequence& sequence = sequences_[piece.sequence];
      rows.push_back({.first_row = next_row,
                      .num_rows = piece.num_rows,
                      .first_position = piece.first_position,
                      .block_table = tables_[piece.sequence],
                      .block_mass = masses_.empty() ? nullptr : masses_[piece.sequence].data()});
      next_row += piece.num_rows;
      Append(q, piece, sequence.q, shape_.q_columns());
      Append(k, piece, sequence.k, shape_.kv_columns());
      Append(v, piece, sequence.v, shape_.kv_columns());
    }
    TestFloats device_q(backend_, q);
    TestFloats device_k(backend_, k);
    TestFloats device_v(backend_, v);
    TestFloats out(backend_, q.size());
    backend_.StoreKv(device_k.data(), device_v.data(), rows, 1, *arena_);
    backend_.StoreKv(device_v.data(), device_k.data(), rows, 0, *arena_);
    backend_.Attention(device_q.data(), rows, 1, *arena_, attention_, out.data());
    const std::vector<float> got = out.Read();
    auto next = got.begin();
    for (const Piece& piece : pieces) {
      const int64_t count = piece.num_rows * shape_.q_columns();
      std::copy_n(next, count,
                  outputs_[piece.sequence].begin() + piece.first_position * shape_.q_columns());
      next += count;
    }
  }

  // Runs all of one sequence in calls of at most `chunk` rows.
  void CallInChunks(size_t sequence, int chunk) {
    for (int position = 0; position < sequences_[sequence].length; position += chunk) {
      const int num_rows = std::min(chunk, sequences_[sequence].length - position);
      Call(std::vector<Piece>{{sequence, position, num_rows}});
    }
  }

  // Makes later calls add up block masses, each beginning at `start`.
  void AskForMass(uint64_t start) {
    for (const auto& table : tables_) masses_.emplace_back(table.size(), start);
  }
  std::span<const uint64_t> mass(size_t sequence) const { return masses_[sequence]; }

  // [length, num_heads, head_dim]; NaN for rows that no call has computed.
  std::span<const float> output(size_t sequence) const { return outputs_[sequence]; }
  std::span<const BlockId> table(size_t sequence) const { return tables_[sequence]; }
  KvArena& arena() { return *arena_; }

  // Returns the sequence's blocks, concatenated.
  std::vector<std::byte> KvBytes(size_t sequence) {
    const size_t block_bytes = arena_->block_bytes();
    std::vector<std::byte> bytes(tables_[sequence].size() * block_bytes);
    backend_.Synchronize();
    for (size_t i = 0; i < tables_[sequence].size(); ++i) {
      backend_.ReadKvBlock(*arena_, tables_[sequence][i],
                           std::span(bytes).subspan(i * block_bytes, block_bytes));
    }
    return bytes;
  }

  // The reverse of KvBytes, as in a restore from another tier.
  void RestoreKvBytes(size_t sequence, std::span<const std::byte> bytes) {
    const size_t block_bytes = arena_->block_bytes();
    for (size_t i = 0; i < tables_[sequence].size(); ++i) {
      backend_.WriteKvBlock(*arena_, tables_[sequence][i],
                            bytes.subspan(i * block_bytes, block_bytes));
    }
  }

 private:
  static uint32_t BlocksOf(const TestSequence& sequence) {
    return static_cast<uint32_t>((sequence.length + kKvBlockTokens - 1) / kKvBlockTokens);
  }

  static void Append(std::vector<float>& all, const Piece& piece, std::span<const float> values,
                     int64_t columns) {
    const auto run = RowsOf(values, piece.first_position, piece.num_rows, columns);
    all.insert(all.end(), run.begin(), run.end());
  }

  Backend& backend_;
  HeadShape shape_;
  std::span<const TestSequence> sequences_;
  AttentionShape attention_;
  std::unique_ptr<TestFloats> sinks_;
  std::unique_ptr<KvArena> arena_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<std::vector<float>> outputs_;
  std::vector<std::vector<uint64_t>> masses_;
};

// The options of attention beyond the plain softmax.
struct Variant {
  int window = 0;
  float softcap = 0;
  bool has_sinks = false;

  void ApplyTo(AttentionRun& run, int num_heads) const {
    std::vector<float> sinks;
    if (has_sinks) sinks = NormalValues(static_cast<size_t>(num_heads), 90, 4.0f);
    run.Use(window, softcap, sinks);
  }
};

}  // namespace kvgate::kernels
