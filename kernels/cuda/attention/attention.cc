#include "kernels/cuda/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/attention/attention_types.h"
#include "kernels/cuda/device/device_error.h"
#include "kernels/cuda/memory/device_kv_arena.h"
#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda::attention {

using device::CommandStream;
using memory::DeviceKvArena;
using memory::DeviceMemory;

namespace {

// Limit on the sequences of one set of launches, before each array is rounded up to a power of two.
constexpr size_t kPlannedBytesMax = size_t{3} << 20;
constexpr size_t kPartialBytesMax = size_t{256} << 20;
constexpr size_t kScratchBytesMin = size_t{1} << 20;

// Returns the kernels that use whole tiles, for every KV dtype except f32.
AttentionKernels KernelsOf(const KvShape& shape, size_t shared_bytes_max) {
  switch (shape.dtype) {
    case DType::kF16:
      return HalfAttentionKernels(shape.head_dim, shared_bytes_max);
    case DType::kBF16:
      return Bf16AttentionKernels(shape.head_dim, shared_bytes_max);
    case DType::kF8E4M3:
      return E4m3AttentionKernels(shape.head_dim, shared_bytes_max);
    default:
      return QuantAttentionKernels(shape.head_dim, shared_bytes_max);
  }
}

// A plan and the addresses at which it was staged.
struct StagedPlan {
  AttentionPlan plan;
  uint64_t flush = 0;  // device::CommandStream::num_flushes at that time
  bool is_staged = false;
  const uint32_t* tables = nullptr;
  const AttentionItem* split_items = nullptr;
  const AttentionItem* whole_items = nullptr;
  const AttentionItem* mass_items = nullptr;
  const AttentionItem* float_items = nullptr;
  const JoinItem* join_items = nullptr;
};

template <typename T>
size_t StagedBytesOf(std::span<const T> values) {
  return CommandStream::StagedBytes(values.size_bytes());
}

// Stages the plan, unless it has been staged since the last flush: all layers of a model attend to
// the same blocks, so they share it.
void Stage(CommandStream& stream, StagedPlan& staged) {
  if (staged.is_staged && staged.flush == stream.num_flushes()) return;
  const AttentionPlan& plan = staged.plan;
  stream.ReserveStaging(StagedBytesOf(plan.tables()) + StagedBytesOf(plan.split_items()) +
                        StagedBytesOf(plan.whole_items()) + StagedBytesOf(plan.mass_items()) +
                        StagedBytesOf(plan.float_items()) + StagedBytesOf(plan.join_items()));
  staged.flush = stream.num_flushes();
  staged.is_staged = true;
  const auto stage_items = [&](std::span<const AttentionItem> items) {
    return items.empty() ? nullptr : stream.Stage(items);
  };
  staged.tables = stream.Stage(plan.tables());
  staged.split_items = stage_items(plan.split_items());
  staged.whole_items = stage_items(plan.whole_items());
  staged.mass_items = stage_items(plan.mass_items());
  staged.float_items = stage_items(plan.float_items());
  staged.join_items = plan.join_items().empty() ? nullptr : stream.Stage(plan.join_items());
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
  // Masses that still have to be added to a sequence's block_mass.
  struct PendingMass {
    uint64_t* to = nullptr;
    size_t begin = 0;  // index in masses_
    size_t count = 0;
  };

  // Makes `memory` at least `bytes` large; its content is lost. Returns false if there is not
  // enough.
  bool Grow(DeviceMemory& memory, size_t bytes, const char* purpose);
  // Does Run for as many sequences as fit into one set of launches.
  void RunSome(const float* q, std::span<const SequenceRows> sequences, int layer,
               const KvArena& arena, const AttentionShape& shape, float* out);
  // Sets mass_begins_: where the masses of each sequence go, -1 if none are requested.
  void PlaceMasses(std::span<const SequenceRows> sequences);
  int PlaceMass(uint64_t* to, size_t count);
  StagedPlan& FindPlan(std::span<const SequenceRows> sequences, const PlanShape& shape);
  void LaunchItems(const AttentionKernel& kernel, std::span<const AttentionItem> items,
                   const AttentionItem* staged, int num_heads, AttentionArgument argument);
  void LaunchPlan(const AttentionKernels& kernels, StagedPlan& staged, AttentionArgument& argument);

  const size_t shared_bytes_max_;
  CommandStream& stream_;
  // The latest plans: some models alternate between layers with and without a window.
  std::array<StagedPlan, 4> plans_;
  size_t next_plan_ = 0;
  std::vector<KvSlot> slots_;
  std::vector<KvSlot> staged_slots_;
  const KvSlot* staged_slots_at_ = nullptr;
  uint64_t staged_slots_flush_ = 0;
  std::vector<int> mass_begins_;  // of the current call's sequences
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
  // All ones is a NaN in f32, f16, bf16 and fp8_e4m3, and as the scale of a quant block.
  stream_.Fill(arena.block(id), 0xff, arena.block_bytes());
}

void TiledAttention::StoreKv(const float* k, const float* v,
                             std::span<const SequenceRows> sequences, int layer, KvArena& arena) {
  slots_.clear();
  for (const SequenceRows& sequence : sequences) {
    for (int i = 0; i < sequence.num_rows; ++i) {
      const int position = sequence.first_position + i;
      const auto block = static_cast<size_t>(position / kKvBlockTokens);
      slots_.push_back(
          {.block = sequence.block_table[block].value, .slot = position % kKvBlockTokens});
    }
  }
  slots_.resize(Bucket(slots_.size()), {.slot = -1});
  if (slots_ != staged_slots_ || staged_slots_flush_ != stream_.num_flushes()) {
    staged_slots_at_ = stream_.Stage<KvSlot>(slots_);
    staged_slots_flush_ = stream_.num_flushes();
    std::swap(slots_, staged_slots_);
  }
  LaunchStoreKv(stream_,
                {.k = k,
                 .v = v,
                 .slots = staged_slots_at_,
                 .kv = static_cast<DeviceKvArena&>(arena).layout(),
                 .layer = layer},
                static_cast<int>(staged_slots_.size()));
}

bool TiledAttention::Grow(DeviceMemory& memory, size_t bytes, const char* purpose) {
  if (bytes <= memory.size()) return true;
  stream_.Synchronize();  // pending commands use the old memory
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
  // Room for all of them is made first: growing delivers pending masses and invalidates earlier
  // places.
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
  device::CheckDevice(cudaMemcpy(masses.data(), masses_.data(), num_masses_ * sizeof(uint64_t),
                                 cudaMemcpyDeviceToHost),
                      "copy the masses of KV blocks");
  for (const PendingMass& pending : pending_) {
    for (size_t i = 0; i < pending.count; ++i) pending.to[i] += masses[pending.begin + i];
  }
  pending_.clear();
  num_masses_ = 0;
}

StagedPlan& TiledAttention::FindPlan(std::span<const SequenceRows> sequences,
                                     const PlanShape& shape) {
  for (StagedPlan& staged : plans_) {
    if (staged.plan.IsOf(sequences, mass_begins_, shape)) return staged;
  }
  StagedPlan& staged = plans_[next_plan_];
  next_plan_ = (next_plan_ + 1) % plans_.size();
  staged.plan.Make(sequences, mass_begins_, shape);
  staged.is_staged = false;
  return staged;
}

void TiledAttention::LaunchItems(const AttentionKernel& kernel,
                                 std::span<const AttentionItem> items, const AttentionItem* staged,
                                 int num_heads, AttentionArgument argument) {
  if (items.empty()) return;
  argument.items = staged;
  stream_.Launch(
      kernel.run,
      {.grid = dim3(static_cast<unsigned int>(items.size()) * static_cast<unsigned int>(num_heads)),
       .threads = kernel.threads,
       .shared_bytes = kernel.shared_bytes},
      argument);
}

void TiledAttention::LaunchPlan(const AttentionKernels& kernels, StagedPlan& staged,
                                AttentionArgument& argument) {
  Stage(stream_, staged);
  const AttentionPlan& plan = staged.plan;
  argument.tables = staged.tables;
  const int num_kv_heads = argument.kv.num_kv_heads;
  LaunchItems(FloatAttentionKernel(), plan.float_items(), staged.float_items, argument.num_heads,
              argument);
  LaunchItems(kernels.whole, plan.whole_items(), staged.whole_items, num_kv_heads, argument);
  LaunchItems(kernels.split, plan.split_items(), staged.split_items, num_kv_heads, argument);
  if (!plan.join_items().empty()) {
    LaunchJoin(stream_,
               {.items = staged.join_items,
                .partials = argument.partials,
                .sinks = argument.sinks,
                .out = argument.out,
                .totals = argument.totals,
                .num_heads = argument.num_heads,
                .head_dim = argument.kv.head_dim},
               static_cast<int>(plan.join_items().size()));
  }
  LaunchItems(kernels.mass, plan.mass_items(), staged.mass_items, num_kv_heads, argument);
}

void TiledAttention::Run(const float* q, std::span<const SequenceRows> sequences, int layer,
                         const KvArena& arena, const AttentionShape& shape, float* out) {
  for (size_t begin = 0; begin < sequences.size();) {
    size_t bytes = 0;
    size_t end = begin;
    for (; end < sequences.size(); ++end) {
      bytes += PlannedBytes(sequences[end], shape.num_heads / arena.shape().num_kv_heads);
      if (bytes > kPlannedBytesMax && end > begin) break;
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
  StagedPlan* staged = &FindPlan(sequences, plan_shape);
  const auto num_partials = static_cast<size_t>(staged->plan.num_partials());
  if (!Grow(partials_, num_partials * partial_bytes, "attention's partial results")) {
    plan_shape.partials_max = 0;  // all rows process their splits one after the other
    staged = &FindPlan(sequences, plan_shape);
  }
  const bool has_masses = std::ranges::any_of(mass_begins_, [](int begin) { return begin >= 0; });
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
  LaunchPlan(kernels, *staged, argument);
}

}  // namespace

Result<std::unique_ptr<DeviceAttention>> DeviceAttention::Open(int num_multiprocessors,
                                                               CommandStream& stream) {
  KVGATE_CHECK(num_multiprocessors > 0, "a device has multiprocessors");
  int device = 0;
  cudaDeviceProp properties{};
  device::CheckDevice(cudaGetDevice(&device), "ask for the device in use");
  device::CheckDevice(cudaGetDeviceProperties(&properties, device),
                      "ask for the device's properties");
  return std::unique_ptr<DeviceAttention>(
      std::make_unique<TiledAttention>(properties.sharedMemPerBlockOptin, stream));
}

}  // namespace kvgate::kernels::cuda::attention
