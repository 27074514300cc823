// Every operation as plain loops over double, one output at a time, rounded to f32 once at the end.
// The functions stand in the order of kernels/backend.h. Speed is no aim here; being plainly right
// is. Invariant, because no output looks at the shape of the call it was computed in.
#include "kernels/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/reference/reference_memory.h"

namespace kvgate::kernels::reference {
namespace {

class ReferenceBackend final : public Backend {
 public:
  const BackendInfo& Info() const override { return info_; }

 private:
  Result<std::unique_ptr<Weight>> DoLoadWeight(const WeightView& view) override;
  Result<std::unique_ptr<FloatBuffer>> DoAllocateFloats(size_t count) override;
  Result<std::unique_ptr<KvArena>> DoAllocateKv(const KvShape& shape, uint32_t num_blocks) override;
  void DoCopyIn(std::span<const float> host, float* device) override;
  void DoCopyOut(const float* device, std::span<float> host) override;
  void DoReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) override;
  void DoWriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) override;
  void DoCopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) override;
  void DoPoisonKvBlock(KvArena& arena, BlockId id) override;
  void DoEmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y) override;
  void DoGatherRows(const float* x, std::span<const int> rows, int64_t columns, float* y) override;
  void DoMatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks) override;
  void DoRmsNorm(const float* x, const float* weight, float eps, int num_rows, int64_t columns,
                 float* y) override;
  void DoRopeTable(std::span<const int> positions, std::span<const float> inv_freq,
                   float* table) override;
  void DoRope(float* x, int num_rows, const RopeArgs& args, const float* table) override;
  void DoStoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences, int layer,
                 KvArena& arena) override;
  void DoAttention(const float* q, std::span<const SequenceRows> sequences, int layer,
                   const KvArena& arena, const AttentionShape& shape, float* out) override;
  void DoSwiGlu(const float* gate, const float* up, size_t count, float* out) override;
  void DoAdd(const float* x, size_t count, float* y) override;

  BackendInfo info_{.name = "reference",
                    .target = "scalar",
                    .numerics_id = "reference-1",
                    .invariant = true,
                    .num_threads = 1,
                    .kv_host_visible = true};
};

// The allocation that a failure is reported for, as a Result.
template <typename T, typename Make>
Result<std::unique_ptr<T>> Allocate(const char* what, Make&& make) {
  try {
    return std::unique_ptr<T>(make());
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return MakeError(ErrorCode::kOverloaded, "kernels.reference",
                   std::string("not enough memory for ") + what);
}

Result<std::unique_ptr<Weight>> ReferenceBackend::DoLoadWeight(const WeightView& view) {
  return std::unique_ptr<Weight>(std::make_unique<ReferenceWeight>(view));
}

Result<std::unique_ptr<FloatBuffer>> ReferenceBackend::DoAllocateFloats(size_t count) {
  return Allocate<FloatBuffer>("a float buffer", [&] { return new ReferenceFloats(count); });
}

Result<std::unique_ptr<KvArena>> ReferenceBackend::DoAllocateKv(const KvShape& shape,
                                                                uint32_t num_blocks) {
  return Allocate<KvArena>("a KV arena", [&] { return new ReferenceKvArena(shape, num_blocks); });
}

void ReferenceBackend::DoCopyIn(std::span<const float> host, float* device) {
  std::copy(host.begin(), host.end(), device);
}

void ReferenceBackend::DoCopyOut(const float* device, std::span<float> host) {
  std::copy_n(device, host.size(), host.begin());
}

void ReferenceBackend::DoReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) {
  std::memcpy(host.data(), arena.block(id), host.size());
}

void ReferenceBackend::DoWriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) {
  std::memcpy(arena.block(id), host.data(), host.size());
}

void ReferenceBackend::DoCopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) {
#if KVGATE_DEBUG
  DoPoisonKvBlock(arena, to);
#endif
  const KvShape& shape = arena.shape();
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      const KvHeadView source = KvHeadOf(std::as_const(arena), from, layer, head);
      const KvHeadView target = KvHeadOf(arena, to, layer, head);
      for (int slot = 0; slot < num_tokens; ++slot) target.CopyToken(source, slot);
    }
  }
}

