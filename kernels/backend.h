// Backend: the tensor operations that a transformer's forward pass consists of.
//
// Public operations check shapes and dtypes once (KVGATE_CHECK, because the callers are our own
// code), then call the private virtual Do*. kernels/reference is the specification, and
// tests/kernels compare every backend with it. Kernels know tensors, not requests.
//
// Invariant numerics. For a backend whose Info().invariant is true, the bits of an output row
// depend only on that row's own inputs: not on the number of rows in the call, on the row's place
// among them, on how a sequence was cut into calls, or on the number of threads. Therefore KV
// written by decode, by prefill in any chunks, and restored from disk are the same bits. This
// requires that
//   * MatMul accumulates along K in one fixed order for every number of rows;
//   * Attention visits the KV blocks in order from position 0, with one block as one tile;
//   * StoreKv rounds K and V to the KV dtype before anyone reads them.
//
// Memory: `float*` and KV blocks are memory of this backend (host memory on the CPU). Operations
// are issued in order from one thread. Synchronize() and CopyOut wait for all of them, and the
// memory they use must stay valid until then. Activations are f32, row-major and dense: row r of
// [M, C] starts at data + r * C.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/dtype.h"

namespace kvgate::kernels {

// A KV block holds this many consecutive tokens and starts at a multiple of this number.
inline constexpr int kKvBlockTokens = 32;

// A matrix as stored in a model file: [rows, columns], row-major, in host memory.
struct WeightView {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
  int64_t rows = 0;     // N: outputs
  int64_t columns = 0;  // K: inputs; a multiple of DTypeElements(dtype)
  // The data is in a read-only file mapping. After making its own copy a backend may drop the
  // mapping's pages ("base/pages.h"), so that the model is not in memory twice.
  bool is_file_mapping = false;
  // The matrix of an expert, which MixExperts multiplies; its layout must suit rows chosen one by
  // one.
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

// Host memory for copies to and from the backend's device at full speed, page-locked if that helps.
// The caller may use its bytes from any thread.
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

// KV of one token in one layer: K [num_kv_heads, head_dim], and V of the same shape.
struct KvShape {
  int num_layers = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kF16;  // one of kKvDTypes; q8_0 and q4_0 use groups of 32 along head_dim

