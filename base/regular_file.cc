#include "base/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace kvgate {
namespace {

constexpr std::string_view kSource = "file";

Error FromErrno(int number, const std::filesystem::path& path) {
  ErrorCode code = ErrorCode::kIo;
  if (number == ENOENT || number == ENOTDIR) code = ErrorCode::kNotFound;
  if (number == EACCES || number == EPERM) code = ErrorCode::kPermissionDenied;
  return MakeError(code, kSource,
                   fmt::format("{}: {}", path.string(), std::generic_category().message(number)));
}

Error NotRegular(const std::filesystem::path& path) {
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   fmt::format("{} is not a regular file", path.string()));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

Result<Descriptor> Open(const std::filesystem::path& path, const RegularFileOptions& options) {
  const int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  Descriptor file(::open(path.c_str(), options.follows_link ? flags : flags | O_NOFOLLOW));
  if (file.number() < 0 && errno == ELOOP && !options.follows_link) return NotRegular(path);
  if (file.number() < 0 && errno == ENXIO) return NotRegular(path);  // the path is a socket
  if (file.number() < 0) return FromErrno(errno, path);
  struct stat info {};
  if (::fstat(file.number(), &info) != 0) return FromErrno(errno, path);
  if (!S_ISREG(info.st_mode)) return NotRegular(path);
  if (static_cast<uint64_t>(info.st_size) > options.bytes_max) {
    return MakeError(ErrorCode::kTooLarge, kSource,
                     fmt::format("{} has {} bytes; {} are the most that is read of it",
                                 path.string(), info.st_size, options.bytes_max));
  }
  return file;
}

}  // namespace

Result<void> CheckRegularFile(const std::filesystem::path& path,
                              const RegularFileOptions& options) {
  KVGATE_TRY_VOID(Open(path, options));
  return {};
}

Result<std::string> ReadRegularFile(const std::filesystem::path& path,
                                    const RegularFileOptions& options) {
  KVGATE_TRY(const Descriptor file, Open(path, options));
  std::string text;
  char piece[16384];
  // If the file grows during the read, it is read up to the limit and no further.
  while (text.size() <= options.bytes_max) {
    const ssize_t size = ::read(file.number(), piece, sizeof(piece));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return FromErrno(errno, path);
    if (size == 0) return text;
    text.append(piece, static_cast<size_t>(size));
  }
  return MakeError(ErrorCode::kTooLarge, kSource,
                   fmt::format("{} grew beyond {} bytes", path.string(), options.bytes_max));
}

}  // namespace kvgate
