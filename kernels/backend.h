// Backend: the tensor operations a transformer's forward pass is made of.
//
// Public operations check shapes and dtypes once (KVGATE_CHECK: the caller is our own code), then
// call the private virtual Do*. kernels/reference is the specification; tests/kernels holds every
// backend to it. Kernels know tensors, not requests.
//
// Invariant numerics. For a backend whose Info().invariant is true, the bits of an output row
// depend only on that row's own inputs: not on the number of rows in the call, on the row's place
// among them, on how a sequence was cut into calls, or on the number of threads. So KV written
// by decode, by prefill in any chunks, and restored from disk are the same bits. To keep it:
//   * MatMul accumulates along K in one fixed order for every number of rows.
//   * Attention walks the KV blocks in order from position 0; a block is one tile.
//   * StoreKv rounds K and V to the KV dtype before anyone reads them.
//
// Memory: `float*` and KV blocks are memory of this backend (host memory on the CPU). Operations
// are issued in order from one thread; Synchronize() and CopyOut wait for all of them, and what
// they use must live until then. Activations are f32, row-major and dense: row r of [M, C] starts
// at data + r * C.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "kernels/dtype.h"

namespace kvgate::kernels {

// A KV block holds this many consecutive tokens, the first at a multiple of it.
inline constexpr int kKvBlockTokens = 32;

// A matrix as a model file holds it: [rows, columns], row-major, in host memory.
struct WeightView {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
  int64_t rows = 0;     // N: outputs
  int64_t columns = 0;  // K: inputs; a multiple of DTypeElements(dtype)
  // The data lies in a read-only file mapping, whose pages a backend may drop (<kvgate/pages.h>)
  // once it has its own copy: a model must not be in memory twice.
  bool is_file_mapping = false;
  // An expert's: MixExperts multiplies by it, so it must lie as rows that choose it take it.
  bool is_expert = false;
};

// A matrix prepared by one backend for MatMul. Immutable, shareable between threads.
class Weight {
 public:
  virtual ~Weight() = default;
  DType dtype() const { return dtype_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  // Bytes this object occupies.
  virtual size_t bytes() const = 0;

 protected:
  explicit Weight(const WeightView& view)
      : dtype_(view.dtype), rows_(view.rows), columns_(view.columns) {}

 private:
  DType dtype_;
  int64_t rows_;
  int64_t columns_;
};

// f32 memory of one backend.
class FloatBuffer {
 public:
  virtual ~FloatBuffer() = default;
  float* data() { return data_; }
  const float* data() const { return data_; }
  size_t size() const { return size_; }  // in floats

 protected:
  float* data_ = nullptr;
  size_t size_ = 0;
};

// Host memory that the backend's device copies from and to at full speed: page-locked where that
// makes a difference. Its bytes are the caller's, from any thread.
class HostBuffer {
 public:
  virtual ~HostBuffer() = default;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }  // in bytes

 protected:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The KV of one token of one layer is K [num_kv_heads, head_dim] and V likewise.
struct KvShape {
  int num_layers = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kF16;  // one of kKvDTypes; q8_0 and q4_0: groups of 32 along head_dim

  // K and V of one block over all layers, without padding.
  size_t block_bytes() const {
    return 2 * static_cast<size_t>(num_layers) * num_kv_heads *
           DTypeBytes(dtype, static_cast<size_t>(head_dim) * kKvBlockTokens);
  }
  friend bool operator==(const KvShape&, const KvShape&) = default;
};

// A fixed number of KV blocks, each contiguous: all layers, K and V. The order inside a block is
// the backend's own (it is part of the numerics id); on the CPU, per layer and KV head,
// K [head_dim][kKvBlockTokens] then V [kKvBlockTokens][head_dim]. Where the dtype is quantized,
// both are cut into groups of 32 dimensions, each holding the 32 tokens' scales and then the bytes
// of their quant blocks: of K [byte][kKvBlockTokens], of V [kKvBlockTokens][byte]. So every byte is
// one token's: tokens are stored and copied without a look at their neighbours.
class KvArena {
 public:
  virtual ~KvArena() = default;
  const KvShape& shape() const { return shape_; }
  uint32_t num_blocks() const { return num_blocks_; }
  // Address of a block in the backend's memory. On the CPU readable and writable by any thread that
  // has exclusive use of the block.
  std::byte* block(BlockId id) { return base_ + static_cast<size_t>(id.value) * block_bytes_; }
  const std::byte* block(BlockId id) const {
    return base_ + static_cast<size_t>(id.value) * block_bytes_;
  }
  size_t block_bytes() const { return block_bytes_; }

