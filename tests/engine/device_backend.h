// DeviceBackend wraps a host backend and behaves like a device: its KV blocks cannot be reached by
// address, it has its own memory, which can run out, and it runs asynchronous copies as late as the
// contract of kernels/backend.h allows, in a random order. Code that relies on more than the
// contract reads or loses wrong KV here.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/backend.h"

namespace kvgate::kernels {

class DeviceBackend final : public Backend {
 public:
  explicit DeviceBackend(std::unique_ptr<Backend> inner, uint64_t memory_bytes = 0)
      : inner_(std::move(inner)), info_(inner_->Info()), memory_bytes_(memory_bytes) {
    info_.name = "device";
    info_.kv_host_visible = false;
  }

  const BackendInfo& Info() const override { return info_; }
  BackendMemory Memory() const override {
    return {.bytes_total = memory_bytes_,
            .bytes_free = memory_bytes_ - std::min(memory_bytes_, bytes_used_)};
  }
  // Makes the engine believe that the numerics are not invariant.
  void SetVariant() { info_.invariant = false; }
  uint64_t bytes_used() const { return bytes_used_; }
  // Limits host memory to `bytes` from here on; AllocateHost fails beyond that.
  void SetHostBytes(uint64_t bytes) { host_bytes_ = bytes; }
  int num_copied_beside() const { return static_cast<int>(last_ticket_); }
  // Sets the share of polls (0 to 1) that run one copy. With 0, copies run only when someone waits.
  void SetPace(double pace) { pace_ = pace; }

  bool IsCopied(uint64_t ticket) override {
    const std::lock_guard lock(mutex_);
    if (IsDone(ticket)) return true;
    if (std::uniform_real_distribution<>()(random_) < pace_) RunOne();
    return IsDone(ticket);
  }
  void WaitForCopy(uint64_t ticket) override {
    const std::lock_guard lock(mutex_);
    while (!IsDone(ticket)) RunOne();
  }
  void Synchronize() override { inner_->Synchronize(); }

 private:
  class Arena final : public KvArena {
   public:
    Arena(std::unique_ptr<KvArena> arena)
        : KvArena(arena->shape(), arena->num_blocks()), inner(std::move(arena)) {}
    const std::unique_ptr<KvArena> inner;
  };
  struct Job {
    uint64_t ticket = 0;
    bool is_write = false;
    const Arena* arena = nullptr;
    std::vector<KvBlockCopy> copies;
    bool Shares(const Job& other) const {
      for (const KvBlockCopy& copy : copies) {
        if (other.Touches(arena, copy.block)) return true;
        for (const KvBlockCopy& theirs : other.copies) {
          if (theirs.host == copy.host) return true;
        }
      }
      return false;
    }
    bool Touches(const Arena* of, BlockId block) const {
      return of == arena && std::ranges::any_of(copies, [&](const KvBlockCopy& copy) {
               return copy.block == block;
             });
    }
  };

  static KvArena& In(KvArena& arena) { return *static_cast<Arena&>(arena).inner; }
  static const KvArena& In(const KvArena& arena) { return *static_cast<const Arena&>(arena).inner; }

