#include "kernels/cuda/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include <kvgate/check.h>

#include "kernels/cuda/attention_types.h"
#include "kernels/cuda/device_error.h"
#include "kernels/cuda/device_kv_arena.h"
#include "kernels/cuda/device_memory.h"

namespace kvgate::kernels::cuda {
namespace {

// A sequence of at most so many tiles of kWarpRows rows has its splits on different thread blocks,
// each tile reading the KV again. More rows fill the device by themselves.
constexpr int kSplitTilesMax = 8;
// Of all sequences of one set of launches: bounds what it stages to a few MiB.
constexpr size_t kLaunchTilesMax = size_t{1} << 18;
constexpr size_t kPartialBytesMax = size_t{256} << 20;
constexpr size_t kScratchBytesMin = size_t{1} << 20;

int CeilDivide(int a, int b) { return (a + b - 1) / b; }

// About eight steps an octave: what a growing context makes of a grid changes seldom.
int Bucket(size_t count) {
  const size_t step = std::max<size_t>(std::bit_floor(count) / 8, 1);
  return static_cast<int>((count + step - 1) / step * step);
}

// The kernels that take whole tiles, for every KV dtype but f32.
AttentionKernels KernelsOf(const KvShape& shape, size_t shared_bytes_max) {
  switch (shape.dtype) {
    case DType::kF16:
      return HalfAttentionKernels(shape.head_dim, shared_bytes_max);
    case DType::kBF16:
      return Bf16AttentionKernels(shape.head_dim, shared_bytes_max);
    default:
      return QuantAttentionKernels(shape.head_dim, shared_bytes_max);
  }
}

// A step's rows, cut for the kernels. All vectors keep their memory from call to call.
struct AttentionPlan {
  std::vector<AttentionItem> split_items;
  std::vector<AttentionItem> whole_items;
  std::vector<AttentionItem> mass_items;
  std::vector<AttentionItem> float_items;
  std::vector<JoinItem> join_items;
  std::vector<uint32_t> tables;
  int num_partials = 0;  // of one head

  void Clear() {
    split_items.clear();
    whole_items.clear();
    mass_items.clear();
    float_items.clear();
    join_items.clear();
    tables.clear();
    num_partials = 0;
  }
};

// What a plan depends on beside the sequences.
struct PlanShape {
  int group = 1;
  int window = 0;
  int whole_rows = 0;  // 0: f32 KV
  int partials_max = 0;
};

int FirstTile(const PlanShape& shape, int position) {
  const int begin = shape.window == 0 ? 0 : std::max(0, position - shape.window + 1);
  return begin / kKvBlockTokens;
}

class SequencePlanner {
 public:
  SequencePlanner(const PlanShape& shape, AttentionPlan& plan) : shape_(shape), plan_(plan) {}

  void Add(const SequenceRows& sequence, int mass_begin);
  // The longest first, so that the last blocks of a launch are short ones.
  void Finish();

 private:
  // The last tile of the item's last row, as a measure of its length.
  int EndOf(const AttentionItem& item) const;
  void AddSplits(const AttentionItem& item, int num_rows, std::vector<AttentionItem>& to) const;
  void AddSplitRows(const SequenceRows& sequence, AttentionItem item);