  // K and V of one block over all layers, without padding.
  size_t block_bytes() const {
    return 2 * static_cast<size_t>(num_layers) * num_kv_heads *
           DTypeBytes(dtype, static_cast<size_t>(head_dim) * kKvBlockTokens);
  }
  friend bool operator==(const KvShape&, const KvShape&) = default;
};

// A fixed number of KV blocks, each contiguous: all layers, K and V. The order inside a block is up
// to the backend (it is part of the numerics id). On the CPU it is, per layer and KV head, K
// [head_dim][kKvBlockTokens] then V [kKvBlockTokens][head_dim]. If the dtype is quantized, both
// consist of groups of 32 dimensions, each with the scales of the 32 tokens followed by the bytes
// of their quant blocks: for K [byte][kKvBlockTokens], for V [kKvBlockTokens][byte]. Thus every
// byte belongs to one token, and tokens can be stored and copied without touching their neighbours.
class KvArena {
 public:
  virtual ~KvArena() = default;
  const KvShape& shape() const { return shape_; }
  uint32_t num_blocks() const { return num_blocks_; }
  // Address of a block in the backend's memory. On the CPU, any thread with exclusive use of the
  // block may read and write it.
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
// first_position + i. block_table[p / kKvBlockTokens] is the block of position p for every p <
// first_position + num_rows that is written or visible to a row; entries before all rows' windows
// are never read.
struct SequenceRows {
  int first_row = 0;
  int num_rows = 0;
  int first_position = 0;
  std::span<const BlockId> block_table;
  // Number of tokens that were removed from the table in whole blocks; a multiple of
  // kKvBlockTokens. Positions above count what the table still holds (slots). A row's position in
  // the text, on which its rotation depends, is its slot + num_dropped_tokens. Backends ignore this
  // member.
  int num_dropped_tokens = 0;
  // Null, or [block_table.size()] in host memory; see Attention.
  uint64_t* block_mass = nullptr;
};

// Units of SequenceRows::block_mass in an attention probability of 1. The sums are integers, so
// that they are the same in any order and do not depend on how a sequence was cut into calls.
inline constexpr uint64_t kAttentionMassOne = uint64_t{1} << 24;

// y[M, N] = x[M, K] * weight^T (+ bias[N]) (+ the old y, if accumulate).
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
  int window = 0;     // a row sees its own position and the window - 1 before it; 0 means all
  float softcap = 0;  // scores become softcap * tanh(score / softcap); 0 means unchanged
  // [num_heads] or null: an extra score in each head's softmax, uncapped and without a value.
  const float* sinks = nullptr;
};

// Normalisation of rows. The mean m of a row x, its mean square and its variance v (the mean of
// (x - m)^2) are accumulated in f32 or better.
enum class NormKind : uint8_t {
  kRms,    // weight * x / sqrt(mean(x^2) + eps): Zhang & Sennrich 2019
  kLayer,  // weight * (x - m) / sqrt(v + eps) + bias: Ba et al. 2016
};

struct NormArgs {
  NormKind kind = NormKind::kRms;
  const float* weight = nullptr;  // [columns]
  const float* bias = nullptr;    // [columns], of kLayer only
  float eps = 0;
};

enum class GluKind : uint8_t {
  kSilu,         // silu(gate) * up, silu(g) = g * sigmoid(g): Shazeer 2020
  kGeluTanh,     // gelu(gate) * up, gelu(g) = g / 2 * (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3)))
  kClampedSilu,  // g * sigmoid(1.702 g) * (u + 1), g = min(gate, 7), u = clamp(up, -7, 7): gpt-oss
  // gelu(gate) * up, gelu(g) = g * F(g) with F the distribution function of the standard normal, to
  // 2e-7: Hendrycks & Gimpel 2016
  kGelu,
};

// Allowed relative error of the sums of TopK.
inline constexpr double kExpSumTolerance = 1e-5;
inline constexpr int kTopCountMax = 256;
inline constexpr int64_t kTopColumnsMax = int64_t{1} << 19;

struct TopKTask {
  const float* x = nullptr;  // [num_rows, columns]
  int num_rows = 0;
  int64_t columns = 0;            // <= kTopColumnsMax
  int count = 0;                  // values wanted per row, <= kTopCountMax; may exceed columns
  std::span<const float> scales;  // [num_rows], host memory, finite, above 0
};

// The output of TopK; host memory of the caller.
struct TopKResult {
  TokenId* ids = nullptr;            // [num_rows, count]: columns
  float* values = nullptr;           // [num_rows, count]
  float* exp_sums = nullptr;         // [num_rows]
  float* scaled_exp_sums = nullptr;  // [num_rows]
};

struct BackendInfo {
  std::string name;         // "cpu", "reference"
  std::string target;       // SIMD target or device: "AVX2", "sm_90"
  std::string numerics_id;  // equal ids mean equal bits and equal order inside KV blocks
  bool invariant = false;
  int num_threads = 1;
  bool kv_host_visible = false;  // KvArena::block is host memory open to any thread
  // MixExperts selects the experts on the device, so that no operation waits for it
  // (kernels/experts.h).
  bool routes_experts = false;
};

// Memory of a device that has its own.
struct BackendMemory {
  uint64_t bytes_total = 0;
  uint64_t bytes_free = 0;
};

// A block to copy, and its host memory: block_bytes() bytes from an AllocateHost.
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
  // Returns the current state; zeros if the backend works in host memory.
  virtual BackendMemory Memory() const { return {}; }

