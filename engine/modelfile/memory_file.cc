#include "engine/modelfile/memory_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace kvgate::modelfile {
namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kSealTriesMax = 100;
constexpr std::chrono::milliseconds kSealPause{20};

Error FailureOf(std::string_view what, int error) {
  const bool is_full = error == ENOMEM || error == ENOSPC;
  return MakeError(
      is_full ? ErrorCode::kOverloaded : ErrorCode::kIo, "model",
      fmt::format("cannot {} a file in memory: {}", what, std::generic_category().message(error)));
}

// Returns 0 or an errno.
int WriteAll(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return 0;
}

// Returns 0 or an errno. The kernel refuses for as long as it holds a page of the file itself, as
// it does while it moves pages to make room.
int Seal(int descriptor) {
  for (int i = 0; i < kSealTriesMax; ++i) {
    if (fcntl(descriptor, F_ADD_SEALS, kSeals) == 0) return 0;
    if (errno != EBUSY) return errno;
    std::this_thread::sleep_for(kSealPause);
  }
  return EBUSY;
}

}  // namespace

Result<MemoryFile> MemoryFile::Make(const char* label, std::span<const std::byte> bytes) {
  MemoryFile file(memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.descriptor_ < 0) return FailureOf("make", errno);
  if (const int error = WriteAll(file.descriptor_, bytes); error != 0) {
    return FailureOf("write", error);
  }
  if (const int error = Seal(file.descriptor_); error != 0) return FailureOf("seal", error);
  return file;
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

MemoryFile::~MemoryFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::filesystem::path MemoryFile::path() const {
  return fmt::format("/proc/self/fd/{}", descriptor_);
}

}  // namespace kvgate::modelfile
