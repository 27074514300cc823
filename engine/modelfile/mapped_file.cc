#include "engine/modelfile/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace kvgate::modelfile {
namespace {

constexpr std::string_view kSource = "model";

// One mapping, for signal handlers. They read it without a lock, so the path is written before the
// range.
struct MappingSlot {
  std::atomic<bool> is_taken{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // 0 if the slot is unused
  std::array<char, 512> path{};
};
std::array<MappingSlot, 256> g_mappings;

int TakeSlot(std::span<const std::byte> bytes, const std::string& path) {
  for (size_t i = 0; i < g_mappings.size(); ++i) {
    MappingSlot& slot = g_mappings[i];
    if (slot.is_taken.exchange(true)) continue;
    const size_t length = std::min(path.size(), slot.path.size() - 1);
    std::memcpy(slot.path.data(), path.data(), length);
    slot.path[length] = '\0';
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    slot.begin.store(begin);
    slot.end.store(begin + bytes.size());
    return static_cast<int>(i);
  }
  return -1;
}

Error IoError(std::string_view what, const std::filesystem::path& path, int error) {
  const ErrorCode code = error == ENOENT   ? ErrorCode::kNotFound
                         : error == ENOMEM ? ErrorCode::kOverloaded
                                           : ErrorCode::kIo;
  return MakeError(
      code, kSource,
      fmt::format("cannot {} {}: {}", what, path.string(), std::generic_category().message(error)));
}

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

FileIdentity IdentityOf(const struct stat& status) {
  return {.size = static_cast<uint64_t>(status.st_size),
          .modified_ns = Nanoseconds(status.st_mtim),
          .changed_ns = Nanoseconds(status.st_ctim),
          .num_names = status.st_nlink};
}

}  // namespace

bool MayDiffer(const FileIdentity& before, const FileIdentity& now) {
  if (before.size != now.size || before.modified_ns != now.modified_ns) return true;
  return before.changed_ns != now.changed_ns && before.num_names == now.num_names;
}

Result<std::unique_ptr<MappedFile>> MappedFile::Open(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return IoError("open", path, errno);
  struct stat status {};
  const bool is_file = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const size_t size = is_file ? static_cast<size_t>(status.st_size) : 0;
  void* address = MAP_FAILED;
  if (size > 0) address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int map_error = errno;
  if (address != MAP_FAILED) {
    return std::unique_ptr<MappedFile>(new MappedFile(
        path, descriptor, IdentityOf(status), {static_cast<const std::byte*>(address), size}));
  }
  close(descriptor);
  if (!is_file) return IoError("read", path, EINVAL);
  if (size == 0) {
    return MakeError(ErrorCode::kDataLoss, kSource, path.string() + " is empty");
  }
  return IoError("map", path, map_error);
}

MappedFile::MappedFile(std::filesystem::path path, int descriptor, const FileIdentity& identity,
                       std::span<const std::byte> bytes)
    : path_(std::move(path)),
      descriptor_(descriptor),
      identity_(identity),
      bytes_(bytes),
      slot_(TakeSlot(bytes, path_.string())) {}

MappedFile::~MappedFile() {
  if (slot_ >= 0) {
    MappingSlot& slot = g_mappings[static_cast<size_t>(slot_)];
    slot.end.store(0);
    slot.is_taken.store(false);
  }
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  close(descriptor_);
}

Result<FileIdentity> MappedFile::CurrentIdentity() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) return IoError("look at", path_, errno);
  return IdentityOf(status);
}

Result<void> MappedFile::ReadAt(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError("read", path_, errno);
    if (count == 0) {
      return MakeError(ErrorCode::kDataLoss, kSource,
                       fmt::format("{} was cut: it ends before byte {}", path_.string(), offset));
    }
    to = to.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

const char* MappedFile::PathOf(const void* address) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const MappingSlot& slot : g_mappings) {
    // The system maps whole pages, so the last one extends beyond the file's end.
    constexpr uintptr_t kPageBytes = 4096;
    const uintptr_t end = (slot.end.load() + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (slot.end.load() != 0 && at >= slot.begin.load() && at < end) return slot.path.data();
  }
  return nullptr;
}

}  // namespace kvgate::modelfile