  // --- memory ---------------------------------------------------------------------------------
  // Returns kUnsupported for a dtype that is for KV only, such as fp8_e4m3. The view's bytes must
  // outlive the weight, because a backend may keep reading them.
  Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view);
  // Zero-filled. Returns kOverloaded if there is not enough memory.
  Result<std::unique_ptr<FloatBuffer>> AllocateFloats(size_t count);
  // Blocks are filled with NaN if KVGATE_DEBUG is set. Returns kOverloaded if there is not enough
  // memory; kInvalidArgument (field: "kv_dtype") if the dtype's groups do not divide head_dim.
  Result<std::unique_ptr<KvArena>> AllocateKv(const KvShape& shape, uint32_t num_blocks);
  // Allocates a buffer for bulk copies to and from the backend's memory; 64-aligned, content
  // unspecified. Any thread may call it. Page-locking many gigabytes takes seconds, so do not call
  // it on the engine's thread. Returns kOverloaded if there is not enough memory or the system
  // refuses to lock it.
  Result<std::unique_ptr<HostBuffer>> AllocateHost(size_t bytes);

  // Announces that EmbedRows will be called with `table`. A backend with its own memory may keep a
  // copy of it for its lifetime, so the table's bytes must not change. Without this call EmbedRows
  // reads the rows from the host. Returns kOverloaded if there is not enough memory.
  Result<void> LoadTable(const WeightView& table);

  // Makes a layer's mixture from weights of this backend, and scratch for mixtures of one shape.
  // Return kOverloaded if there is not enough memory.
  Result<std::unique_ptr<ExpertSet>> LoadExperts(const ExpertSetView& view);
  Result<std::unique_ptr<ExpertScratch>> AllocateExpertScratch(const ExpertShape& shape,
                                                               int num_rows_max);

  // Copy between host and backend memory; sizes are in floats.
  void CopyIn(std::span<const float> host, float* device);
  void CopyOut(const float* device, std::span<float> host);

