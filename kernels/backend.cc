#include "kernels/backend.h"

#include <fmt/format.h>

#include <limits>

#include "base/check.h"
#include "kernels/experts.h"
#include "kernels/host_experts.h"

namespace kvgate::kernels {
namespace {

// Checks that the sequences cover rows 0..M-1 in order and that every position has a block. Returns
// M.
int CheckSequences(std::span<const SequenceRows> sequences, const KvArena& arena) {
  int next_row = 0;
  for (const SequenceRows& sequence : sequences) {
    KVGATE_CHECK(sequence.first_row == next_row && sequence.num_rows > 0, "sequence rows");
    KVGATE_CHECK(sequence.first_position >= 0, "sequence position");
    KVGATE_CHECK(
        sequence.num_dropped_tokens >= 0 && sequence.num_dropped_tokens % kKvBlockTokens == 0,
        "dropped tokens are whole blocks");
    const size_t end = static_cast<size_t>(sequence.first_position) + sequence.num_rows;
    KVGATE_CHECK(sequence.block_table.size() * kKvBlockTokens >= end, "block table too short");
    KVGATE_DCHECK(sequence.block_table[(end - 1) / kKvBlockTokens].value < arena.num_blocks(),
                  "block id");
    next_row += sequence.num_rows;
  }
  (void)arena;
  return next_row;
}

// Returns "f32, f16, ...".
std::string KvDTypeNames() {
  std::string names;
  for (const DType dtype : kKvDTypes) {
    if (!names.empty()) names += ", ";
    names += DTypeName(dtype);
  }
  return names;
}

void CheckBlock(const KvArena& arena, BlockId id) {
  KVGATE_CHECK(id.value < arena.num_blocks(), "block id past the arena");
}

bool HasShape(const Weight* weight, int64_t rows, int64_t columns) {
  return weight != nullptr && weight->rows() == rows && weight->columns() == columns;
}

bool HasShapes(const ExpertMatrices& matrices, int64_t ffn_dim, int64_t hidden_dim) {
  return HasShape(matrices.gate, ffn_dim, hidden_dim) &&
         HasShape(matrices.up, ffn_dim, hidden_dim) && HasShape(matrices.down, hidden_dim, ffn_dim);
}

}  // namespace

Result<std::unique_ptr<Weight>> Backend::LoadWeight(const WeightView& view) {
  KVGATE_CHECK(view.data != nullptr && view.rows > 0 && view.columns > 0, "weight view");
  KVGATE_CHECK(view.columns % DTypeElements(view.dtype) == 0, "weight columns");
  if (!IsWeightDType(view.dtype)) {
    return MakeError(ErrorCode::kUnsupported, "kernels",
                     fmt::format("a weight of dtype {}: it is for KV only", DTypeName(view.dtype)));
  }
  return DoLoadWeight(view);
}

Result<std::unique_ptr<FloatBuffer>> Backend::AllocateFloats(size_t count) {
  return DoAllocateFloats(count);
}

Result<std::unique_ptr<KvArena>> Backend::AllocateKv(const KvShape& shape, uint32_t num_blocks) {
  KVGATE_CHECK(shape.num_layers > 0 && shape.num_kv_heads > 0 && shape.head_dim > 0, "KV shape");
  KVGATE_CHECK(num_blocks > 0, "KV arena without blocks");
  if (!IsKvDType(shape.dtype)) {
    return MakeError(ErrorCode::kInvalidArgument, "kernels",
                     fmt::format("kv_dtype {} is for weights only: use one of {}",
                                 DTypeName(shape.dtype), KvDTypeNames()),
                     "kv_dtype");
  }
  if (const int group = DTypeElements(shape.dtype); shape.head_dim % group != 0) {
    return MakeError(ErrorCode::kInvalidArgument, "kernels",
                     fmt::format("kv_dtype {} takes {} values of a head together, and the model's "
                                 "head_dim is {}: use f16, bf16, fp8_e4m3 or f32",
                                 DTypeName(shape.dtype), group, shape.head_dim),
                     "kv_dtype");
  }
  return DoAllocateKv(shape, num_blocks);
}

Result<std::unique_ptr<HostBuffer>> Backend::AllocateHost(size_t bytes) {
  return DoAllocateHost(bytes);
}

Result<void> Backend::LoadTable(const WeightView& table) {
  KVGATE_CHECK(table.data != nullptr && table.rows > 0 && table.columns > 0, "embedding table");
  KVGATE_CHECK(IsWeightDType(table.dtype), "an embedding table is a weight");
  return DoLoadTable(table);
}

Result<std::unique_ptr<ExpertSet>> Backend::LoadExperts(const ExpertSetView& view) {
  const ExpertRule& rule = view.rule;
  KVGATE_CHECK(rule.num_used > 0 && rule.num_used <= rule.num_experts, "experts used");
  KVGATE_CHECK(std::ssize(view.experts) == rule.num_experts, "experts of the rule");
  KVGATE_CHECK(view.router != nullptr && view.router->rows() == rule.num_experts, "router");
  const int64_t hidden_dim = view.router->columns();
  KVGATE_CHECK(view.experts[0].gate != nullptr, "an expert's matrix");
  for (const ExpertMatrices& expert : view.experts) {
    KVGATE_CHECK(HasShapes(expert, view.experts[0].gate->rows(), hidden_dim), "expert shapes");
  }
  if (view.shared.gate != nullptr) {
    KVGATE_CHECK(HasShapes(view.shared, view.shared.gate->rows(), hidden_dim),
                 "shapes of the shared expert");
  }
  if (view.shared_router != nullptr) {
    KVGATE_CHECK(view.shared.gate != nullptr && HasShape(view.shared_router, 1, hidden_dim),
                 "gate of the shared expert");
  }
  return DoLoadExperts(view);
}

Result<std::unique_ptr<ExpertSet>> Backend::DoLoadExperts(const ExpertSetView& view) {
  return std::make_unique<ExpertSet>(view);
}

Result<std::unique_ptr<ExpertScratch>> Backend::AllocateExpertScratch(const ExpertShape& shape,
                                                                      int num_rows_max) {
  KVGATE_CHECK(shape.num_experts > 0 && shape.num_used > 0 && shape.hidden_dim > 0 &&
                   shape.ffn_dim > 0 && shape.shared_dim >= 0 && num_rows_max > 0,
               "shape of a mixture");
  return DoAllocateExpertScratch(shape, num_rows_max);
}

Result<std::unique_ptr<ExpertScratch>> Backend::DoAllocateExpertScratch(const ExpertShape& shape,
                                                                        int num_rows_max) {
  return HostExpertScratch::Allocate(shape, num_rows_max, *this);
}

void Backend::CopyIn(std::span<const float> host, float* device) { DoCopyIn(host, device); }

void Backend::CopyOut(const float* device, std::span<float> host) { DoCopyOut(device, host); }

void Backend::ReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) {
  CheckBlock(arena, id);
  KVGATE_CHECK(host.size() == arena.block_bytes(), "KV block size");
  DoReadKvBlock(arena, id, host);
}