void ReferenceBackend::DoPoisonKvBlock(KvArena& arena, BlockId id) {
  // All ones is a NaN in f32, f16 and bf16, and as the scale of a quant block.
  std::memset(arena.block(id), 0xff, arena.block_bytes());
}

void ReferenceBackend::DoEmbedRows(const WeightView& table, std::span<const TokenId> ids,
                                   float* y) {
  const ReferenceWeight rows(table);
  for (const TokenId id : ids) {
    rows.ReadRow(id, y);
    y += table.columns;
  }
}

void ReferenceBackend::DoGatherRows(const float* x, std::span<const int> rows, int64_t columns,
                                    float* y) {
  for (const int row : rows) y = std::copy_n(x + row * columns, columns, y);
}

void ReferenceBackend::DoMatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks) {
  const int64_t columns = tasks[0].weight->columns();
  std::vector<float> weight_row(static_cast<size_t>(columns));
  for (const MatMulTask& task : tasks) {
    const auto& weight = static_cast<const ReferenceWeight&>(*task.weight);
    for (int64_t n = 0; n < weight.rows(); ++n) {
      weight.ReadRow(n, weight_row.data());
      for (int64_t m = 0; m < num_rows; ++m) {
        const float* x_row = x + m * columns;
        double sum = 0;
        for (int64_t k = 0; k < columns; ++k) {
          sum += static_cast<double>(x_row[k]) * weight_row[static_cast<size_t>(k)];
        }
        float& y = task.y[m * weight.rows() + n];
        if (task.bias != nullptr) sum += task.bias[n];
        if (task.accumulate) sum += y;
        y = static_cast<float>(sum);
      }
    }
  }
}

void ReferenceBackend::DoRmsNorm(const float* x, const float* weight, float eps, int num_rows,
                                 int64_t columns, float* y) {
  for (int r = 0; r < num_rows; ++r, x += columns, y += columns) {
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += static_cast<double>(x[i]) * x[i];
    const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(columns) + eps);
    for (int64_t i = 0; i < columns; ++i) y[i] = static_cast<float>(weight[i] * (x[i] * inverse));
  }
}

void ReferenceBackend::DoRopeTable(std::span<const int> positions, std::span<const float> inv_freq,
                                   float* table) {
  // The product is taken in double: at position 100 000 an f32 product is off by up to 0.004 rad.
  for (const int position : positions) {
    for (const float frequency : inv_freq) {
      const double angle = static_cast<double>(position) * frequency;
      *table++ = static_cast<float>(std::cos(angle));
      *table++ = static_cast<float>(std::sin(angle));
    }
  }
}

void ReferenceBackend::DoRope(float* x, int num_rows, const RopeArgs& args, const float* table) {
  const int half = args.rotary_dim / 2;
  const bool interleaved = args.kind == RopeKind::kInterleaved;
  for (int r = 0; r < num_rows; ++r, table += 2 * half) {
    for (int h = 0; h < args.num_heads; ++h, x += args.head_dim) {
      for (int i = 0; i < half; ++i) {
        const double cosine = table[2 * i];
        const double sine = table[2 * i + 1];
        float& first = x[interleaved ? 2 * i : i];
        float& second = x[interleaved ? 2 * i + 1 : i + half];
        const double a = first;
        const double b = second;
        first = static_cast<float>(a * cosine - b * sine);
        second = static_cast<float>(a * sine + b * cosine);
      }
    }
  }
}

void ReferenceBackend::DoStoreKv(const float* k, const float* v,
                                 std::span<const SequenceRows> sequences, int layer,
                                 KvArena& arena) {
  const KvShape& shape = arena.shape();
  for (const SequenceRows& sequence : sequences) {
    for (int i = 0; i < sequence.num_rows; ++i) {
      const int position = sequence.first_position + i;
      const BlockId id = sequence.block_table[static_cast<size_t>(position / kKvBlockTokens)];
      const int slot = position % kKvBlockTokens;
      for (int head = 0; head < shape.num_kv_heads; ++head) {
        const KvHeadView view = KvHeadOf(arena, id, layer, head);
        view.WriteK(slot, k);
        view.WriteV(slot, v);
        k += shape.head_dim;
        v += shape.head_dim;
      }
    }
  }
}

