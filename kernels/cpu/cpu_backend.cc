#include "kernels/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "base/check.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/host_kv_arena.h"
#include "kernels/cpu/machine/amx.h"
#include "kernels/cpu/machine/host_memory.h"
#include "kernels/cpu/machine/simd_target.h"
#include "kernels/cpu/machine/thread_pool.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/matmul/matmul_amx.h"
#include "kernels/cpu/matmul/packed_weight.h"
#include "kernels/cpu/quant_kv.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/top_k.h"

namespace kvgate::kernels::cpu {

using machine::HostMemory;

namespace {

// Incremented with every change that can alter the bits of a result.
constexpr int kKernelVersion = 1;
constexpr int kThreadsMax = 1024;

class HostFloats final : public FloatBuffer {
 public:
  HostFloats(HostMemory memory, size_t count) : memory_(std::move(memory)) {
    data_ = reinterpret_cast<float*>(memory_.data());
    size_ = count;
  }

 private:
  HostMemory memory_;
};

class HostBytes final : public HostBuffer {
 public:
  explicit HostBytes(HostMemory memory) : memory_(std::move(memory)) {
    data_ = memory_.data();
    size_ = memory_.size();
  }

 private:
  HostMemory memory_;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(int64_t target, int num_threads)
      : pool_(num_threads),
        rows_(RowKernelsFor(target)),
        matmul_(target, pool_),
        attention_(target, pool_) {
    const std::string name = machine::TargetName(target);
    info_ = {.name = "cpu",
             .target = name,
             .numerics_id =
                 fmt::format("cpu-{}-v{}-q8_0:i16",
                             machine::HasFusedNumerics(target) ? "AVX2" : name, kKernelVersion),
             .invariant = true,
             .num_threads = pool_.num_threads(),
             .kv_host_visible = true};
  }

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

  // Calls body(begin, end) on pieces of [0, count) rows or values. Uses all threads if the work,
  // about count * unit values, costs more than starting a parallel region.
  template <typename Body>
  void ForPieces(int64_t count, int64_t unit, const Body& body);
  void Narrow(DType dtype, const float* from, int count, uint16_t* to) {
    rows_.narrow16(dtype, from, count, to);
  }
  void Narrow(DType, const float* from, int count, uint8_t* to) { rows_.narrow8(from, count, to); }
  template <typename T>
  void StoreHeads(const float* k, const float* v, const SequenceRows& sequence, int row, int layer,
                  KvArena& arena);
  void StoreQuantHeads(const float* k, const float* v, const SequenceRows& sequence, int row,
                       int layer, KvArena& arena);