void Backend::WriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) {
  CheckBlock(arena, id);
  KVGATE_CHECK(host.size() == arena.block_bytes(), "KV block size");
  DoWriteKvBlock(arena, id, host);
}

uint64_t Backend::ReadKvBlocks(const KvArena& arena, std::span<const KvBlockCopy> copies) {
  for (const KvBlockCopy& copy : copies) CheckBlock(arena, copy.block);
  return DoReadKvBlocks(arena, copies);
}

uint64_t Backend::WriteKvBlocks(KvArena& arena, std::span<const KvBlockCopy> copies) {
  for (const KvBlockCopy& copy : copies) CheckBlock(arena, copy.block);
  return DoWriteKvBlocks(arena, copies);
}

uint64_t Backend::DoReadKvBlocks(const KvArena& arena, std::span<const KvBlockCopy> copies) {
  for (const KvBlockCopy& copy : copies) {
    DoReadKvBlock(arena, copy.block, {copy.host, arena.block_bytes()});
  }
  return 0;
}

uint64_t Backend::DoWriteKvBlocks(KvArena& arena, std::span<const KvBlockCopy> copies) {
  for (const KvBlockCopy& copy : copies) {
    DoWriteKvBlock(arena, copy.block, {copy.host, arena.block_bytes()});
  }
  return 0;
}

void Backend::CopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) {
  CheckBlock(arena, from);
  CheckBlock(arena, to);
  KVGATE_CHECK(from != to, "KV block copied onto itself");
  KVGATE_CHECK(num_tokens >= 0 && num_tokens <= kKvBlockTokens, "tokens of a KV block");
  DoCopyKvBlock(arena, from, to, num_tokens);
}

void Backend::PoisonKvBlock(KvArena& arena, BlockId id) {
  CheckBlock(arena, id);
  DoPoisonKvBlock(arena, id);
}

void Backend::EmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y) {
  KVGATE_CHECK(table.data != nullptr && table.columns > 0, "embedding table");
  for (const TokenId id : ids) KVGATE_CHECK(id >= 0 && id < table.rows, "embedding row");
  DoEmbedRows(table, ids, y);
}

void Backend::GatherRows(const float* x, std::span<const int> rows, int64_t columns, float* y) {
  KVGATE_CHECK(columns > 0, "columns");
  DoGatherRows(x, rows, columns, y);
}

void Backend::ScatterAddRows(const float* x, std::span<const int> rows,
                             std::span<const float> factors, int64_t columns, float* y) {
  KVGATE_CHECK(columns > 0, "columns");
  KVGATE_CHECK(rows.size() == factors.size(), "one factor per row");
  for (const int row : rows) KVGATE_CHECK(row >= 0, "scattered row");
  if (!rows.empty()) DoScatterAddRows(x, rows, factors, columns, y);
}

