#include "store/file/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/regular_file.h"

namespace kvgate::store::file {
namespace {

constexpr std::string_view kSource = "store";
constexpr uint64_t kServerInfoBytesMax = 64 * 1024;

Error FromErrno(int number, std::string detail) {
  const bool denied = number == EACCES || number == EPERM || number == EROFS;
  return MakeError(denied ? ErrorCode::kPermissionDenied : ErrorCode::kIo, kSource,
                   fmt::format("{}: {}", detail, std::generic_category().message(number)));
}

// Returns -1 on failure, and also if the path is a pipe or a symbolic link, which could block the
// opener or lead to another file.
int OpenLockFile(const std::filesystem::path& directory, int flags) {
  const int descriptor = ::open((directory / "lock").c_str(),
                                flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY, 0600);
  struct stat info {};
  if (descriptor < 0 || (::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode))) {
    return descriptor;
  }
  ::close(descriptor);
  errno = EINVAL;
  return -1;
}

// Creates a new file that nobody else can have opened before, because its content may be secret.
int CreatePrivate(const std::filesystem::path& path) {
  ::unlink(path.c_str());
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

// Returns the text member `name`, or an empty string if there is none.
std::string TextOf(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Result<void> WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FromErrno(errno, "writing server.json");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

Result<DirectoryLock> DirectoryLock::Acquire(const std::filesystem::path& directory) {
  const int descriptor = OpenLockFile(directory, O_RDWR | O_CREAT);
  if (descriptor < 0) {
    return FromErrno(errno, fmt::format("data directory {}: opening its lock", directory.string()));
  }
  DirectoryLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) {
    return FromErrno(errno, fmt::format("data directory {}: locking", directory.string()));
  }
  const auto holder = ReadServerInfo(directory);
  return MakeError(
      ErrorCode::kUnavailable, kSource,
      holder ? fmt::format("data directory {} is held by process {}{}{}", directory.string(),
                           holder->pid, holder->address.empty() ? "" : ", which serves ",
                           holder->address)
             : fmt::format("data directory {} is held by another process", directory.string()));
}

bool DirectoryLock::IsHeld(const std::filesystem::path& directory) {
  const int descriptor = OpenLockFile(directory, O_RDONLY);
  if (descriptor < 0) return false;
  const DirectoryLock close_at_end(descriptor);
  return ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> WriteServerInfo(const std::filesystem::path& directory, const ServerInfo& info) {
  nlohmann::json json{{"pid", info.pid}, {"address", info.address}};
  if (!info.certificate_sha256.empty()) json["certificate_sha256"] = info.certificate_sha256;
  if (!info.admin_token.empty()) json["admin_token"] = info.admin_token;
  const std::string text =
      json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::filesystem::path target = directory / "server.json";
  const std::filesystem::path draft = directory / "server.json.new";
  const int descriptor = CreatePrivate(draft);
  if (descriptor < 0) return FromErrno(errno, fmt::format("creating {}", draft.string()));
  auto written = WriteAll(descriptor, text);
  ::close(descriptor);
  if (!written) return written;
  if (::rename(draft.c_str(), target.c_str()) != 0) {
    return FromErrno(errno, fmt::format("replacing {}", target.string()));
  }
  return {};
}

Result<ServerInfo> ReadServerInfo(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "server.json";
  const Result<std::string> text =
      ReadRegularFile(path, {.bytes_max = kServerInfoBytesMax, .follows_link = false});
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return MakeError(ErrorCode::kNotFound, kSource,
                     fmt::format("{}: no server has published its address", path.string()));
  }
  if (!text && text.error().code == ErrorCode::kPermissionDenied) return text.error();
  if (!text) return MakeError(ErrorCode::kDataLoss, kSource, text.error().detail);
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("pid") || !json["pid"].is_number_integer() ||
      !json.contains("address") || !json["address"].is_string()) {
    return MakeError(ErrorCode::kDataLoss, kSource,
                     fmt::format("{}: not {{\"pid\", \"address\"}}", path.string()));
  }
  return ServerInfo{.pid = json["pid"].get<pid_t>(),
                    .address = json["address"],
                    .certificate_sha256 = TextOf(json, "certificate_sha256"),
                    .admin_token = TextOf(json, "admin_token")};
}

bool IsProcessAlive(pid_t pid) { return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM); }

}  // namespace kvgate::store::file
