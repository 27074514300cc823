#include "store/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

namespace kvgate::store {
namespace {

constexpr std::string_view kSource = "store";

Error FromErrno(int number, std::string detail) {
  const bool denied = number == EACCES || number == EPERM || number == EROFS;
  return MakeError(denied ? ErrorCode::kPermissionDenied : ErrorCode::kIo, kSource,
                   fmt::format("{}: {}", detail, std::generic_category().message(number)));
}

int OpenLockFile(const std::filesystem::path& directory, int flags) {
  return ::open((directory / "lock").c_str(), flags | O_CLOEXEC, 0600);
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
  const std::string text =
      json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::filesystem::path target = directory / "server.json";
  const std::filesystem::path draft = directory / "server.json.new";
  const int descriptor = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
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
  std::ifstream file(path);
  if (!file) {
    return MakeError(ErrorCode::kNotFound, kSource,
                     fmt::format("{}: no server has published its address", path.string()));
  }
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("pid") || !json["pid"].is_number_integer() ||
      !json.contains("address") || !json["address"].is_string()) {
    return MakeError(ErrorCode::kDataLoss, kSource,
                     fmt::format("{}: not {{\"pid\", \"address\"}}", path.string()));
  }
  const auto certificate = json.value("certificate_sha256", nlohmann::json());
  return ServerInfo{.pid = json["pid"].get<pid_t>(),
                    .address = json["address"],
                    .certificate_sha256 = certificate.is_string() ? certificate : ""};
}

bool IsProcessAlive(pid_t pid) { return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM); }

}  // namespace kvgate::store
