// DeviceMemory: memory of the device. PinnedMemory: host memory that the device can access itself.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "kernels/backend.h"

namespace kvgate::kernels::cuda::memory {

class DeviceMemory {
 public:
  // 256-aligned, content unspecified. `purpose` names the request in the error, such as "KV arena".
  // Returns kOverloaded if there is not enough device memory.
  static Result<DeviceMemory> Allocate(size_t bytes, const std::string& purpose);

  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // Waits for the copy. Do not use it on memory that running commands use.
  void CopyIn(std::span<const std::byte> host, size_t offset = 0);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Page-locked host memory.
class PinnedMemory {
 public:
  // Returns kOverloaded if the system refuses to lock that much memory.
  static Result<PinnedMemory> Allocate(size_t bytes, const std::string& purpose);

  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Zero-filled f32 device memory.
class DeviceFloats final : public FloatBuffer {
 public:
  static Result<std::unique_ptr<FloatBuffer>> Allocate(size_t count);

 private:
  DeviceFloats(DeviceMemory memory, size_t count);
  DeviceMemory memory_;
};

}  // namespace kvgate::kernels::cuda::memory
