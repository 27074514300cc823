// Every operation as plain loops over double, one output at a time, rounded to f32 once at the end.
// The functions are in the order of kernels/backend.h. The code aims at being obviously correct,
// not fast. It is invariant because no output depends on the shape of the call.
#include "kernels/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numbers>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/check.h"
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
  Result<std::unique_ptr<HostBuffer>> DoAllocateHost(size_t bytes) override;
  void DoCopyIn(std::span<const float> host, float* device) override;
  void DoCopyOut(const float* device, std::span<float> host) override;
  void DoReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) override;
  void DoWriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) override;
  void DoCopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) override;
  void DoPoisonKvBlock(KvArena& arena, BlockId id) override;
  void DoEmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y) override;
  void DoGatherRows(const float* x, std::span<const int> rows, int64_t columns, float* y) override;
  void DoScatterAddRows(const float* x, std::span<const int> rows, std::span<const float> factors,
                        int64_t columns, float* y) override;
  void DoMatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks) override;
  void DoNorm(const float* x, const NormArgs& norm, int num_rows, int64_t columns,
              float* y) override;
  void DoRopeTable(std::span<const int> positions, std::span<const float> inv_freq, float magnitude,
                   float* table) override;
  void DoRope(float* x, int num_rows, const RopeArgs& args, const float* table) override;
  void DoStoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences, int layer,
                 KvArena& arena) override;
  void DoAttention(const float* q, std::span<const SequenceRows> sequences, int layer,
                   const KvArena& arena, const AttentionShape& shape, float* out) override;
  void DoGlu(GluKind kind, const float* gate, const float* up, size_t count, float* out) override;
  void DoAddScaled(const float* x, float factor, size_t count, float* y) override;
  void DoScale(float factor, size_t count, float* x) override;
  void DoSoftCap(float cap, size_t count, float* x) override;
  void DoTopK(const TopKTask& task, const TopKResult& to) override;

  BackendInfo info_{.name = "reference",
                    .target = "scalar",
                    .numerics_id = "reference-1",
                    .invariant = true,
                    .num_threads = 1,
                    .kv_host_visible = true};
};

// Returns kOverloaded if make() throws bad_alloc or length_error.
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