  // Copy one whole block of block_bytes() between host memory and the arena; complete on return.
  // Any thread with exclusive use of the block may call these if every StoreKv and Attention of the
  // block was followed by a Synchronize; they do not wait for a running step. On the thread that
  // issues operations, they are executed after all earlier operations.
  void ReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host);
  void WriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host);
  // Copy many blocks asynchronously: each call starts the copy and returns a ticket, or 0 if the
  // copy is complete. Tickets increase. A copy is executed after the operations issued before it,
  // and after earlier copies (of one block or many) that share a block or host memory with it.
  // Later operations do not wait for it: until it is done, the caller must not let them write what
  // ReadKvBlocks reads or use what WriteKvBlocks writes, and must not touch the host memory. Copies
  // of one direction complete in the order in which they were started.
  uint64_t ReadKvBlocks(const KvArena& arena, std::span<const KvBlockCopy> copies);
  uint64_t WriteKvBlocks(KvArena& arena, std::span<const KvBlockCopy> copies);
  // Returns true if the copy is done, and always for ticket 0. Does not wait.
  virtual bool IsCopied(uint64_t) { return true; }
  virtual void WaitForCopy(uint64_t) {}
  // Copies the first num_tokens tokens of a block. The other slots of `to` are unspecified
  // afterwards (NaN if KVGATE_DEBUG is set). 0 <= num_tokens <= kKvBlockTokens.
  void CopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens);
  // Fills a block with NaN, so that reads of unwritten slots become visible.
  void PoisonKvBlock(KvArena& arena, BlockId id);

  // --- operations -----------------------------------------------------------------------------
  // y[i, :] = row ids[i] of `table`, dequantized. ids are in [0, rows). table is host memory.
  void EmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y);
  // y[i, :] = x[rows[i], :]; x is [*, columns], y is [rows.size(), columns].
  void GatherRows(const float* x, std::span<const int> rows, int64_t columns, float* y);
  // y[rows[i], :] += factors[i] * x[i, :] in the order of i, even if a row occurs twice. x is
  // [rows.size(), columns], y is [*, columns]; rows and factors are host memory. f32.
  void ScatterAddRows(const float* x, std::span<const int> rows, std::span<const float> factors,
                      int64_t columns, float* y);
  // Computes several products of the same x [M, K]; every task's weight has K columns. Accumulates
  // in f32. For quantized weights a backend may quantize x (its numerics_id says how).
  void MatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks);
  // y += factor * a mixture of experts of x: kernels/experts.h. Waits for all earlier operations,
  // as CopyOut does, unless Info().routes_experts.
  void MixExperts(const ExpertMixTask& task);
  // y[r, :] = x[r, :] normalised; x and y are [num_rows, columns]. In place allowed.
  void Norm(const float* x, const NormArgs& norm, int num_rows, int64_t columns, float* y);
  // table[r, i] = {cos, sin}(positions[r] * inv_freq[i]) * magnitude, as [rows, half, 2]; called
  // once per step. A magnitude other than 1 is used by YaRN (Peng et al. 2023).
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
  // Computes causal attention of q [M, num_heads, head_dim] over the stored KV of `layer`. Each row
  // sees the positions from 0 to its own inclusive, limited to its window. `out` has the shape of q
  // and must not overlap it. The softmax is f32. Slots that a row does not see may hold NaN. If a
  // sequence has a block_mass, each of its rows and query heads adds to block_mass[b] the
  // probability it assigns to block b, in units of 1 / kAttentionMassOne, rounded to nearest. Each
  // row and head adds about one in total, less the share of its sink. The sums are complete after
  // Synchronize(). block_mass does not change the bits of `out`.
  void Attention(const float* q, std::span<const SequenceRows> sequences, int layer,
                 const KvArena& arena, const AttentionShape& shape, float* out);
  // out[i] = the gated unit of `kind` applied to gate[i] and up[i]; in place allowed. `up` may be
  // null for kGelu: then it is 1, an activation without a gate.
  void Glu(GluKind kind, const float* gate, const float* up, size_t count, float* out);
  // y[i] += factor * x[i]; with a factor of 1 there is a single rounding.
  void AddScaled(const float* x, float factor, size_t count, float* y);
  // x[i] *= factor
  void Scale(float factor, size_t count, float* x);
  // x[i] = cap * tanh(x[i] / cap); cap > 0. Source: Gemma 2 report, 2024.
  void SoftCap(float cap, size_t count, float* x);
  // For each row: the greatest values, in descending order, equal ones by ascending column, and the
  // sums that a softmax of the row needs:
  //   values[r, i] = x[r, ids[r, i]], m = values[r, 0]
  //   exp_sums[r] = sum_i exp(x[r, i] - m), scaled_exp_sums[r] = sum_i exp((x[r, i] - m) scales[r])
  // with i over all columns; each sum within kExpSumTolerance, 0 if m is -infinity. NaN counts as
  // -infinity, +infinity as the greatest finite number, -0 as 0. If there are fewer columns than
  // `count`, the remaining ids are -1 and values -infinity. Waits for all earlier operations, as
  // CopyOut does.
  void TopK(const TopKTask& task, const TopKResult& to);

  // Waits until every operation issued so far has finished.
  virtual void Synchronize() {}

 private:
  virtual Result<std::unique_ptr<Weight>> DoLoadWeight(const WeightView& view) = 0;
  virtual Result<std::unique_ptr<FloatBuffer>> DoAllocateFloats(size_t count) = 0;
  virtual Result<std::unique_ptr<KvArena>> DoAllocateKv(const KvShape& shape,
                                                        uint32_t num_blocks) = 0;
  virtual Result<std::unique_ptr<HostBuffer>> DoAllocateHost(size_t bytes) = 0;
  virtual Result<void> DoLoadTable(const WeightView&) { return {}; }
  // By default, experts are routed on the host with the other operations of this backend
  // (host_experts.h).
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
  virtual void DoNorm(const float* x, const NormArgs& norm, int num_rows, int64_t columns,
                      float* y) = 0;
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
  virtual void DoTopK(const TopKTask& task, const TopKResult& to) = 0;
};

}  // namespace kvgate::kernels
