#include "gateway/cli/agents/draft_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kvgate::cli::agents {
namespace {

Error Failed(const std::filesystem::path& path) {
  return MakeError(ErrorCode::kIo, "cli",
                   fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)));
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(descriptor, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    text.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

}  // namespace

Result<DraftFile> DraftFile::Write(const std::filesystem::path& path, std::string_view text,
                                   mode_t mode) {
  std::string name = path.string() + ".XXXXXX";
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return Failed(path);
  DraftFile draft(path, std::move(name));
  const bool is_written = fchmod(descriptor, mode) == 0 && WriteAll(descriptor, text) &&
                          fsync(descriptor) == 0;
  Error failure = Failed(path);
  close(descriptor);
  if (!is_written) return failure;
  return draft;
}

DraftFile::DraftFile(DraftFile&& other) noexcept
    : path_(std::move(other.path_)), draft_(std::exchange(other.draft_, {})) {}

DraftFile::~DraftFile() {
  if (!draft_.empty()) unlink(draft_.c_str());
}

Result<void> DraftFile::Replace() {
  if (rename(draft_.c_str(), path_.c_str()) != 0) return Failed(path_);
  draft_.clear();
  return {};
}

Result<bool> DraftFile::PublishNew() {
  // Unlike a rename, a link is made only where no file has the name. The draft's own name goes
  // with this object.
  if (link(draft_.c_str(), path_.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  return Failed(path_);
}

}  // namespace kvgate::cli::agents