  const PlanShape shape_;
  AttentionPlan& plan_;
};

void SequencePlanner::AddSplits(const AttentionItem& item, int num_rows,
                                std::vector<AttentionItem>& to) const {
  const int last_position = item.first_position + item.num_tokens - 1;
  const int first_split = FirstTile(shape_, item.first_position) / kSplitBlocks;
  const int last_split = last_position / kKvBlockTokens / kSplitBlocks;
  for (int split = first_split; split <= last_split; ++split) {
    for (int row = 0; row < num_rows; row += kWarpRows) {
      to.push_back(item);
      to.back().row_begin = row;
      to.back().split = split;
      to.back().partial_begin = item.partial_begin + split - first_split;
    }
  }
}

void SequencePlanner::AddSplitRows(const SequenceRows& sequence, AttentionItem item) {
  item.partial_begin = plan_.num_partials;
  AddSplits(item, sequence.num_rows * shape_.group, plan_.split_items);
  for (int i = 0; i < sequence.num_rows; ++i) {
    plan_.join_items.push_back({.row = sequence.first_row + i,
                                .num_splits = item.num_splits,
                                .partial_begin = item.partial_begin + i * item.num_splits});
  }
  plan_.num_partials += sequence.num_rows * item.num_splits;
}

void SequencePlanner::Add(const SequenceRows& sequence, int mass_begin) {
  const int last_position = sequence.first_position + sequence.num_rows - 1;
  const int num_rows = sequence.num_rows * shape_.group;
  AttentionItem item{.first_row = sequence.first_row,
                     .num_tokens = sequence.num_rows,
                     .first_position = sequence.first_position,
                     .table_begin = static_cast<int>(plan_.tables.size()),
                     .mass_begin = mass_begin};
  item.num_splits = last_position / kKvBlockTokens / kSplitBlocks -
                    FirstTile(shape_, sequence.first_position) / kSplitBlocks + 1;
  for (int tile = 0; tile <= last_position / kKvBlockTokens; ++tile) {
    plan_.tables.push_back(sequence.block_table[static_cast<size_t>(tile)].value);
  }
  if (shape_.whole_rows == 0) {
    for (; item.row_begin < sequence.num_rows; ++item.row_begin) plan_.float_items.push_back(item);
    return;
  }
  if (mass_begin >= 0) AddSplits(item, num_rows, plan_.mass_items);
  const bool is_split =
      CeilDivide(num_rows, kWarpRows) <= kSplitTilesMax &&
      plan_.num_partials + sequence.num_rows * item.num_splits <= shape_.partials_max;
  if (is_split) return AddSplitRows(sequence, item);
  for (; item.row_begin < num_rows; item.row_begin += shape_.whole_rows) {
    plan_.whole_items.push_back(item);
  }
}

int SequencePlanner::EndOf(const AttentionItem& item) const {
  const int end =
      std::min(item.row_begin + shape_.whole_rows, item.num_tokens * shape_.group) - 1;
  return (item.first_position + end / shape_.group) / kKvBlockTokens -
         FirstTile(shape_, item.first_position + item.row_begin / shape_.group);
}

void SequencePlanner::Finish() {
  std::stable_sort(
      plan_.whole_items.begin(), plan_.whole_items.end(),
      [this](const AttentionItem& a, const AttentionItem& b) { return EndOf(a) > EndOf(b); });
}

// Fills up with items that are none, to the bucket of their number.
template <typename Item>
void FillUp(std::vector<Item>& items, const Item& none) {
  if (!items.empty()) items.resize(static_cast<size_t>(Bucket(items.size())), none);
}

template <typename T>
size_t StagedBytesOf(const std::vector<T>& values) {
  return CommandStream::StagedBytes(values.size() * sizeof(T));
}

class TiledAttention final : public DeviceAttention {
 public:
  TiledAttention(size_t shared_bytes_max, CommandStream& stream)
      : shared_bytes_max_(shared_bytes_max), stream_(stream) {}
  ~TiledAttention() override { stream_.Synchronize(); }

  Result<std::unique_ptr<KvArena>> AllocateKv(const KvShape& shape, uint32_t num_blocks) override;
  void CopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) override;
  void PoisonKvBlock(KvArena& arena, BlockId id) override;
  void StoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences, int layer,
               KvArena& arena) override;
  void Run(const float* q, std::span<const SequenceRows> sequences, int layer, const KvArena& arena,
           const AttentionShape& shape, float* out) override;
  void DeliverBlockMasses() override;

 private:
  // Masses that are on their way to a sequence's block_mass.
  struct PendingMass {
    uint64_t* to = nullptr;
    size_t begin = 0;  // in masses_
    size_t count = 0;
  };

