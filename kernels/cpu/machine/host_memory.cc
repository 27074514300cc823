#include "kernels/cpu/machine/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace kvgate::kernels::cpu::machine {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
// Smaller requests use the C library, because a mapping for each would waste pages.
constexpr size_t kMappedBytesMin = size_t{1} << 20;
constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// Reads a file that holds a single number; null for "max" and for a missing file.
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// Returns the number after `key` in a file of "key number" lines.
std::optional<uint64_t> ReadKey(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    uint64_t value = 0;
    if (words >> word && word == key && words >> value) return value;
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key in memory.stat of page cache that is dropped before a kill
};
constexpr CgroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file"};
constexpr CgroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

// Returns the smallest remainder of the group at root + path and its ancestors.
uint64_t CgroupAvailable(const std::string& root, std::string path, const CgroupFiles& files) {
  uint64_t available = kUnknown;
  while (true) {
    const std::string folder = root + (path == "/" ? "" : path) + "/";
    const auto limit = ReadNumber(folder + files.limit);
    const auto usage = ReadNumber(folder + files.usage);
    if (limit && usage) {
      const uint64_t cache = ReadKey(folder + "memory.stat", files.reclaimable).value_or(0);
      const uint64_t used = *usage > cache ? *usage - cache : 0;
      available = std::min(available, *limit > used ? *limit - used : 0);
    }
    const size_t slash = path.rfind('/');
    if (path.size() <= 1 || slash == std::string::npos) return available;
    path.resize(std::max<size_t>(slash, 1));
  }
}

}  // namespace

uint64_t AvailableMemoryBytes() {
  uint64_t available = kUnknown;
  if (const auto kib = ReadKey("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {  // "4:memory:/path" or, in version 2, "0::/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      available = std::min(available, CgroupAvailable("/sys/fs/cgroup", path, kVersion2));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      available = std::min(available, CgroupAvailable("/sys/fs/cgroup/memory", path, kVersion1));
    }
  }
  return available;
}

Result<HostMemory> HostMemory::Allocate(size_t bytes, const std::string& purpose) {
  if (bytes == 0) return HostMemory();
  const auto refuse = [&](uint64_t available, const char* why) {
    return MakeError(
        ErrorCode::kOverloaded, "kernels.cpu",
        fmt::format("{}: {} bytes asked, {} bytes available{}", purpose, bytes, available, why));
  };
  if (bytes > std::numeric_limits<size_t>::max() / 2) return refuse(AvailableMemoryBytes(), "");
  if (bytes < kMappedBytesMin) {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* data = std::aligned_alloc(kAlignment, rounded);
    if (data == nullptr) return refuse(AvailableMemoryBytes(), "");
    std::memset(data, 0, rounded);
    return HostMemory(static_cast<std::byte*>(data), bytes, nullptr, 0);
  }
  const uint64_t available = AvailableMemoryBytes();
  if (bytes > available) return refuse(available, "");
  // A huge page must be aligned to its size; the slack is address space that is never touched.
  const size_t mapping_bytes = bytes + kHugePageBytes;
  void* mapping = mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return refuse(available, " (the system refused the mapping)");
  const uintptr_t address = reinterpret_cast<uintptr_t>(mapping);
  const uintptr_t aligned = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  auto* data = reinterpret_cast<std::byte*>(aligned);
  // Only whole huge pages are advised, so that the tail does not take more memory than requested.
  const size_t huge_bytes = bytes / kHugePageBytes * kHugePageBytes;
  // The result is ignored: a kernel without transparent huge pages is only slower.
  if (huge_bytes > 0) (void)madvise(data, huge_bytes, MADV_HUGEPAGE);
  return HostMemory(data, bytes, mapping, mapping_bytes);
}

HostMemory::~HostMemory() {
  if (mapping_ != nullptr) {
    munmap(mapping_, mapping_bytes_);
  } else {
    std::free(data_);
  }
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

}  // namespace kvgate::kernels::cpu::machine
