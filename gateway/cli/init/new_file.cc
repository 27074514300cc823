#include "gateway/cli/init/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace kvgate::cli::init {
namespace {

namespace fs = std::filesystem;

Error IsThere(const fs::path& path) {
  return MakeError(
      ErrorCode::kInvalidArgument, "cli",
      fmt::format("{} is there already; --force replaces it, --out names another", path.string()));
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(descriptor, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    text.remove_prefix(static_cast<size_t>(size));
  }
  return fsync(descriptor) == 0;
}

// A link is made only where no file has that name; a rename replaces one.
bool Publish(const std::string& draft, const fs::path& path, IfThere if_there) {
  if (if_there == IfThere::kReplace) return rename(draft.c_str(), path.c_str()) == 0;
  return link(draft.c_str(), path.c_str()) == 0 && unlink(draft.c_str()) == 0;
}

}  // namespace

Result<void> CheckNewFile(const fs::path& path, IfThere if_there) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return {};
  if (if_there == IfThere::kRefuse) return IsThere(path);
  if (S_ISREG(found.st_mode)) return {};
  return MakeError(ErrorCode::kInvalidArgument, "cli",
                   fmt::format("{} is no regular file; it is not replaced", path.string()));
}

Result<void> WriteNewFile(const fs::path& path, std::string_view text, IfThere if_there) {
  KVGATE_TRY_VOID(CheckNewFile(path, if_there));
  std::string draft = path.string() + ".XXXXXX";
  const int descriptor = mkostemp(draft.data(), O_CLOEXEC);  // mode 0600
  const bool is_written = descriptor >= 0 && WriteAll(descriptor, text);
  const bool is_published = is_written && Publish(draft, path, if_there);
  const int problem = errno;
  if (descriptor >= 0) close(descriptor);
  if (is_published) return {};
  if (descriptor >= 0) unlink(draft.c_str());
  if (is_written && problem == EEXIST) return IsThere(path);
  return MakeError(ErrorCode::kIo, "cli",
                   fmt::format("{} cannot be written: {}", path.string(), std::strerror(problem)));
}

}  // namespace kvgate::cli::init