 protected:
  KvArena(const KvShape& shape, uint32_t num_blocks)
      : shape_(shape), num_blocks_(num_blocks), block_bytes_(shape.block_bytes()) {}
  std::byte* base_ = nullptr;

 private:
  KvShape shape_;
  uint32_t num_blocks_;
  size_t block_bytes_;
};

// A run of rows in a batch that belong to one sequence: row first_row + i is the token at position
// first_position + i. block_table[p / kKvBlockTokens] holds position p, for every
// p < first_position + num_rows that is written or that a row sees: entries before every row's
// window are never read.
struct SequenceRows {
  int first_row = 0;
  int num_rows = 0;
  int first_position = 0;
  std::span<const BlockId> block_table;
  // Tokens that were taken out of the table, whole blocks of them: a multiple of kKvBlockTokens.
  // Positions above count what the table still holds (slots); a row's place in the text, which its
  // rotation depends on, is its slot + num_dropped_tokens. Backends do not look at it.
  int num_dropped_tokens = 0;
  // Null, or [block_table.size()] in host memory: see Attention.
  uint64_t* block_mass = nullptr;
};

// Units of SequenceRows::block_mass in one attention probability of 1. Integers, so that sums are
// the same bits in any order: a sequence's mass does not show how it was cut into calls.
inline constexpr uint64_t kAttentionMassOne = uint64_t{1} << 24;

// y[M, N] = x[M, K] * weight^T (+ bias[N]) (+ the old y, where accumulate).
struct MatMulTask {
  const Weight* weight = nullptr;
  const float* bias = nullptr;  // [N] or null
  float* y = nullptr;           // [M, N]; must not overlap x
  bool accumulate = false;
};

enum class RopeKind : uint8_t {
  kInterleaved,  // pairs (2i, 2i+1): llama GGUF files
  kHalves,       // pairs (i, i + rotary_dim/2): GPT-NeoX, qwen2
};

struct AttentionShape {
  int num_heads = 0;  // a multiple of num_kv_heads; query head h reads KV head h / (heads/kv_heads)
  float scale = 0;    // usually 1/sqrt(head_dim)
  int window = 0;     // a row sees its own position and the window - 1 before it; 0: all before it
  float softcap = 0;  // scores become softcap * tanh(score / softcap); 0: they stay as they are
  // [num_heads] or null: one more score in each head's softmax, uncapped and without a value.
  const float* sinks = nullptr;
};

enum class GluKind : uint8_t {
  kSilu,         // silu(gate) * up, silu(g) = g * sigmoid(g): Shazeer 2020
  kGeluTanh,     // gelu(gate) * up, gelu(g) = g / 2 * (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3)))
  kClampedSilu,  // g * sigmoid(1.702 g) * (u + 1), g = min(gate, 7), u = clamp(up, -7, 7): gpt-oss
};

// How far the sums of TopRows may be off, relative to themselves.
inline constexpr double kExpSumTolerance = 1e-5;
inline constexpr int kTopCountMax = 256;
inline constexpr int64_t kTopColumnsMax = int64_t{1} << 19;

struct TopRowsTask {
  const float* x = nullptr;  // [num_rows, columns]
  int num_rows = 0;
  int64_t columns = 0;            // <= kTopColumnsMax
  int count = 0;                  // of values wanted of a row, <= kTopCountMax; may exceed columns
  std::span<const float> scales;  // [num_rows], host memory, finite, above 0
};

// Host memory of the caller.
struct TopRowsResult {
  TokenId* ids = nullptr;            // [num_rows, count]: columns
  float* values = nullptr;           // [num_rows, count]
  float* exp_sums = nullptr;         // [num_rows]
  float* scaled_exp_sums = nullptr;  // [num_rows]
};

struct BackendInfo {
  std::string name;         // "cpu", "reference"
  std::string target;       // SIMD target or device: "AVX2", "sm_90"
  std::string numerics_id;  // equal ids: equal bits, and equal order inside KV blocks
  bool invariant = false;
  int num_threads = 1;
  bool kv_host_visible = false;  // KvArena::block is host memory that any thread may read and write
  // MixExperts chooses the experts by itself: nothing waits for it (kernels/experts.h).
  bool routes_experts = false;
};

// Of a device with memory of its own.
struct BackendMemory {
  uint64_t bytes_total = 0;
  uint64_t bytes_free = 0;
};

// A block to be copied, and where in host memory: block_bytes() of an AllocateHost.
struct KvBlockCopy {
  BlockId block;
  std::byte* host = nullptr;
};

// Mixtures of experts: kernels/experts.h.
class ExpertSet;
class ExpertScratch;
struct ExpertSetView;
struct ExpertShape;
struct ExpertMixTask;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& Info() const = 0;
  // As it is now; zeros where the backend works in the host's memory.
  virtual BackendMemory Memory() const { return {}; }

