#include "engine/model/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kvgate::model {

Result<std::unique_ptr<MappedFile>> MappedFile::Open(const std::filesystem::path& path) {
  static constexpr std::string_view kSource = "model";
  const auto io_error = [&path](std::string_view what, int error) {
    const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return MakeError(code, kSource,
                     fmt::format("cannot {} {}: {}", what, path.string(),
                                 std::generic_category().message(error)));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error("open", errno);
  struct stat status {};
  const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const size_t size = is_file ? static_cast<size_t>(status.st_size) : 0;
  void* address = MAP_FAILED;
  if (size > 0) address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  const int map_error = errno;
  close(fd);
  if (!is_file) return io_error("read", EINVAL);
  if (size == 0) {
    return MakeError(ErrorCode::kDataLoss, kSource, path.string() + " is empty");
  }
  if (address == MAP_FAILED) return io_error("map", map_error);
  return std::unique_ptr<MappedFile>(
      new MappedFile({static_cast<const std::byte*>(address), size}));
}

MappedFile::~MappedFile() { munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace kvgate::model