void Backend::MatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks) {
  KVGATE_CHECK(num_rows > 0 && !tasks.empty(), "empty product");
  for (const MatMulTask& task : tasks) {
    KVGATE_CHECK(task.weight != nullptr && task.y != nullptr, "product without weight or output");
    KVGATE_CHECK(task.weight->columns() == tasks[0].weight->columns(), "products of one x");
  }
  DoMatMul(x, num_rows, tasks);
}

void Backend::MixExperts(const ExpertMixTask& task) {
  KVGATE_CHECK(
      task.experts != nullptr && task.scratch != nullptr && task.x != nullptr && task.y != nullptr,
      "a mixture without experts, scratch, input or output");
  const ExpertShape& shape = task.scratch->shape();
  const ExpertSetView& view = task.experts->view();
  KVGATE_CHECK(task.num_rows > 0 && task.num_rows <= task.scratch->num_rows_max(),
               "rows of a mixture");
  KVGATE_CHECK(shape.num_experts == view.rule.num_experts && shape.num_used == view.rule.num_used &&
                   shape.hidden_dim == task.experts->hidden_dim() &&
                   shape.ffn_dim == task.experts->ffn_dim() &&
                   (view.shared.gate == nullptr || view.shared.gate->rows() == shape.shared_dim),
               "scratch for experts of another shape");
  DoMixExperts(task);
}

void Backend::DoMixExperts(const ExpertMixTask& task) {
  static_cast<HostExpertScratch*>(task.scratch)->Mix(task, *this);
}

void Backend::Norm(const float* x, const NormArgs& norm, int num_rows, int64_t columns, float* y) {
  KVGATE_CHECK(num_rows > 0 && columns > 0, "empty norm");
  KVGATE_CHECK(norm.weight != nullptr && (norm.bias != nullptr) == (norm.kind == NormKind::kLayer),
               "weights of a norm");
  DoNorm(x, norm, num_rows, columns, y);
}

void Backend::RopeTable(std::span<const int> positions, std::span<const float> inv_freq,
                        float magnitude, float* table) {
  DoRopeTable(positions, inv_freq, magnitude, table);
}

void Backend::Rope(float* x, int num_rows, const RopeArgs& args, const float* table) {
  KVGATE_CHECK(args.rotary_dim > 0 && args.rotary_dim <= args.head_dim && args.rotary_dim % 2 == 0,
               "rotary dimension");
  DoRope(x, num_rows, args, table);
}

void Backend::StoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences,
                      int layer, KvArena& arena) {
  KVGATE_CHECK(layer >= 0 && layer < arena.shape().num_layers, "layer");
  if (CheckSequences(sequences, arena) == 0) return;
  DoStoreKv(k, v, sequences, layer, arena);
}

void Backend::Attention(const float* q, std::span<const SequenceRows> sequences, int layer,
                        const KvArena& arena, const AttentionShape& shape, float* out) {
  KVGATE_CHECK(layer >= 0 && layer < arena.shape().num_layers, "layer");
  KVGATE_CHECK(shape.num_heads > 0 && shape.num_heads % arena.shape().num_kv_heads == 0,
               "query heads are a multiple of KV heads");
  KVGATE_CHECK(shape.window >= 0 && shape.softcap >= 0, "attention window and softcap");
  if (CheckSequences(sequences, arena) == 0) return;
  DoAttention(q, sequences, layer, arena, shape, out);
}

void Backend::Glu(GluKind kind, const float* gate, const float* up, size_t count, float* out) {
  KVGATE_CHECK(up != nullptr || kind == GluKind::kGelu, "a gated unit without a gate");
  DoGlu(kind, gate, up, count, out);
}

void Backend::AddScaled(const float* x, float factor, size_t count, float* y) {
  DoAddScaled(x, factor, count, y);
}

void Backend::Scale(float factor, size_t count, float* x) { DoScale(factor, count, x); }

void Backend::SoftCap(float cap, size_t count, float* x) {
  KVGATE_CHECK(cap > 0, "softcap");
  DoSoftCap(cap, count, x);
}

void Backend::TopK(const TopKTask& task, const TopKResult& to) {
  KVGATE_CHECK(task.num_rows > 0 && task.columns > 0 && task.columns <= kTopColumnsMax,
               "rows and columns to take the top of");
  KVGATE_CHECK(task.count > 0 && task.count <= kTopCountMax, "values of a row");
  KVGATE_CHECK(std::ssize(task.scales) == task.num_rows, "one scale per row");
  for (const float scale : task.scales) {
    KVGATE_CHECK(scale > 0 && scale <= std::numeric_limits<float>::max(), "scale");
  }
  DoTopK(task, to);
}

}  // namespace kvgate::kernels