  BackendInfo info_;
  machine::WeightMemory weights_;
  machine::ThreadPool pool_;
  const RowKernels rows_;
  matmul::ParallelMatMul matmul_;
  ParallelAttention attention_;
};

template <typename Body>
void CpuBackend::ForPieces(int64_t count, int64_t unit, const Body& body) {
  // This is about 10 microseconds of the cheapest operation; waking the threads takes a few.
  constexpr int64_t kWorkPerPiece = 16384;
  const int64_t wanted = count * unit / kWorkPerPiece;
  const int64_t num_pieces =
      std::clamp<int64_t>(wanted, 1, std::min<int64_t>(4 * pool_.num_threads(), count));
  pool_.ForEach(num_pieces, [&](int64_t piece, int) {
    body(piece * count / num_pieces, (piece + 1) * count / num_pieces);
  });
}

// ---- memory ---------------------------------------------------------------------------------

Result<std::unique_ptr<Weight>> CpuBackend::DoLoadWeight(const WeightView& view) {
  KVGATE_TRY(std::unique_ptr<matmul::PackedWeight> weight,
             matmul::PackedWeight::Pack(view, pool_, weights_));
  return std::unique_ptr<Weight>(std::move(weight));
}

Result<std::unique_ptr<FloatBuffer>> CpuBackend::DoAllocateFloats(size_t count) {
  if (count > SIZE_MAX / sizeof(float)) {
    return MakeError(ErrorCode::kOverloaded, "kernels.cpu",
                     fmt::format("{} floats are more than memory can hold", count));
  }
  KVGATE_TRY(HostMemory memory, HostMemory::Allocate(count * sizeof(float), "activations"));
  return std::unique_ptr<FloatBuffer>(std::make_unique<HostFloats>(std::move(memory), count));
}

Result<std::unique_ptr<KvArena>> CpuBackend::DoAllocateKv(const KvShape& shape,
                                                          uint32_t num_blocks) {
  return HostKvArena::Allocate(shape, num_blocks);
}

Result<std::unique_ptr<HostBuffer>> CpuBackend::DoAllocateHost(size_t bytes) {
  KVGATE_TRY(HostMemory memory, HostMemory::Allocate(bytes, "host buffer"));
  return std::unique_ptr<HostBuffer>(std::make_unique<HostBytes>(std::move(memory)));
}

void CpuBackend::DoCopyIn(std::span<const float> host, float* device) {
  std::copy(host.begin(), host.end(), device);
}

void CpuBackend::DoCopyOut(const float* device, std::span<float> host) {
  std::copy_n(device, host.size(), host.begin());
}

void CpuBackend::DoReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) {
  std::memcpy(host.data(), arena.block(id), host.size());
}

void CpuBackend::DoWriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) {
  std::memcpy(arena.block(id), host.data(), host.size());
}

void CpuBackend::DoCopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) {
  const KvShape& shape = arena.shape();
#if KVGATE_DEBUG
  std::memset(arena.block(to), 0xff, arena.block_bytes());
#endif
  if (DTypeElements(shape.dtype) != 1) {
    return CopyQuantTokens(shape, arena.block(from), arena.block(to), num_tokens);
  }
  const size_t element = DTypeBytes(shape.dtype, 1);
  const size_t k_bytes = element * shape.head_dim * kKvBlockTokens;
  for (int head = 0; head < shape.num_layers * shape.num_kv_heads; ++head) {
    const std::byte* source = arena.block(from) + head * 2 * k_bytes;
    std::byte* target = arena.block(to) + head * 2 * k_bytes;
    for (int d = 0; d < shape.head_dim; ++d) {
      std::memcpy(target + d * kKvBlockTokens * element, source + d * kKvBlockTokens * element,
                  num_tokens * element);
    }
    std::memcpy(target + k_bytes, source + k_bytes, num_tokens * shape.head_dim * element);
  }
}

void CpuBackend::DoPoisonKvBlock(KvArena& arena, BlockId id) {
  std::memset(arena.block(id), 0xff, arena.block_bytes());
}

// ---- operations -----------------------------------------------------------------------------

void CpuBackend::DoEmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y) {
  const size_t row_bytes = DTypeBytes(table.dtype, static_cast<size_t>(table.columns));
  ForPieces(static_cast<int64_t>(ids.size()), table.columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      rows_.widen(table.dtype, table.data + static_cast<size_t>(ids[i]) * row_bytes, table.columns,
                  y + i * table.columns);
    }
  });
}

void CpuBackend::DoGatherRows(const float* x, std::span<const int> rows, int64_t columns,
                              float* y) {
  for (const int row : rows) y = std::copy_n(x + row * columns, columns, y);
}

void CpuBackend::DoScatterAddRows(const float* x, std::span<const int> rows,
                                  std::span<const float> factors, int64_t columns, float* y) {
  // Split along columns, because two rows of x may be added to the same row of y.
  ForPieces(columns, static_cast<int64_t>(rows.size()), [&](int64_t begin, int64_t end) {
    for (size_t i = 0; i < rows.size(); ++i) {
      rows_.add_scaled(x + static_cast<int64_t>(i) * columns + begin, factors[i],
                       static_cast<size_t>(end - begin), y + rows[i] * columns + begin);
    }
  });
}

void CpuBackend::DoMatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks) {
  matmul_.Run(x, num_rows, tasks);
}

