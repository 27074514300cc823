// An array of values in device memory that is written and read as a whole.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda {

template <typename T>
class DeviceValues {
 public:
  explicit DeviceValues(std::span<const T> values) : count_(values.size()) {
    memory_ = std::move(*memory::DeviceMemory::Allocate(values.size_bytes(), "test"));
    memory_.CopyIn(std::as_bytes(values));
  }
  explicit DeviceValues(size_t count) : DeviceValues(std::vector<T>(count)) {}

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> Read() const {
    std::vector<T> values(count_);
    cudaMemcpy(values.data(), memory_.data(), count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  memory::DeviceMemory memory_;
  size_t count_;
};

}  // namespace kvgate::kernels::cuda
