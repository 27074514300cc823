#include "gateway/cli/agents/overlay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

namespace kvgate::cli::agents {

Result<Overlay> Overlay::Open() {
  const char* const named = std::getenv("TMPDIR");
  std::string path =
      fmt::format("{}/kvgate-run-XXXXXX", named == nullptr || *named == '\0' ? "/tmp" : named);
  if (mkdtemp(path.data()) == nullptr) {  // its mode is 0700
    return MakeError(ErrorCode::kIo, "cli",
                     fmt::format("no folder like {} can be made: {}", path, std::strerror(errno)));
  }
  return Overlay(std::move(path));
}

Overlay::Overlay(Overlay&& other) noexcept : path_(std::exchange(other.path_, {})) {}

Overlay::~Overlay() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<void> Overlay::Write(std::string_view name, std::string_view content) {
  const std::filesystem::path file = path_ / name;
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool is_written = descriptor >= 0;
  while (is_written && !content.empty()) {
    const ssize_t size = write(descriptor, content.data(), content.size());
    if (size < 0 && errno == EINTR) continue;
    is_written = size > 0;
    if (is_written) content.remove_prefix(static_cast<size_t>(size));
  }
  if (descriptor >= 0) close(descriptor);
  if (is_written) return {};
  return MakeError(ErrorCode::kIo, "cli",
                   fmt::format("{} cannot be written: {}", file.string(), std::strerror(errno)));
}

}  // namespace kvgate::cli::agents