  // --- memory ---------------------------------------------------------------------------------
  // kUnsupported for a dtype that no weight has, as KV's fp8_e4m3. The view's bytes must outlive
  // the weight (a backend may keep reading them).
  Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view);
  // Zero-filled. kOverloaded when the memory is not there.
  Result<std::unique_ptr<FloatBuffer>> AllocateFloats(size_t count);
  // Blocks are NaN-filled where KVGATE_DEBUG is set. kOverloaded when the memory is not there;
  // kInvalidArgument (field: "kv_dtype") where the dtype's groups do not divide head_dim.
  Result<std::unique_ptr<KvArena>> AllocateKv(const KvShape& shape, uint32_t num_blocks);
  // For what moves to the backend's memory and back in bulk; 64-aligned, bytes unspecified. Any
  // thread may call it, and locking many gigabytes takes seconds: not the engine's. kOverloaded
  // when the memory is not there or the system does not lock so much.
  Result<std::unique_ptr<HostBuffer>> AllocateHost(size_t bytes);

  // Says that EmbedRows will be called with `table`: a backend with memory of its own may keep a
  // copy there as long as it lives, so the table's bytes must not change. Without this EmbedRows
  // reads the rows from the host. kOverloaded when the memory is not there.
  Result<void> LoadTable(const WeightView& table);

  // A layer's mixture, of this backend's weights; and scratch that mixtures of one shape share.
  // kOverloaded when the memory is not there.
  Result<std::unique_ptr<ExpertSet>> LoadExperts(const ExpertSetView& view);
  Result<std::unique_ptr<ExpertScratch>> AllocateExpertScratch(const ExpertShape& shape,
                                                               int num_rows_max);

  // Host memory to backend memory and back, in floats.
  void CopyIn(std::span<const float> host, float* device);
  void CopyOut(const float* device, std::span<float> host);

