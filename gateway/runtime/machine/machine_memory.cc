#include "gateway/runtime/machine/machine_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace kvgate::runtime::machine {
namespace {

// A value of /proc/meminfo in bytes; 0 if it is missing.
uint64_t MemoryField(std::string_view name) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib && std::getline(file, unit)) {
    if (key == fmt::format("{}:", name)) return kib * 1024;
  }
  return 0;
}

}  // namespace

uint64_t MemoryLimit() {
  uint64_t limit = MemoryField("MemTotal");
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t bytes = 0;
    if (std::ifstream(path) >> bytes && bytes > 0) limit = std::min(limit, bytes);
  }
  return limit;
}

uint64_t AvailableMemory() { return MemoryField("MemAvailable"); }

uint64_t LesserKnown(uint64_t a, uint64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

}  // namespace kvgate::runtime::machine
