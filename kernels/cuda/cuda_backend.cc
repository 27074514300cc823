#include "kernels/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/command_stream.h"
#include "kernels/cuda/device/device_error.h"
#include "kernels/cuda/experts/device_experts.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/memory/device_memory.h"
#include "kernels/cuda/memory/kv_copies.h"
#include "kernels/cuda/memory/transfer_lanes.h"
#include "kernels/cuda/rows/embedding_tables.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/rows/top_k.h"

namespace kvgate::kernels::cuda {

using device::CheckDevice;
using device::CommandStream;
using experts::DeviceExperts;
using memory::KvCopies;
using memory::PinnedMemory;

namespace {

// Incremented with every change that can alter the bits of a result or the order inside KV blocks.
constexpr int kKernelVersion = 2;
constexpr int kMajorMin = 8;  // compute capability 8.0
// A graph with fewer commands costs more than it saves, and would evict graphs of whole steps.
constexpr size_t kGraphCommandsMin = 8;
// Bytes that CopyOut moves at once, through page-locked memory that is kept.
constexpr size_t kOutBytesMin = size_t{1} << 20;
constexpr size_t kOutBytesMax = size_t{64} << 20;

class CudaBackend final : public Backend {
 public:
  static Result<std::unique_ptr<Backend>> Make(const CudaBackendOptions& options,
                                               const cudaDeviceProp& properties);

  const BackendInfo& Info() const override { return info_; }
  BackendMemory Memory() const override;
  bool IsCopied(uint64_t ticket) override { return copies_->IsCopied(ticket); }
  void WaitForCopy(uint64_t ticket) override { copies_->Wait(ticket); }
  void Synchronize() override;

 private:
  CudaBackend(int device, int num_multiprocessors, std::unique_ptr<CommandStream> stream)
      : device_(device),
        stream_(std::move(stream)),
        tables_(num_multiprocessors, *stream_),
        rows_(num_multiprocessors, *stream_) {}

  Result<std::unique_ptr<Weight>> DoLoadWeight(const WeightView& view) override;
  Result<std::unique_ptr<FloatBuffer>> DoAllocateFloats(size_t count) override;
  Result<std::unique_ptr<KvArena>> DoAllocateKv(const KvShape& shape, uint32_t num_blocks) override;
  Result<std::unique_ptr<HostBuffer>> DoAllocateHost(size_t bytes) override;
  Result<void> DoLoadTable(const WeightView& table) override;
  Result<std::unique_ptr<ExpertSet>> DoLoadExperts(const ExpertSetView& view) override;
  Result<std::unique_ptr<ExpertScratch>> DoAllocateExpertScratch(const ExpertShape& shape,
                                                                 int num_rows_max) override;
  void DoCopyIn(std::span<const float> host, float* device) override;
  void DoCopyOut(const float* device, std::span<float> host) override;
  void DoReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) override;
  void DoWriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) override;
  uint64_t DoReadKvBlocks(const KvArena& arena, std::span<const KvBlockCopy> copies) override;
  uint64_t DoWriteKvBlocks(KvArena& arena, std::span<const KvBlockCopy> copies) override;
  void DoCopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) override;
  void DoPoisonKvBlock(KvArena& arena, BlockId id) override;
  void DoEmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y) override;
  void DoGatherRows(const float* x, std::span<const int> rows, int64_t columns, float* y) override;
  void DoScatterAddRows(const float* x, std::span<const int> rows, std::span<const float> factors,
                        int64_t columns, float* y) override;
  void DoMatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks) override;
  void DoMixExperts(const ExpertMixTask& task) override;
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

  // Called before every operation, because CUDA selects the device per thread.
  void Enter();
  bool IsIssuingThread() const { return issuer_.load() == std::this_thread::get_id(); }
  // Flushes changes of KV blocks to the device, so that other threads' copies come after them.
  void PublishBlocks();
  // Returns page-locked memory of at least min(bytes, kOutBytesMax).
  std::span<std::byte> OutMemory(size_t bytes);

  BackendInfo info_;
  const int device_;
  std::atomic<std::thread::id> issuer_;
  std::unique_ptr<CommandStream> stream_;
  rows::EmbeddingTables tables_;
  rows::RowKernels rows_;
  std::unique_ptr<matmul::DeviceMatMul> matmul_;
  std::unique_ptr<DeviceExperts> experts_;
  std::unique_ptr<attention::DeviceAttention> attention_;
  std::unique_ptr<memory::TransferLanes> lanes_;
  std::unique_ptr<KvCopies> copies_;
  PinnedMemory out_;
  memory::DeviceMemory top_scratch_;
  PinnedMemory top_results_;
};