  // Memory of at least `bytes`, what it held is lost; false where there is not so much.
  bool Grow(DeviceMemory& memory, size_t bytes, const char* purpose);
  // Run for as many sequences as one set of launches takes.
  void RunSome(const float* q, std::span<const SequenceRows> sequences, int layer,
               const KvArena& arena, const AttentionShape& shape, float* out);
  // Where the masses of the sequences go, -1 where none are asked for.
  void PlaceMasses(std::span<const SequenceRows> sequences);
  int PlaceMass(uint64_t* to, size_t count);
  void MakePlan(std::span<const SequenceRows> sequences, const PlanShape& shape);
  void LaunchItems(const AttentionKernel& kernel, std::vector<AttentionItem>& items, int num_heads,
                   AttentionArgument argument);
  void LaunchPlan(const AttentionKernels& kernels, AttentionArgument& argument);

  const size_t shared_bytes_max_;
  CommandStream& stream_;
  AttentionPlan plan_;
  std::vector<KvSlot> slots_;
  std::vector<int> mass_begins_;  // of the call's sequences
  std::vector<PendingMass> pending_;
  size_t num_masses_ = 0;
  DeviceMemory partials_;
  DeviceMemory totals_;
  DeviceMemory masses_;
};

Result<std::unique_ptr<KvArena>> TiledAttention::AllocateKv(const KvShape& shape,
                                                            uint32_t num_blocks) {
  KVGATE_TRY(std::unique_ptr<KvArena> arena, DeviceKvArena::Allocate(shape, num_blocks, stream_));
  const bool has_kernels =
      shape.head_dim <= kHeadDimMax &&
      (shape.dtype == DType::kF32 || KernelsOf(shape, shared_bytes_max_).whole_rows > 0);
  if (has_kernels) return arena;
  return MakeError(
      ErrorCode::kUnsupported, "kernels.cuda",
      fmt::format("attention with head_dim {} over {} KV needs more than the {} bytes of shared "
                  "memory that this device has, or head_dim is more than {}",
                  shape.head_dim, DTypeName(shape.dtype), shared_bytes_max_, kHeadDimMax));
}

void TiledAttention::CopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) {
#if KVGATE_DEBUG
  constexpr bool kIsPoisoning = true;
#else
  constexpr bool kIsPoisoning = false;
#endif
  const CopyKvTask task{.from = from.value, .to = to.value, .num_tokens = num_tokens};
  LaunchCopyKv(stream_, {.task = stream_.Stage<CopyKvTask>({&task, 1}),
                         .kv = static_cast<DeviceKvArena&>(arena).layout(),
                         .is_poisoning = kIsPoisoning});
}

void TiledAttention::PoisonKvBlock(KvArena& arena, BlockId id) {
  // All ones is a NaN in f32, f16 and bf16, and as the scale of a quant block.
  stream_.Fill(arena.block(id), 0xff, arena.block_bytes());
}

void TiledAttention::StoreKv(const float* k, const float* v,
                             std::span<const SequenceRows> sequences, int layer, KvArena& arena) {
  slots_.clear();
  for (const SequenceRows& sequence : sequences) {
    for (int i = 0; i < sequence.num_rows; ++i) {
      const int position = sequence.first_position + i;
      const auto block = static_cast<size_t>(position / kKvBlockTokens);
      slots_.push_back({.block = sequence.block_table[block].value,
                        .slot = position % kKvBlockTokens});
    }
  }
  FillUp(slots_, {.slot = -1});
  LaunchStoreKv(stream_,
                {.k = k,
                 .v = v,
                 .slots = stream_.Stage<KvSlot>(slots_),
                 .kv = static_cast<DeviceKvArena&>(arena).layout(),
                 .layer = layer},
                static_cast<int>(slots_.size()));
}

bool TiledAttention::Grow(DeviceMemory& memory, size_t bytes, const char* purpose) {
  if (bytes <= memory.size()) return true;
  stream_.Synchronize();  // what was noted uses the old one
  memory = DeviceMemory();
  auto grown = DeviceMemory::Allocate(std::max(std::bit_ceil(bytes), kScratchBytesMin), purpose);
  if (!grown) return false;
  memory = std::move(*grown);
  return true;
}