  bool IsDone(uint64_t ticket) const {
    return std::ranges::none_of(jobs_, [&](const Job& job) { return job.ticket == ticket; });
  }
  // Runs a random copy among those that no earlier copy of the same direction or on the same memory
  // precedes.
  void RunOne() {
    std::vector<size_t> next;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const bool waits =
          std::any_of(jobs_.begin(), jobs_.begin() + static_cast<long>(i), [&](const Job& before) {
            return before.is_write == jobs_[i].is_write || before.Shares(jobs_[i]);
          });
      if (!waits) next.push_back(i);
    }
    KVGATE_CHECK(!next.empty(), "no copy is to be done");
    const size_t index = next[random_() % next.size()];
    const Job job = std::move(jobs_[index]);
    jobs_.erase(jobs_.begin() + static_cast<long>(index));
    for (const KvBlockCopy& copy : job.copies) {
      if (job.is_write) {
        inner_->WriteKvBlock(*job.arena->inner, copy.block, {copy.host, job.arena->block_bytes()});
      } else {
        inner_->ReadKvBlock(*job.arena->inner, copy.block, {copy.host, job.arena->block_bytes()});
      }
    }
  }
  void RunSharing(const KvArena& arena, BlockId block) {
    const auto shares = [&](const Job& job) {
      return job.Touches(static_cast<const Arena*>(&arena), block);
    };
    while (std::ranges::any_of(jobs_, shares)) RunOne();
  }
  void CheckIdle(const KvArena& arena, BlockId block) {
    const std::lock_guard lock(mutex_);
    for (const Job& job : jobs_) {
      KVGATE_CHECK(!job.Touches(static_cast<const Arena*>(&arena), block),
                   "an operation uses a block that is being copied");
    }
  }
  uint64_t Begin(bool is_write, const KvArena& arena, std::span<const KvBlockCopy> copies) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({.ticket = ++last_ticket_,
                     .is_write = is_write,
                     .arena = static_cast<const Arena*>(&arena),
                     .copies = {copies.begin(), copies.end()}});
    return last_ticket_;
  }
  Result<void> Take(uint64_t bytes) {
    if (memory_bytes_ > 0 && bytes > Memory().bytes_free) {
      return MakeError(ErrorCode::kOverloaded, "device", "the device's memory is full");
    }
    bytes_used_ += bytes;
    return {};
  }

  Result<std::unique_ptr<Weight>> DoLoadWeight(const WeightView& view) override {
    KVGATE_TRY(std::unique_ptr<Weight> weight, inner_->LoadWeight(view));
    KVGATE_TRY_VOID(Take(weight->bytes()));
    return weight;
  }
  Result<std::unique_ptr<FloatBuffer>> DoAllocateFloats(size_t count) override {
    KVGATE_TRY_VOID(Take(count * sizeof(float)));
    return inner_->AllocateFloats(count);
  }
  Result<std::unique_ptr<KvArena>> DoAllocateKv(const KvShape& shape,
                                                uint32_t num_blocks) override {
    KVGATE_TRY_VOID(Take(num_blocks * shape.block_bytes()));
    KVGATE_TRY(std::unique_ptr<KvArena> arena, inner_->AllocateKv(shape, num_blocks));
    return std::unique_ptr<KvArena>(std::make_unique<Arena>(std::move(arena)));
  }
  Result<std::unique_ptr<HostBuffer>> DoAllocateHost(size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (bytes > host_bytes_) {
      return MakeError(ErrorCode::kOverloaded, "device", "the system locks no more");
    }
    host_bytes_ -= bytes;
    return inner_->AllocateHost(bytes);
  }
  void DoCopyIn(std::span<const float> host, float* device) override {
    inner_->CopyIn(host, device);
  }
  void DoCopyOut(const float* device, std::span<float> host) override {
    inner_->CopyOut(device, host);
  }
  void DoReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) override {
    const std::lock_guard lock(mutex_);
    RunSharing(arena, id);
    inner_->ReadKvBlock(In(arena), id, host);
  }
  void DoWriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) override {
    const std::lock_guard lock(mutex_);
    RunSharing(arena, id);
    inner_->WriteKvBlock(In(arena), id, host);
  }
  uint64_t DoReadKvBlocks(const KvArena& arena, std::span<const KvBlockCopy> copies) override {
    return Begin(false, arena, copies);
  }
  uint64_t DoWriteKvBlocks(KvArena& arena, std::span<const KvBlockCopy> copies) override {
    return Begin(true, arena, copies);
  }
  void DoCopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) override {
    CheckIdle(arena, from);
    CheckIdle(arena, to);
    inner_->CopyKvBlock(In(arena), from, to, num_tokens);
  }
  void DoPoisonKvBlock(KvArena& arena, BlockId id) override {
    CheckIdle(arena, id);
    inner_->PoisonKvBlock(In(arena), id);
  }
  void DoEmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y) override {
    inner_->EmbedRows(table, ids, y);
  }
  void DoGatherRows(const float* x, std::span<const int> rows, int64_t columns, float* y) override {
    inner_->GatherRows(x, rows, columns, y);
  }
  void DoScatterAddRows(const float* x, std::span<const int> rows, std::span<const float> factors,
                        int64_t columns, float* y) override {
    inner_->ScatterAddRows(x, rows, factors, columns, y);
  }
  void DoMatMul(const float* x, int num_rows, std::span<const MatMulTask> tasks) override {
    inner_->MatMul(x, num_rows, tasks);
  }
  void DoNorm(const float* x, const NormArgs& norm, int num_rows, int64_t columns,
              float* y) override {
    inner_->Norm(x, norm, num_rows, columns, y);
  }
  void DoRopeTable(std::span<const int> positions, std::span<const float> inv_freq, float magnitude,
                   float* table) override {
    inner_->RopeTable(positions, inv_freq, magnitude, table);
  }
  void DoRope(float* x, int num_rows, const RopeArgs& args, const float* table) override {
    inner_->Rope(x, num_rows, args, table);
  }
  void DoStoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences, int layer,
                 KvArena& arena) override {
    for (const SequenceRows& rows : sequences) CheckIdle(rows, arena);
    inner_->StoreKv(k, v, sequences, layer, In(arena));
  }
  void DoAttention(const float* q, std::span<const SequenceRows> sequences, int layer,
                   const KvArena& arena, const AttentionShape& shape, float* out) override {
    inner_->Attention(q, sequences, layer, In(arena), shape, out);
  }
  void DoGlu(GluKind kind, const float* gate, const float* up, size_t count, float* out) override {
    inner_->Glu(kind, gate, up, count, out);
  }
  void DoAddScaled(const float* x, float factor, size_t count, float* y) override {
    inner_->AddScaled(x, factor, count, y);
  }
  void DoScale(float factor, size_t count, float* x) override { inner_->Scale(factor, count, x); }
  void DoSoftCap(float cap, size_t count, float* x) override { inner_->SoftCap(cap, count, x); }
  void DoTopK(const TopKTask& task, const TopKResult& to) override { inner_->TopK(task, to); }

  // Checks that no block which the rows write is being copied.
  void CheckIdle(const SequenceRows& rows, const KvArena& arena) {
    for (int position = rows.first_position; position < rows.first_position + rows.num_rows;
         ++position) {
      CheckIdle(arena, rows.block_table[static_cast<size_t>(position / kKvBlockTokens)]);
    }
  }

  const std::unique_ptr<Backend> inner_;
  BackendInfo info_;
  const uint64_t memory_bytes_;
  uint64_t bytes_used_ = 0;
  uint64_t host_bytes_ = UINT64_MAX;
  double pace_ = 0.2;
  std::mutex mutex_;
  std::mt19937 random_{std::random_device{}()};
  std::deque<Job> jobs_;
  uint64_t last_ticket_ = 0;
};

}  // namespace kvgate::kernels
