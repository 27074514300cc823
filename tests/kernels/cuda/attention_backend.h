// A backend that has only DeviceAttention, to test attention apart from the device's other
// operations.
#pragma once

#include <cstring>
#include <memory>
#include <utility>

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/command_stream.h"
#include "kernels/cuda/device/device_error.h"
#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda {

class AttentionBackend final : public Backend {
 public:
  AttentionBackend() {
    stream_ = std::move(*device::CommandStream::Open({}));
    attention_ = std::move(*attention::DeviceAttention::Open(132, *stream_));
  }
  const BackendInfo& Info() const override { return info_; }
  void Synchronize() override {
    stream_->Synchronize();
    attention_->DeliverBlockMasses();
  }
  device::CommandStream& stream() { return *stream_; }

 private:
  Result<std::unique_ptr<FloatBuffer>> DoAllocateFloats(size_t count) override {
    return memory::DeviceFloats::Allocate(count);
  }
  Result<std::unique_ptr<KvArena>> DoAllocateKv(const KvShape& shape,
                                                uint32_t num_blocks) override {
    return attention_->AllocateKv(shape, num_blocks);
  }
  void DoCopyIn(std::span<const float> host, float* device) override {
    stream_->Synchronize();
    Transfer(host.data(), device, host.size_bytes());
  }
  void DoCopyOut(const float* device, std::span<float> host) override {
    stream_->Synchronize();
    Transfer(device, host.data(), host.size_bytes());
  }
  void DoReadKvBlock(const KvArena& arena, BlockId id, std::span<std::byte> host) override {
    stream_->Synchronize();
    Transfer(arena.block(id), host.data(), host.size());
  }
  void DoWriteKvBlock(KvArena& arena, BlockId id, std::span<const std::byte> host) override {
    stream_->Synchronize();
    Transfer(host.data(), arena.block(id), host.size());
  }
  void DoCopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) override {
    attention_->CopyKvBlock(arena, from, to, num_tokens);
  }
  void DoPoisonKvBlock(KvArena& arena, BlockId id) override {
    attention_->PoisonKvBlock(arena, id);
  }
  void DoStoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences, int layer,
                 KvArena& arena) override {
    attention_->StoreKv(k, v, sequences, layer, arena);
  }
  void DoAttention(const float* q, std::span<const SequenceRows> sequences, int layer,
                   const KvArena& arena, const AttentionShape& shape, float* out) override {
    attention_->Run(q, sequences, layer, arena, shape, out);
  }

  static void Transfer(const void* from, void* to, size_t bytes) {
    device::CheckDevice(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copy in a test");
  }
  [[noreturn]] static void Refuse() { KVGATE_CHECK(false, "an operation of attention"); }

  Result<std::unique_ptr<Weight>> DoLoadWeight(const WeightView&) override { Refuse(); }
  Result<std::unique_ptr<HostBuffer>> DoAllocateHost(size_t) override { Refuse(); }
  void DoEmbedRows(const WeightView&, std::span<const TokenId>, float*) override { Refuse(); }
  void DoGatherRows(const float*, std::span<const int>, int64_t, float*) override { Refuse(); }
  void DoScatterAddRows(const float*, std::span<const int>, std::span<const float>, int64_t,
                        float*) override {
    Refuse();
  }
  void DoMatMul(const float*, int, std::span<const MatMulTask>) override { Refuse(); }
  void DoNorm(const float*, const NormArgs&, int, int64_t, float*) override { Refuse(); }
  void DoRopeTable(std::span<const int>, std::span<const float>, float, float*) override {
    Refuse();
  }
  void DoRope(float*, int, const RopeArgs&, const float*) override { Refuse(); }
  void DoGlu(GluKind, const float*, const float*, size_t, float*) override { Refuse(); }
  void DoAddScaled(const float*, float, size_t, float*) override { Refuse(); }
  void DoScale(float, size_t, float*) override { Refuse(); }
  void DoSoftCap(float, size_t, float*) override { Refuse(); }
  void DoTopK(const TopKTask&, const TopKResult&) override { Refuse(); }

  BackendInfo info_{.name = "cuda", .target = "emulator", .numerics_id = "", .invariant = true};
  std::unique_ptr<device::CommandStream> stream_;
  std::unique_ptr<attention::DeviceAttention> attention_;
};

}  // namespace kvgate::kernels::cuda