// What one query head of one row reads: the stored positions 0..position of one KV head.
struct AttentionRow {
  const KvArena& arena;
  std::span<const BlockId> block_table;
  int layer;
  int kv_head;
  int position;
  float scale;

  KvHeadView HeadAt(int p) const {
    return KvHeadOf(arena, block_table[static_cast<size_t>(p / kKvBlockTokens)], layer, kv_head);
  }
  // block_mass may be null.
  void Compute(const float* q, float* out, uint64_t* block_mass) const;
};

void AttentionRow::Compute(const float* q, float* out, uint64_t* block_mass) const {
  const int head_dim = arena.shape().head_dim;
  std::vector<float> stored(static_cast<size_t>(head_dim));
  std::vector<double> scores(static_cast<size_t>(position) + 1);
  double highest = -std::numeric_limits<double>::infinity();
  for (int p = 0; p <= position; ++p) {
    HeadAt(p).ReadK(p % kKvBlockTokens, stored.data());
    double dot = 0;
    for (int d = 0; d < head_dim; ++d) {
      dot += static_cast<double>(q[d]) * stored[static_cast<size_t>(d)];
    }
    scores[static_cast<size_t>(p)] = dot * scale;
    highest = std::max(highest, dot * scale);
  }
  double total = 0;
  std::vector<double> mixed(static_cast<size_t>(head_dim), 0.0);
  for (int p = 0; p <= position; ++p) {
    HeadAt(p).ReadV(p % kKvBlockTokens, stored.data());
    const double weight = std::exp(scores[static_cast<size_t>(p)] - highest);
    scores[static_cast<size_t>(p)] = weight;
    total += weight;
    for (int d = 0; d < head_dim; ++d) {
      mixed[static_cast<size_t>(d)] += weight * stored[static_cast<size_t>(d)];
    }
  }
  for (int d = 0; d < head_dim; ++d) {
    out[d] = static_cast<float>(mixed[static_cast<size_t>(d)] / total);
  }
  if (block_mass == nullptr || !std::isfinite(total)) return;
  for (int begin = 0; begin <= position; begin += kKvBlockTokens, ++block_mass) {
    double weight = 0;
    for (int p = begin; p <= std::min(position, begin + kKvBlockTokens - 1); ++p) {
      weight += scores[static_cast<size_t>(p)];
    }
    *block_mass += static_cast<uint64_t>(weight / total * kAttentionMassOne + 0.5);
  }
}

void ReferenceBackend::DoAttention(const float* q, std::span<const SequenceRows> sequences,
                                   int layer, const KvArena& arena, const AttentionShape& shape,
                                   float* out) {
  const int head_dim = arena.shape().head_dim;
  const int heads_per_kv_head = shape.num_heads / arena.shape().num_kv_heads;
  for (const SequenceRows& sequence : sequences) {
    for (int i = 0; i < sequence.num_rows; ++i) {
      for (int head = 0; head < shape.num_heads; ++head, q += head_dim, out += head_dim) {
        const AttentionRow row{.arena = arena,
                               .block_table = sequence.block_table,
                               .layer = layer,
                               .kv_head = head / heads_per_kv_head,
                               .position = sequence.first_position + i,
                               .scale = shape.scale};
        row.Compute(q, out, sequence.block_mass);
      }
    }
  }
}

void ReferenceBackend::DoSwiGlu(const float* gate, const float* up, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    const double g = gate[i];
    out[i] = static_cast<float>(g / (1.0 + std::exp(-g)) * up[i]);
  }
}

void ReferenceBackend::DoAdd(const float* x, size_t count, float* y) {
  for (size_t i = 0; i < count; ++i) y[i] += x[i];
}

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace kvgate::kernels::reference
