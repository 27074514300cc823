// HostMemory: aligned, zero-filled memory on huge pages. A request is refused rather than
// overcommitted.
//
// Weights, KV arenas and scratch use it. Linux grants almost any mapping and kills the process when
// the pages are touched later, so large requests are first compared with the available memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace kvgate::kernels::cpu::machine {

// Bytes this process can still touch without swapping or being killed: the smaller of the machine's
// MemAvailable and the remainder of its memory cgroups. UINT64_MAX if neither can be read.
uint64_t AvailableMemoryBytes();

class HostMemory {
 public:
  static constexpr size_t kAlignment = 64;  // one cache line, one AVX-512 vector

  // `purpose` names the request in the error, such as "KV arena". Returns kOverloaded if `bytes`
  // exceed the available memory.
  static Result<HostMemory> Allocate(size_t bytes, const std::string& purpose);

  HostMemory() = default;
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  HostMemory(std::byte* data, size_t size, void* mapping, size_t mapping_bytes)
      : data_(data), size_(size), mapping_(mapping), mapping_bytes_(mapping_bytes) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* mapping_ = nullptr;  // null if data_ came from aligned_alloc
  size_t mapping_bytes_ = 0;
};

}  // namespace kvgate::kernels::cpu::machine