Result<std::unique_ptr<Backend>> CudaBackend::Make(const CudaBackendOptions& options,
                                                   const cudaDeviceProp& properties) {
  const int num_multiprocessors = properties.multiProcessorCount;
  KVGATE_TRY(std::unique_ptr<CommandStream> stream,
             CommandStream::Open({.graphs_max = options.uses_graphs ? size_t{64} : 0,
                                  .graph_commands_min = kGraphCommandsMin}));
  std::unique_ptr<CudaBackend> made(
      new CudaBackend(options.device, num_multiprocessors, std::move(stream)));
  KVGATE_TRY(made->matmul_, matmul::DeviceMatMul::Open(
                                {.is_fast = options.is_fast,
                                 .num_multiprocessors = num_multiprocessors,
                                 .shared_bytes_max = properties.sharedMemPerBlockOptin,
                                 .has_warpgroups = properties.major == 9 && properties.minor == 0},
                                *made->stream_));
  made->experts_ = std::make_unique<DeviceExperts>(
      experts::DeviceExpertsOptions{.num_multiprocessors = num_multiprocessors,
                                    .shared_bytes_max = properties.sharedMemPerBlockOptin},
      *made->matmul_, made->rows_, *made->stream_);
  KVGATE_TRY(made->attention_,
             attention::DeviceAttention::Open(num_multiprocessors, *made->stream_));
  KVGATE_TRY(made->lanes_, memory::TransferLanes::Open(options.device));
  made->copies_ = std::make_unique<KvCopies>(options.device);
#if KVGATE_CUDA_EMULATED
  const std::string target = "emulated";
#else
  const std::string target = fmt::format("sm_{}{}", properties.major, properties.minor);
#endif
  made->info_ = {.name = "cuda",
                 .target = target + (made->matmul_->uses_warpgroups() ? ", wgmma" : ""),
                 .numerics_id = fmt::format("cuda-{}-v{}-{}", target, kKernelVersion,
                                            options.is_fast ? "fast" : "invariant"),
                 .invariant = !options.is_fast,
                 .num_threads = 1,
                 .kv_host_visible = false,
                 .routes_experts = true};
  return std::unique_ptr<Backend>(std::move(made));
}

void CudaBackend::Enter() {
  if (IsIssuingThread()) [[likely]]
    return;
  CheckDevice(cudaSetDevice(device_), "choose the device");
  issuer_ = std::this_thread::get_id();
}

BackendMemory CudaBackend::Memory() const {
  size_t bytes_free = 0;
  size_t bytes_total = 0;
  CheckDevice(cudaSetDevice(device_), "choose the device");
  CheckDevice(cudaMemGetInfo(&bytes_free, &bytes_total), "ask for free device memory");
  return {.bytes_total = bytes_total, .bytes_free = bytes_free};
}

void CudaBackend::Synchronize() {
  Enter();
  stream_->Synchronize();
  attention_->DeliverBlockMasses();
}

// ---- memory ---------------------------------------------------------------------------------

Result<std::unique_ptr<Weight>> CudaBackend::DoLoadWeight(const WeightView& view) {
  Enter();
  return matmul_->LoadWeight(view);
}

Result<std::unique_ptr<FloatBuffer>> CudaBackend::DoAllocateFloats(size_t count) {
  Enter();
  return memory::DeviceFloats::Allocate(count);
}