Result<std::unique_ptr<HostBuffer>> ReferenceBackend::DoAllocateHost(size_t bytes) {
  return Allocate<HostBuffer>("a host buffer", [&] { return new ReferenceBytes(bytes); });
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
  // All ones is a NaN in every KV dtype, and as the scale of a quant block.
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

void ReferenceBackend::DoScatterAddRows(const float* x, std::span<const int> rows,
                                        std::span<const float> factors, int64_t columns, float* y) {
  for (size_t i = 0; i < rows.size(); ++i, x += columns) {
    DoAddScaled(x, factors[i], static_cast<size_t>(columns), y + rows[i] * columns);
  }
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

void ReferenceBackend::DoNorm(const float* x, const NormArgs& norm, int num_rows, int64_t columns,
                              float* y) {
  const auto count = static_cast<double>(columns);
  for (int r = 0; r < num_rows; ++r, x += columns, y += columns) {
    double mean = 0;
    if (norm.kind == NormKind::kLayer) {
      for (int64_t i = 0; i < columns; ++i) mean += x[i];
      mean /= count;
    }
    double squares = 0;
    for (int64_t i = 0; i < columns; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double inverse = 1.0 / std::sqrt(squares / count + norm.eps);
    for (int64_t i = 0; i < columns; ++i) {
      const double bias = norm.bias == nullptr ? 0 : norm.bias[i];
      y[i] = static_cast<float>(norm.weight[i] * ((x[i] - mean) * inverse) + bias);
    }
  }
}

void ReferenceBackend::DoRopeTable(std::span<const int> positions, std::span<const float> inv_freq,
                                   float magnitude, float* table) {
  // The product is computed in double: at position 100 000 an f32 product is off by up to 0.004
  // rad.
  for (const int position : positions) {
    for (const float frequency : inv_freq) {
      const double angle = static_cast<double>(position) * frequency;
      *table++ = static_cast<float>(std::cos(angle) * magnitude);
      *table++ = static_cast<float>(std::sin(angle) * magnitude);
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

// The inputs of one query head of one row: the stored positions first..last of one KV head.
struct AttentionRow {
  const KvArena& arena;
  std::span<const BlockId> block_table;
  int layer;
  int kv_head;
  int first;
  int last;
  float scale;
  float softcap;
  const float* sink;  // may be null

  KvHeadView HeadAt(int p) const {
    return KvHeadOf(arena, block_table[static_cast<size_t>(p / kKvBlockTokens)], layer, kv_head);
  }
  // Returns the score of position p; `stored` is scratch of head_dim floats.
  double Score(const float* q, int p, std::vector<float>& stored) const;
  // block_mass may be null.
  void Compute(const float* q, float* out, uint64_t* block_mass) const;
  // Adds the weights of positions first..last to their blocks, as fractions of `total`.
  void AddMass(std::span<const double> weights, double total, uint64_t* block_mass) const;
};

double AttentionRow::Score(const float* q, int p, std::vector<float>& stored) const {
  HeadAt(p).ReadK(p % kKvBlockTokens, stored.data());
  double dot = 0;
  for (size_t d = 0; d < stored.size(); ++d) dot += static_cast<double>(q[d]) * stored[d];
  const double score = dot * scale;
  return softcap == 0 ? score : softcap * std::tanh(score / softcap);
}

void AttentionRow::Compute(const float* q, float* out, uint64_t* block_mass) const {
  const auto head_dim = static_cast<size_t>(arena.shape().head_dim);
  std::vector<float> stored(head_dim);
  std::vector<double> weights;  // of positions first..last; initially the scores
  double highest = sink == nullptr ? -std::numeric_limits<double>::infinity() : *sink;
  for (int p = first; p <= last; ++p) {
    weights.push_back(Score(q, p, stored));
    highest = std::max(highest, weights.back());
  }
  double total = sink == nullptr ? 0 : std::exp(*sink - highest);
  std::vector<double> mixed(head_dim, 0.0);
  for (int p = first; p <= last; ++p) {
    HeadAt(p).ReadV(p % kKvBlockTokens, stored.data());
    double& weight = weights[static_cast<size_t>(p - first)];
    weight = std::exp(weight - highest);
    total += weight;
    for (size_t d = 0; d < head_dim; ++d) mixed[d] += weight * stored[d];
  }
  for (size_t d = 0; d < head_dim; ++d) out[d] = static_cast<float>(mixed[d] / total);
  if (block_mass != nullptr && std::isfinite(total)) AddMass(weights, total, block_mass);
}

void AttentionRow::AddMass(std::span<const double> weights, double total,
                           uint64_t* block_mass) const {
  for (int p = first; p <= last;) {
    const int block = p / kKvBlockTokens;
    double weight = 0;
    for (; p <= last && p / kKvBlockTokens == block; ++p) {
      weight += weights[static_cast<size_t>(p - first)];
    }
    block_mass[block] += static_cast<uint64_t>(weight / total * kAttentionMassOne + 0.5);
  }
}

void ReferenceBackend::DoAttention(const float* q, std::span<const SequenceRows> sequences,
                                   int layer, const KvArena& arena, const AttentionShape& shape,
                                   float* out) {
  const int head_dim = arena.shape().head_dim;
  const int heads_per_kv_head = shape.num_heads / arena.shape().num_kv_heads;
  for (const SequenceRows& sequence : sequences) {
    for (int i = 0; i < sequence.num_rows; ++i) {
      const int position = sequence.first_position + i;
      const int first = shape.window == 0 ? 0 : std::max(0, position - shape.window + 1);
      for (int head = 0; head < shape.num_heads; ++head, q += head_dim, out += head_dim) {
        const AttentionRow row{.arena = arena,
                               .block_table = sequence.block_table,
                               .layer = layer,
                               .kv_head = head / heads_per_kv_head,
                               .first = first,
                               .last = position,
                               .scale = shape.scale,
                               .softcap = shape.softcap,
                               .sink = shape.sinks == nullptr ? nullptr : shape.sinks + head};
        row.Compute(q, out, sequence.block_mass);
      }
    }
  }
}

// value * sigmoid(x)
double Gated(double value, double x) { return value / (1.0 + std::exp(-x)); }

double GluOf(GluKind kind, double gate, double up) {
  switch (kind) {
    case GluKind::kSilu:
      return Gated(gate, gate) * up;
    case GluKind::kGeluTanh: {
      // (1 + tanh(u)) / 2 equals sigmoid(2u), which is more precise if tanh is near -1.
      const double u = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
      return Gated(gate, 2 * u) * up;
    }
    case GluKind::kGelu:
      return gate / 2 * std::erfc(-gate / std::numbers::sqrt2) * up;
    case GluKind::kClampedSilu: {
      const double clamped = std::min(gate, 7.0);
      return Gated(clamped, 1.702 * clamped) * (std::clamp(up, -7.0, 7.0) + 1);
    }
  }
  KVGATE_CHECK(false, "a kind of gated unit");
}

void ReferenceBackend::DoGlu(GluKind kind, const float* gate, const float* up, size_t count,
                             float* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(GluOf(kind, gate[i], up == nullptr ? 1 : up[i]));
  }
}

void ReferenceBackend::DoAddScaled(const float* x, float factor, size_t count, float* y) {
  for (size_t i = 0; i < count; ++i) {
    y[i] = static_cast<float>(static_cast<double>(factor) * x[i] + y[i]);
  }
}

void ReferenceBackend::DoScale(float factor, size_t count, float* x) {
  for (size_t i = 0; i < count; ++i) x[i] *= factor;
}

void ReferenceBackend::DoSoftCap(float cap, size_t count, float* x) {
  for (size_t i = 0; i < count; ++i) {
    x[i] = static_cast<float>(cap * std::tanh(static_cast<double>(x[i]) / cap));
  }
}

void ReferenceBackend::DoTopK(const TopKTask& task, const TopKResult& to) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const auto count = static_cast<size_t>(task.count);
  for (size_t r = 0; r < task.scales.size(); ++r) {
    std::vector<float> row(static_cast<size_t>(task.columns));
    std::vector<TokenId> order(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      const float x = task.x[r * row.size() + i];
      row[i] = x > kLowest ? std::min(x, std::numeric_limits<float>::max()) + 0.0f : kLowest;
      order[i] = static_cast<TokenId>(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
      return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
    });
    const double greatest = row[static_cast<size_t>(order[0])];
    double sum = 0;
    double scaled_sum = 0;
    for (const float value : row) {
      if (value == kLowest) continue;
      sum += std::exp(value - greatest);
      scaled_sum += std::exp((value - greatest) * task.scales[r]);
    }
    to.exp_sums[r] = static_cast<float>(sum);
    to.scaled_exp_sums[r] = static_cast<float>(scaled_sum);
    for (size_t i = 0; i < count; ++i) {
      const TokenId id = i < order.size() ? order[i] : -1;
      to.ids[r * count + i] = id;
      to.values[r * count + i] = id < 0 ? kLowest : row[static_cast<size_t>(id)];
    }
  }
}

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace kvgate::kernels::reference