void CpuBackend::DoNorm(const float* x, const NormArgs& norm, int num_rows, int64_t columns,
                        float* y) {
  ForPieces(num_rows, columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      rows_.norm(x + r * columns, norm, columns, y + r * columns);
    }
  });
}

void CpuBackend::DoRopeTable(std::span<const int> positions, std::span<const float> inv_freq,
                             float magnitude, float* table) {
  constexpr int64_t kSineWork = 50;  // cost of a double sine and cosine, in units of cheap values
  const auto half = static_cast<int64_t>(inv_freq.size());
  ForPieces(static_cast<int64_t>(positions.size()), kSineWork * half,
            [&](int64_t begin, int64_t end) {
              for (int64_t r = begin; r < end; ++r) {
                for (int64_t i = 0; i < half; ++i) {
                  const double angle =
                      static_cast<double>(positions[r]) * static_cast<double>(inv_freq[i]);
                  float* entry = table + (r * half + i) * 2;
                  entry[0] = static_cast<float>(std::cos(angle) * magnitude);
                  entry[1] = static_cast<float>(std::sin(angle) * magnitude);
                }
              }
            });
}

void CpuBackend::DoRope(float* x, int num_rows, const RopeArgs& args, const float* table) {
  const int64_t row = static_cast<int64_t>(args.num_heads) * args.head_dim;
  ForPieces(num_rows, row, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      rows_.rope(x + r * row, args, table + r * args.rotary_dim);
  });
}

// Stores one row; T is the storage type of the KV dtype.
template <typename T>
void CpuBackend::StoreHeads(const float* k, const float* v, const SequenceRows& sequence, int row,
                            int layer, KvArena& arena) {
  const KvShape& shape = arena.shape();
  const int head_dim = shape.head_dim;
  const int position = sequence.first_position + row;
  std::byte* block = arena.block(sequence.block_table[position / kKvBlockTokens]);
  const int slot = position % kKvBlockTokens;
  const ptrdiff_t from =
      static_cast<ptrdiff_t>(sequence.first_row + row) * shape.num_kv_heads * head_dim;
  for (int head = 0; head < shape.num_kv_heads; ++head) {
    T* keys = reinterpret_cast<T*>(block + KvHeadOffset(shape, layer, head));
    T* values = keys + head_dim * kKvBlockTokens + slot * head_dim;
    const float* k_row = k + from + head * head_dim;
    const float* v_row = v + from + head * head_dim;
    if constexpr (std::is_same_v<T, float>) {
      for (int d = 0; d < head_dim; ++d) keys[d * kKvBlockTokens + slot] = k_row[d];
      std::copy_n(v_row, head_dim, values);
    } else {
      Narrow(shape.dtype, v_row, head_dim, values);
      constexpr int kAtOnce = 64;
      T narrow[kAtOnce];
      for (int d = 0; d < head_dim; d += kAtOnce) {
        const int count = std::min(kAtOnce, head_dim - d);
        Narrow(shape.dtype, k_row + d, count, narrow);
        for (int i = 0; i < count; ++i) keys[(d + i) * kKvBlockTokens + slot] = narrow[i];
      }
    }
  }
}

// The same for a quantized KV dtype.
void CpuBackend::StoreQuantHeads(const float* k, const float* v, const SequenceRows& sequence,
                                 int row, int layer, KvArena& arena) {
  const KvShape& shape = arena.shape();
  const int position = sequence.first_position + row;
  std::byte* block = arena.block(sequence.block_table[position / kKvBlockTokens]);
  ptrdiff_t from =
      static_cast<ptrdiff_t>(sequence.first_row + row) * shape.num_kv_heads * shape.head_dim;
  for (int head = 0; head < shape.num_kv_heads; ++head, from += shape.head_dim) {
    StoreQuantToken(shape, k + from, v + from, position % kKvBlockTokens,
                    block + KvHeadOffset(shape, layer, head));
  }
}