Result<std::unique_ptr<KvArena>> CudaBackend::DoAllocateKv(const KvShape& shape,
                                                           uint32_t num_blocks) {
  Enter();
  return attention_->AllocateKv(shape, num_blocks);
}

Result<std::unique_ptr<HostBuffer>> CudaBackend::DoAllocateHost(size_t bytes) {
  return lanes_->AllocateHost(bytes);
}

Result<void> CudaBackend::DoLoadTable(const WeightView& table) {
  Enter();
  return tables_.Load(table);
}

Result<std::unique_ptr<ExpertSet>> CudaBackend::DoLoadExperts(const ExpertSetView& view) {
  Enter();
  return DeviceExperts::Load(view);
}

Result<std::unique_ptr<ExpertScratch>> CudaBackend::DoAllocateExpertScratch(
    const ExpertShape& shape, int num_rows_max) {
  Enter();
  return DeviceExperts::AllocateScratch(shape, num_rows_max);
}

void CudaBackend::DoCopyIn(std::span<const float> host, float* device) {
  if (host.empty()) return;
  Synchronize();
  CheckDevice(cudaMemcpyAsync(device, host.data(), host.size_bytes(), cudaMemcpyHostToDevice,
                              stream_->stream()),
              "copy to the device");
  stream_->Synchronize();
}

std::span<std::byte> CudaBackend::OutMemory(size_t bytes) {
  if (out_.size() < std::min(bytes, kOutBytesMax)) {
    const size_t rounded = std::clamp(std::bit_ceil(bytes), kOutBytesMin, kOutBytesMax);
    auto memory = PinnedMemory::Allocate(rounded, "results");
    KVGATE_CHECK(memory.has_value(), "page-locked memory for results");
    out_ = std::move(*memory);
  }
  return {out_.data(), out_.size()};
}

void CudaBackend::DoCopyOut(const float* device, std::span<float> host) {
  Enter();
  const std::span<std::byte> through = OutMemory(host.size_bytes());
  stream_->Flush();
  const auto* from = reinterpret_cast<const std::byte*>(device);
  for (std::span<std::byte> left = std::as_writable_bytes(host); !left.empty();) {
    const size_t bytes = std::min(left.size(), through.size());
    CheckDevice(
        cudaMemcpyAsync(through.data(), from, bytes, cudaMemcpyDeviceToHost, stream_->stream()),
        "copy to the host");
    stream_->Synchronize();
    std::memcpy(left.data(), through.data(), bytes);
    from += bytes;
    left = left.subspan(bytes);
  }
  Synchronize();
}

// On the issuing thread, a copy comes after all its operations. Another thread has exclusive use of
// its block: earlier operations on it have run (a step was synchronized before the block was handed
// over) or were published, so a running step is not waited for.
void CudaBackend::DoReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) {
  if (IsIssuingThread()) Synchronize();
  copies_->AwaitBlock(arena.block(id));
  lanes_->Read(arena.block(id), host);
}

void CudaBackend::DoWriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) {
  if (IsIssuingThread()) Synchronize();
  copies_->AwaitBlock(arena.block(id));
  lanes_->Write(arena.block(id), host);
}

uint64_t CudaBackend::DoReadKvBlocks(const KvArena& arena, std::span<const KvBlockCopy> copies) {
  Enter();
  stream_->Flush();
  return copies_->Begin(KvCopies::Direction::kToHost, arena, copies, stream_->stream());
}

uint64_t CudaBackend::DoWriteKvBlocks(KvArena& arena, std::span<const KvBlockCopy> copies) {
  Enter();
  stream_->Flush();
  return copies_->Begin(KvCopies::Direction::kToDevice, arena, copies, stream_->stream());
}

void CudaBackend::PublishBlocks() {
  stream_->Flush();
  lanes_->OrderAfter(stream_->stream());
}

void CudaBackend::DoCopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) {
  Enter();
  attention_->CopyKvBlock(arena, from, to, num_tokens);
  PublishBlocks();
}

