// StartMarker: a file beside a database from before it is opened until it has served for a while.
// What it counts are crashes: a program that installs a handler calls NoteCrash when it is about to
// die of a signal that a damaged file can cause. A process that is killed leaves no such trace, so
// killing a server at its start, however often, costs no cache.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kvgate::store {

class StartMarker {
 public:
  // Reads what earlier processes have left; makes nothing.
  explicit StartMarker(std::filesystem::path path);
  ~StartMarker();  // a clean end: the file goes
  StartMarker(const StartMarker&) = delete;
  StartMarker& operator=(const StartMarker&) = delete;

  // Of those processes that had begun and not yet settled.
  uint32_t num_crashes() const { return num_crashes_; }
  void Forget();  // what was counted
  void Begin();
  void Settle();  // the file goes; any thread

  // Adds one to every marker that has begun in this process. Safe in a signal handler.
  static void NoteCrash() noexcept;

 private:
  const std::filesystem::path path_;
  uint32_t num_crashes_ = 0;
  int slot_ = -1;
};

}  // namespace kvgate::store