int TiledAttention::PlaceMass(uint64_t* to, size_t count) {
  for (const PendingMass& pending : pending_) {
    if (pending.to == to && pending.count >= count) return static_cast<int>(pending.begin);
  }
  const size_t begin = num_masses_;
  stream_.Fill(masses_.data() + begin * sizeof(uint64_t), 0, count * sizeof(uint64_t));
  pending_.push_back({.to = to, .begin = begin, .count = count});
  num_masses_ += count;
  return static_cast<int>(begin);
}

void TiledAttention::PlaceMasses(std::span<const SequenceRows> sequences) {
  mass_begins_.clear();
  size_t count = 0;
  for (const SequenceRows& sequence : sequences) {
    if (sequence.block_mass != nullptr) count += sequence.block_table.size();
  }
  // Room for all of them first: growing delivers, and places given before would be void.
  if ((num_masses_ + count) * sizeof(uint64_t) > masses_.size()) {
    stream_.Synchronize();
    DeliverBlockMasses();
    KVGATE_CHECK(Grow(masses_, count * sizeof(uint64_t), "attention masses"),
                 "device memory for the masses of KV blocks");
  }
  for (const SequenceRows& sequence : sequences) {
    mass_begins_.push_back(sequence.block_mass == nullptr
                               ? -1
                               : PlaceMass(sequence.block_mass, sequence.block_table.size()));
  }
}

void TiledAttention::DeliverBlockMasses() {
  if (pending_.empty()) return;
  std::vector<uint64_t> masses(num_masses_);
  CheckDevice(cudaMemcpy(masses.data(), masses_.data(), num_masses_ * sizeof(uint64_t),
                         cudaMemcpyDeviceToHost),
              "copy the masses of KV blocks");
  for (const PendingMass& pending : pending_) {
    for (size_t i = 0; i < pending.count; ++i) pending.to[i] += masses[pending.begin + i];
  }
  pending_.clear();
  num_masses_ = 0;
}

void TiledAttention::MakePlan(std::span<const SequenceRows> sequences, const PlanShape& shape) {
  plan_.Clear();
  SequencePlanner planner(shape, plan_);
  for (size_t i = 0; i < sequences.size(); ++i) planner.Add(sequences[i], mass_begins_[i]);
  planner.Finish();
  const AttentionItem none{.first_row = -1};
  FillUp(plan_.split_items, none);
  FillUp(plan_.whole_items, none);
  FillUp(plan_.mass_items, none);
  FillUp(plan_.float_items, none);
  FillUp(plan_.join_items, {.row = -1});
}

void TiledAttention::LaunchItems(const AttentionKernel& kernel, std::vector<AttentionItem>& items,
                                 int num_heads, AttentionArgument argument) {
  if (items.empty()) return;
  argument.items = stream_.Stage<AttentionItem>(items);
  stream_.Launch(kernel.run,
                 {.grid = dim3(static_cast<unsigned int>(items.size()) *
                               static_cast<unsigned int>(num_heads)),
                  .threads = kernel.threads,
                  .shared_bytes = kernel.shared_bytes},
                 argument);
}

void TiledAttention::LaunchPlan(const AttentionKernels& kernels, AttentionArgument& argument) {
  stream_.ReserveStaging(StagedBytesOf(plan_.tables) + StagedBytesOf(plan_.split_items) +
                         StagedBytesOf(plan_.whole_items) + StagedBytesOf(plan_.mass_items) +
                         StagedBytesOf(plan_.float_items) + StagedBytesOf(plan_.join_items));
  argument.tables = stream_.Stage<uint32_t>(plan_.tables);
  const int num_kv_heads = argument.kv.num_kv_heads;
  LaunchItems(FloatAttentionKernel(), plan_.float_items, argument.num_heads, argument);
  LaunchItems(kernels.whole, plan_.whole_items, num_kv_heads, argument);
  LaunchItems(kernels.split, plan_.split_items, num_kv_heads, argument);
  if (!plan_.join_items.empty()) {
    LaunchJoin(stream_,
               {.items = stream_.Stage<JoinItem>(plan_.join_items),
                .partials = argument.partials,
                .sinks = argument.sinks,
                .out = argument.out,
                .totals = argument.totals,
                .num_heads = argument.num_heads,
                .head_dim = argument.kv.head_dim},
               static_cast<int>(plan_.join_items.size()));
  }
  LaunchItems(kernels.mass, plan_.mass_items, num_kv_heads, argument);
}