void CudaBackend::DoPoisonKvBlock(KvArena& arena, BlockId id) {
  Enter();
  attention_->PoisonKvBlock(arena, id);
  PublishBlocks();
}

// ---- operations -----------------------------------------------------------------------------

void CudaBackend::DoEmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y) {
  Enter();
  tables_.EmbedRows(table, ids, y);
}

void CudaBackend::DoGatherRows(const float* x, std::span<const int> rows, int64_t columns,
                               float* y) {
  Enter();
  rows_.GatherRows(x, rows, columns, y);
}

void CudaBackend::DoScatterAddRows(const float* x, std::span<const int> rows,
                                   std::span<const float> factors, int64_t columns, float* y) {
  Enter();
  rows_.ScatterAddRows(x, rows, factors, columns, y);
}

void CudaBackend::DoMatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks) {
  Enter();
  matmul_->Run(x, num_rows, tasks);
}

void CudaBackend::DoMixExperts(const ExpertMixTask& task) {
  Enter();
  experts_->Mix(task);
}

void CudaBackend::DoNorm(const float* x, const NormArgs& norm, int num_rows, int64_t columns,
                         float* y) {
  Enter();
  rows_.Norm(x, norm, num_rows, columns, y);
}

void CudaBackend::DoRopeTable(std::span<const int> positions, std::span<const float> inv_freq,
                              float magnitude, float* table) {
  Enter();
  rows_.RopeTable(positions, inv_freq, magnitude, table);
}

void CudaBackend::DoRope(float* x, int num_rows, const RopeArgs& args, const float* table) {
  Enter();
  rows_.Rope(x, num_rows, args, table);
}

void CudaBackend::DoStoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences,
                            int layer, KvArena& arena) {
  Enter();
  attention_->StoreKv(k, v, sequences, layer, arena);
}

void CudaBackend::DoAttention(const float* q, std::span<const SequenceRows> sequences, int layer,
                              const KvArena& arena, const AttentionShape& shape, float* out) {
  Enter();
  attention_->Run(q, sequences, layer, arena, shape, out);
}

void CudaBackend::DoGlu(GluKind kind, const float* gate, const float* up, size_t count,
                        float* out) {
  Enter();
  rows_.Glu(kind, gate, up, count, out);
}

void CudaBackend::DoAddScaled(const float* x, float factor, size_t count, float* y) {
  Enter();
  rows_.AddScaled(x, factor, count, y);
}

void CudaBackend::DoScale(float factor, size_t count, float* x) {
  Enter();
  rows_.Scale(factor, count, x);
}

void CudaBackend::DoSoftCap(float cap, size_t count, float* x) {
  Enter();
  rows_.SoftCap(cap, count, x);
}

// The device itself writes the few results into page-locked memory.
void CudaBackend::DoTopK(const TopKTask& task, const TopKResult& to) {
  Enter();
  // Rounded up so coarsely that adding a row to the batch keeps the addresses and thus the
  // commands.
  const size_t num_rows = std::bit_ceil(static_cast<size_t>(task.num_rows));
  const size_t num_entries = num_rows * static_cast<size_t>(task.count);
  const size_t scratch_bytes = rows::TopKScratchBytes(static_cast<int>(num_rows), task.columns);
  const size_t result_bytes =
      num_entries * (sizeof(TokenId) + sizeof(float)) + 2 * num_rows * sizeof(float);
  if (top_scratch_.size() < scratch_bytes || top_results_.size() < result_bytes) {
    stream_->Synchronize();
    auto scratch = memory::DeviceMemory::Allocate(scratch_bytes, "the greatest logits");
    auto results = PinnedMemory::Allocate(result_bytes, "the greatest logits");
    KVGATE_CHECK(scratch.has_value() && results.has_value(), "memory for the greatest logits");
    top_scratch_ = std::move(*scratch);
    top_results_ = std::move(*results);
  }
  auto* floats = reinterpret_cast<float*>(top_results_.data());
  const TopKResult here = {.ids = reinterpret_cast<TokenId*>(floats + num_entries + 2 * num_rows),
                           .values = floats,
                           .exp_sums = floats + num_entries,
                           .scaled_exp_sums = floats + num_entries + num_rows};
  rows::TopK(*stream_, task, top_scratch_.data(), here);
  Synchronize();
  const auto rows = static_cast<size_t>(task.num_rows);
  const size_t entries = rows * static_cast<size_t>(task.count);
  std::copy_n(here.ids, entries, to.ids);
  std::copy_n(here.values, entries, to.values);
  std::copy_n(here.exp_sums, rows, to.exp_sums);
  std::copy_n(here.scaled_exp_sums, rows, to.scaled_exp_sums);
}

