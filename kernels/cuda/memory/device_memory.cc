#include "kernels/cuda/memory/device_memory.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "kernels/cuda/device/device_error.h"
#include "kernels/cuda/device/runtime.h"

namespace kvgate::kernels::cuda::memory {

using device::CheckDevice;

Result<DeviceMemory> DeviceMemory::Allocate(size_t bytes, const std::string& purpose) {
  DeviceMemory memory;
  if (bytes == 0) return memory;
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();  // clears the error, so that the next call does not report it
    size_t bytes_free = 0;
    size_t bytes_total = 0;
    cudaMemGetInfo(&bytes_free, &bytes_total);
    return device::DeviceError(
        error, fmt::format("allocate {} bytes of device memory for the {} ({} of {} "
                           "bytes are free)",
                           bytes, purpose, bytes_free, bytes_total));
  }
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) cudaFree(data_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void DeviceMemory::CopyIn(std::span<const std::byte> host, size_t offset) {
  KVGATE_CHECK(offset <= size_ && host.size() <= size_ - offset, "a copy past device memory");
  if (host.empty()) return;
  CheckDevice(cudaMemcpy(data_ + offset, host.data(), host.size(), cudaMemcpyHostToDevice),
              "copy to the device");
  // cudaMemcpy from pageable memory may return before the copy has arrived.
  CheckDevice(cudaStreamSynchronize(nullptr), "copy to the device");
}

Result<PinnedMemory> PinnedMemory::Allocate(size_t bytes, const std::string& purpose) {
  PinnedMemory memory;
  if (bytes == 0) return memory;
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return device::DeviceError(
        error, fmt::format("lock {} bytes of host memory for the {}", bytes, purpose));
  }
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

DeviceFloats::DeviceFloats(DeviceMemory memory, size_t count) : memory_(std::move(memory)) {
  data_ = reinterpret_cast<float*>(memory_.data());
  size_ = count;
}

Result<std::unique_ptr<FloatBuffer>> DeviceFloats::Allocate(size_t count) {
  if (count > SIZE_MAX / sizeof(float)) {
    return MakeError(ErrorCode::kOverloaded, "kernels.cuda",
                     fmt::format("{} floats are more than memory can hold", count));
  }
  KVGATE_TRY(DeviceMemory memory, DeviceMemory::Allocate(count * sizeof(float), "activations"));
  if (count > 0) {
    CheckDevice(cudaMemset(memory.data(), 0, memory.size()), "clear device memory");
    // The memset is not ordered before work on non-blocking streams.
    CheckDevice(cudaDeviceSynchronize(), "clear device memory");
  }
  return std::unique_ptr<FloatBuffer>(new DeviceFloats(std::move(memory), count));
}

}  // namespace kvgate::kernels::cuda::memory
