// DirectoryLock: shows that this process holds a data directory, and lets others find the holder.
// It knows files, not databases.
//
// The lock is flock(2) on DIR/lock: the kernel releases it however the process ends, and two opens
// by one process exclude each other too. DIR/server.json names the holder. Safe on any thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::store::file {

struct ServerInfo {
  pid_t pid = 0;
  std::string address;
  std::string certificate_sha256 = {};  // in hex; empty if the server does not speak TLS
  // Generated at each start. Whoever can read this file has admin rights. Never logged.
  std::string admin_token = {};
};

class DirectoryLock {
 public:
  // Returns kUnavailable if somebody else holds the lock; the detail names pid and address if
  // known. Other errors: kPermissionDenied, kIo.
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
// Returns kNotFound if there is no file, kDataLoss if WriteServerInfo did not write its content.
Result<ServerInfo> ReadServerInfo(const std::filesystem::path& directory);
bool IsProcessAlive(pid_t pid);

}  // namespace kvgate::store::file
