// DirectoryLock: who holds a data directory, and how to find them. It knows files, no database.
//
// The lock is flock(2) on DIR/lock: it goes with the process, however that ends, and two opens of
// one process exclude each other too. DIR/server.json names the holder. Any thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include <kvgate/result.h>

namespace kvgate::store {

struct ServerInfo {
  pid_t pid = 0;
  std::string address;
  std::string certificate_sha256 = {};  // in hex, of a server that speaks TLS; else empty
  // Made anew at each start: whoever can read this file may do everything. Never logged.
  std::string admin_token = {};
};

class DirectoryLock {
 public:
  // kUnavailable: held by another; detail names pid and address when known. kPermissionDenied, kIo.
  static Result<DirectoryLock> Acquire(const std::filesystem::path& directory);
  static bool IsHeld(const std::filesystem::path& directory);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

// Replaces DIR/server.json atomically, mode 0600.
Result<void> WriteServerInfo(const std::filesystem::path& directory, const ServerInfo& info);
// kNotFound: none; kDataLoss: not what WriteServerInfo wrote.
Result<ServerInfo> ReadServerInfo(const std::filesystem::path& directory);
bool IsProcessAlive(pid_t pid);

}  // namespace kvgate::store