// ---- devices --------------------------------------------------------------------------------

Error Unavailable(std::string detail) {
  return MakeError(ErrorCode::kUnavailable, "kernels.cuda", std::move(detail));
}

Error Unavailable(cudaError_t error, const std::string& doing) {
  cudaGetLastError();  // clears the error, so that the next call does not report it
  return Unavailable(fmt::format("{}: {}", doing, cudaGetErrorString(error)));
}

// Returns 0 if there is no driver or no device.
Result<int> CountDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  cudaGetLastError();
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  if (error == cudaErrorNoDevice || driver == 0) return 0;
  if (error != cudaErrorInsufficientDriver) return Unavailable(error, "look for CUDA devices");
  int runtime = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  return Unavailable(
      fmt::format("the NVIDIA driver is for CUDA {}.{} at most, and this build needs {}.{}: "
                  "install a newer driver",
                  driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10));
}

Result<cudaDeviceProp> PropertiesOf(int device) {
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return Unavailable(error, fmt::format("ask CUDA device {}", device));
  return properties;
}

}  // namespace

bool IsCudaBuilt() { return true; }

Result<std::vector<CudaDevice>> FindCudaDevices() {
  KVGATE_TRY(const int count, CountDevices());
  std::vector<CudaDevice> devices;
  int before = 0;
  if (count > 0) CheckDevice(cudaGetDevice(&before), "ask for the current device");
  for (int i = 0; i < count; ++i) {
    KVGATE_TRY(const cudaDeviceProp properties, PropertiesOf(i));
    size_t bytes_free = 0;
    size_t bytes_total = 0;
    cudaError_t error = cudaSetDevice(i);
    if (error == cudaSuccess) error = cudaMemGetInfo(&bytes_free, &bytes_total);
    (void)cudaSetDevice(before);
    if (error != cudaSuccess) return Unavailable(error, fmt::format("open CUDA device {}", i));
    devices.push_back({.ordinal = i,
                       .name = properties.name,
                       .major = properties.major,
                       .minor = properties.minor,
                       .num_multiprocessors = properties.multiProcessorCount,
                       .bytes_total = bytes_total,
                       .bytes_free = bytes_free});
  }
  return devices;
}

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions& options) {
  KVGATE_TRY(const int count, CountDevices());
  if (count == 0) return Unavailable("no CUDA device was found");
  if (options.device < 0 || options.device >= count) {
    return Unavailable(
        fmt::format("there is no CUDA device {}: they are 0 to {}", options.device, count - 1));
  }
  KVGATE_TRY(const cudaDeviceProp properties, PropertiesOf(options.device));
  const std::string device =
      fmt::format("CUDA device {} ({}, compute capability {}.{})", options.device, properties.name,
                  properties.major, properties.minor);
  if (properties.major < kMajorMin) {
    return Unavailable(fmt::format("{} is too old: {}.0 or newer is needed", device, kMajorMin));
  }
  cudaError_t error = cudaSetDevice(options.device);
  if (error != cudaSuccess) return Unavailable(error, "open " + device);
  error = rows::RowKernels::FindImage();
  if (error != cudaSuccess) return Unavailable(error, "find this build's kernels for " + device);
  return CudaBackend::Make(options, properties);
}

}  // namespace kvgate::kernels::cuda