void CpuBackend::DoStoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences,
                           int layer, KvArena& arena) {
  constexpr int64_t kScatterWork = 4;  // K is written one element per cache line
  const int64_t unit = kScatterWork * 2 * arena.shape().num_kv_heads * arena.shape().head_dim;
  for (const SequenceRows& sequence : sequences) {
    ForPieces(sequence.num_rows, unit, [&](int64_t begin, int64_t end) {
      for (int row = static_cast<int>(begin); row < end; ++row) {
        if (DTypeElements(arena.shape().dtype) != 1) {
          StoreQuantHeads(k, v, sequence, row, layer, arena);
        } else if (arena.shape().dtype == DType::kF32) {
          StoreHeads<float>(k, v, sequence, row, layer, arena);
        } else if (arena.shape().dtype == DType::kF8E4M3) {
          StoreHeads<uint8_t>(k, v, sequence, row, layer, arena);
        } else {
          StoreHeads<uint16_t>(k, v, sequence, row, layer, arena);
        }
      }
    });
  }
}

void CpuBackend::DoAttention(const float* q, std::span<const SequenceRows> sequences, int layer,
                             const KvArena& arena, const AttentionShape& shape, float* out) {
  attention_.Run(q, sequences, layer, arena, shape, out);
}

void CpuBackend::DoGlu(GluKind kind, const float* gate, const float* up, size_t count, float* out) {
  constexpr int64_t kExpWork = 4;
  ForPieces(static_cast<int64_t>(count), kExpWork, [&](int64_t begin, int64_t end) {
    rows_.glu(kind, gate + begin, up == nullptr ? nullptr : up + begin,
              static_cast<size_t>(end - begin), out + begin);
  });
}

void CpuBackend::DoAddScaled(const float* x, float factor, size_t count, float* y) {
  ForPieces(static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
    rows_.add_scaled(x + begin, factor, static_cast<size_t>(end - begin), y + begin);
  });
}

void CpuBackend::DoScale(float factor, size_t count, float* x) {
  ForPieces(static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
    rows_.scale(factor, static_cast<size_t>(end - begin), x + begin);
  });
}

void CpuBackend::DoSoftCap(float cap, size_t count, float* x) {
  constexpr int64_t kTanhWork = 4;
  ForPieces(static_cast<int64_t>(count), kTanhWork, [&](int64_t begin, int64_t end) {
    rows_.soft_cap(cap, static_cast<size_t>(end - begin), x + begin);
  });
}

void CpuBackend::DoTopK(const TopKTask& task, const TopKResult& to) {
  pool_.ForEach(task.num_rows, [&](int64_t row, int) { TopOfRow(task, row, to); });
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options) {
  if (options.num_threads < 0 || options.num_threads > kThreadsMax) {
    return MakeError(ErrorCode::kInvalidArgument, "kernels.cpu",
                     fmt::format("{} threads: 0 (one per hardware thread) to {}",
                                 options.num_threads, kThreadsMax),
                     "num_threads");
  }
  KVGATE_TRY(const int64_t target, machine::FindTarget(options.target));
  int num_threads = options.num_threads;
  if (num_threads == 0) {
    num_threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kThreadsMax);
  }
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(target, num_threads));
}

std::vector<std::string> SupportedCpuTargets() {
  std::vector<std::string> names;
  for (const int64_t target : machine::SupportedTargets())
    names.push_back(machine::TargetName(target));
  return names;
}

Result<std::string> FindCpuTarget(std::string_view target) {
  KVGATE_TRY(const int64_t found, machine::FindTarget(target));
  return machine::TargetName(found);
}

std::string MissingCpuTargets() {
  const std::vector<std::string> targets = SupportedCpuTargets();
  const bool has_vnni = std::ranges::find(targets, "AVX512_VNNI") != targets.end();
  if (!has_vnni || machine::HasAmx()) return {};
  return fmt::format("no AMX: {}", machine::WhyNoAmx());
}

}  // namespace kvgate::kernels::cpu
