#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace kvgate {
namespace {

// Applies the advice to whole pages. The run shares its first and last page with its neighbours,
// which costs them at most a page fault.
void Advise(std::span<const std::byte> mapped, int advice) {
  if (mapped.empty()) return;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(mapped.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(mapped.data() + mapped.size());
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

void AskForPages(std::span<const std::byte> mapped) { Advise(mapped, MADV_WILLNEED); }

void DropPages(std::span<const std::byte> mapped) { Advise(mapped, MADV_DONTNEED); }

}  // namespace kvgate