  // Whole blocks between host memory and the arena; block_bytes() long; the copy is complete on
  // return. Any thread may call these for blocks it has exclusive use of, where every StoreKv and
  // Attention of the block was followed by a Synchronize; they do not wait for a step that is under
  // way. On the thread that issues operations they come after all of them.
  void ReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host);
  void WriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host);
  // The same for many blocks, beside the operations: begins to copy and returns a ticket, or 0 when
  // it was done at once. Tickets rise. A copy comes after the operations issued before it, and
  // after the copies begun before it, of one block or many, that share a block or host memory with
  // it. Operations do not wait for it: until it is done the caller lets none write what
  // ReadKvBlocks reads or use what WriteKvBlocks writes, and keeps its own hands off the host
  // memory. Copies of one direction are done in the order in which they were begun.
  uint64_t ReadKvBlocks(const KvArena& arena, std::span<const KvBlockCopy> copies);
  uint64_t WriteKvBlocks(KvArena& arena, std::span<const KvBlockCopy> copies);
  // Whether the copy is done; does not wait. True for 0.
  virtual bool IsCopied(uint64_t) { return true; }
  virtual void WaitForCopy(uint64_t) {}
  // Copies the first num_tokens tokens of a block; what the other slots of `to` hold is unspecified
  // (NaN where KVGATE_DEBUG is set). 0 <= num_tokens <= kKvBlockTokens.
  void CopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens);
  // Fills a block with NaN, so that a read of what nobody wrote shows.
  void PoisonKvBlock(KvArena& arena, BlockId id);

  // --- operations -----------------------------------------------------------------------------
  // y[i, :] = row ids[i] of `table`, dequantized. ids are in [0, rows). table is host memory.
  void EmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y);
  // y[i, :] = x[rows[i], :]; x is [*, columns], y is [rows.size(), columns].
  void GatherRows(const float* x, std::span<const int> rows, int64_t columns, float* y);
  // y[rows[i], :] += factors[i] * x[i, :], i rising, also where a row is named twice. x is
  // [rows.size(), columns], y is [*, columns]; rows and factors are host memory. f32.
  void ScatterAddRows(const float* x, std::span<const int> rows, std::span<const float> factors,
                      int64_t columns, float* y);
  // Several products of one x [M, K]; every task's weight has K columns. f32 accumulation; for
  // quantized weights a backend may quantize x (its numerics_id says how).
  void MatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks);
  // y += factor * a mixture of experts of x: kernels/experts.h. Waits for everything issued before,
  // as CopyOut does, but where Info().routes_experts.
  void MixExperts(const ExpertMixTask& task);
  // y[r, i] = weight[i] * x[r, i] / sqrt(mean_i(x[r, i]^2) + eps), the mean accumulated in f32 or
  // better. In place allowed. Source: Zhang & Sennrich 2019.
  void RmsNorm(const float* x, const float* weight, float eps, int num_rows, int64_t columns,
               float* y);
  // table[r, i] = {cos, sin}(positions[r] * inv_freq[i]) * magnitude, as [rows, half, 2]; one per
  // step. A magnitude other than 1 is YaRN's (Peng et al. 2023).
  void RopeTable(std::span<const int> positions, std::span<const float> inv_freq, float magnitude,
                 float* table);
  // Rotates x [rows, num_heads, head_dim] in place by a table of RopeTable with
  // half = rotary_dim / 2; dimensions past rotary_dim stay. Source: Su et al. 2021.
  struct RopeArgs {
    RopeKind kind;
    int num_heads;
    int head_dim;
    int rotary_dim;
  };
  void Rope(float* x, int num_rows, const RopeArgs& args, const float* table);
  // Rounds k, v [M, num_kv_heads, head_dim] to the KV dtype (nearest even; QuantizeBlock of
  // kernels/dtype.h along head_dim) and stores each row at its sequence's position in `layer`.
  void StoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences, int layer,
               KvArena& arena);
  // Causal attention of q [M, num_heads, head_dim] over the stored KV of `layer`; each row sees the
  // positions 0..its own, its own included, or those of them in its window. out as q, not
  // overlapping it. f32 softmax. What lies in slots that a row does not see may be NaN.
  // Where a sequence has a block_mass, each of its rows and query heads adds to block_mass[b] the
  // probability it puts on block b, in units of 1 / kAttentionMassOne, rounded to the nearest: each
  // row and head adds up to about one, less what its sink takes. Complete after Synchronize(). out
  // has the same bits with it and without.
  void Attention(const float* q, std::span<const SequenceRows> sequences, int layer,
                 const KvArena& arena, const AttentionShape& shape, float* out);
  // out[i] = the gated unit of `kind` of gate[i] and up[i]; in place allowed.
  void Glu(GluKind kind, const float* gate, const float* up, size_t count, float* out);
  // y[i] += factor * x[i]; with a factor of 1 rounded once.
  void AddScaled(const float* x, float factor, size_t count, float* y);
  // x[i] *= factor
  void Scale(float factor, size_t count, float* x);
  // x[i] = cap * tanh(x[i] / cap); cap > 0. Source: Gemma 2 report, 2024.
  void SoftCap(float cap, size_t count, float* x);
  // Of each row the greatest values, greatest first, of equal ones the lower column first, and the
  // sums that a softmax of the row needs:
  //   values[r, i] = x[r, ids[r, i]], m = values[r, 0]
  //   exp_sums[r] = sum_i exp(x[r, i] - m), scaled_exp_sums[r] = sum_i exp((x[r, i] - m) scales[r])
  // i over all columns; each sum within kExpSumTolerance, 0 where m is -infinity. NaN counts as
  // -infinity, +infinity as the greatest finite number, -0 as 0. Behind the last column ids are -1
  // and values -infinity. Waits for everything issued before, as CopyOut does.
  void TopRows(const TopRowsTask& task, const TopRowsResult& to);

  // Waits until every operation issued so far has finished.
  virtual void Synchronize() {}

 private:
  virtual Result<std::unique_ptr<Weight>> DoLoadWeight(const WeightView& view) = 0;
  virtual Result<std::unique_ptr<FloatBuffer>> DoAllocateFloats(size_t count) = 0;
  virtual Result<std::unique_ptr<KvArena>> DoAllocateKv(const KvShape& shape,
                                                        uint32_t num_blocks) = 0;
  virtual Result<std::unique_ptr<HostBuffer>> DoAllocateHost(size_t bytes) = 0;
  virtual Result<void> DoLoadTable(const WeightView&) { return {}; }
  // The three of experts have the host's way of host_experts.h, by the operations of this backend.
  virtual Result<std::unique_ptr<ExpertSet>> DoLoadExperts(const ExpertSetView& view);
  virtual Result<std::unique_ptr<ExpertScratch>> DoAllocateExpertScratch(const ExpertShape& shape,
                                                                         int num_rows_max);
  virtual void DoCopyIn(std::span<const float> host, float* device) = 0;
  virtual void DoCopyOut(const float* device, std::span<float> host) = 0;
  virtual void DoReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) = 0;
  virtual void DoWriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) = 0;
  virtual uint64_t DoReadKvBlocks(const KvArena& arena, std::span<const KvBlockCopy> copies);
  virtual uint64_t DoWriteKvBlocks(KvArena& arena, std::span<const KvBlockCopy> copies);
  virtual void DoCopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) = 0;
  virtual void DoPoisonKvBlock(KvArena& arena, BlockId id) = 0;
  virtual void DoEmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y) = 0;
  virtual void DoGatherRows(const float* x, std::span<const int> rows, int64_t columns,
                            float* y) = 0;
  virtual void DoScatterAddRows(const float* x, std::span<const int> rows,
                                std::span<const float> factors, int64_t columns, float* y) = 0;
  virtual void DoMatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks) = 0;
  virtual void DoMixExperts(const ExpertMixTask& task);
  virtual void DoRmsNorm(const float* x, const float* weight, float eps, int num_rows,
                         int64_t columns, float* y) = 0;
  virtual void DoRopeTable(std::span<const int> positions, std::span<const float> inv_freq,
                           float magnitude, float* table) = 0;
  virtual void DoRope(float* x, int num_rows, const RopeArgs& args, const float* table) = 0;
  virtual void DoStoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences,
                         int layer, KvArena& arena) = 0;
  virtual void DoAttention(const float* q, std::span<const SequenceRows> sequences, int layer,
                           const KvArena& arena, const AttentionShape& shape, float* out) = 0;
  virtual void DoGlu(GluKind kind, const float* gate, const float* up, size_t count,
                     float* out) = 0;
  virtual void DoAddScaled(const float* x, float factor, size_t count, float* y) = 0;
  virtual void DoScale(float factor, size_t count, float* x) = 0;
  virtual void DoSoftCap(float cap, size_t count, float* x) = 0;
  virtual void DoTopRows(const TopRowsTask& task, const TopRowsResult& to) = 0;
};

}  // namespace kvgate::kernels