void TiledAttention::Run(const float* q, std::span<const SequenceRows> sequences, int layer,
                         const KvArena& arena, const AttentionShape& shape, float* out) {
  for (size_t begin = 0; begin < sequences.size();) {
    size_t num_tiles = 0;
    size_t end = begin;
    for (; end < sequences.size(); ++end) {
      const SequenceRows& sequence = sequences[end];
      num_tiles += static_cast<size_t>(
          (sequence.first_position + sequence.num_rows) / kKvBlockTokens + 1);
      if (num_tiles > kLaunchTilesMax && end > begin) break;
    }
    RunSome(q, sequences.subspan(begin, end - begin), layer, arena, shape, out);
    begin = end;
  }
}

void TiledAttention::RunSome(const float* q, std::span<const SequenceRows> sequences, int layer,
                             const KvArena& arena, const AttentionShape& shape, float* out) {
  const KvShape& kv = arena.shape();
  const AttentionKernels kernels =
      kv.dtype == DType::kF32 ? AttentionKernels{} : KernelsOf(kv, shared_bytes_max_);
  const size_t partial_bytes = sizeof(float) * static_cast<size_t>(shape.num_heads) *
                               static_cast<size_t>(kv.head_dim + kPartialExtra);
  PlaceMasses(sequences);
  PlanShape plan_shape{.group = shape.num_heads / kv.num_kv_heads,
                       .window = shape.window,
                       .whole_rows = kernels.whole_rows,
                       .partials_max = static_cast<int>(kPartialBytesMax / partial_bytes)};
  MakePlan(sequences, plan_shape);
  const auto num_partials = static_cast<size_t>(plan_.num_partials);
  if (!Grow(partials_, num_partials * partial_bytes, "attention's partial results")) {
    plan_shape.partials_max = 0;  // all rows take their splits in turn
    MakePlan(sequences, plan_shape);
  }
  const bool has_masses =
      std::ranges::any_of(mass_begins_, [](int begin) { return begin >= 0; });
  const size_t num_rows =
      static_cast<size_t>(sequences.back().first_row + sequences.back().num_rows);
  if (has_masses) {
    KVGATE_CHECK(Grow(totals_, 2 * num_rows * shape.num_heads * sizeof(float), "attention totals"),
                 "device memory for the masses of KV blocks");
  }
  const float scale_log2 = shape.scale * std::numbers::log2e_v<float>;
  AttentionArgument argument{
      .q = q,
      .out = out,
      .kv = static_cast<const DeviceKvArena&>(arena).layout(),
      .layer = layer,
      .num_heads = shape.num_heads,
      .window = shape.window,
      .q_factor = shape.softcap == 0 ? scale_log2 : shape.scale / shape.softcap,
      .cap_log2 = shape.softcap * std::numbers::log2e_v<float>,
      .sinks = shape.sinks,
      .partials = reinterpret_cast<float*>(partials_.data()),
      .totals = has_masses ? reinterpret_cast<float*>(totals_.data()) : nullptr,
      .masses = reinterpret_cast<unsigned long long*>(masses_.data())};
  LaunchPlan(kernels, argument);
}

}  // namespace

Result<std::unique_ptr<DeviceAttention>> DeviceAttention::Open(int num_multiprocessors,
                                                               CommandStream& stream) {
  KVGATE_CHECK(num_multiprocessors > 0, "a device has multiprocessors");
  int device = 0;
  cudaDeviceProp properties{};
  CheckDevice(cudaGetDevice(&device), "ask for the device in use");
  CheckDevice(cudaGetDeviceProperties(&properties, device), "ask for the device's properties");
  return std::unique_ptr<DeviceAttention>(
      std::make_unique<TiledAttention>(properties.sharedMemPerBlockOptin, stream));
}

}  // namespace kvgate::kernels::cuda
