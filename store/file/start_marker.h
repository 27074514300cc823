// StartMarker: a file that exists beside a database from before it is opened until it has served
// for a while. It counts crashes: a program that installs a signal handler calls NoteCrash when it
// dies of a signal that a damaged file can cause. A process that is killed writes no such trace, so
// killing a server during its start, however often, does not cost the cache.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kvgate::store::file {

class StartMarker {
 public:
  // Reads the traces of earlier processes; creates nothing.
  explicit StartMarker(std::filesystem::path path);
  ~StartMarker();  // a clean end removes the file
  StartMarker(const StartMarker&) = delete;
  StartMarker& operator=(const StartMarker&) = delete;

  // Returns the number of crashes of processes that had begun but not settled.
  uint32_t num_crashes() const { return num_crashes_; }
  void Forget();  // resets the count and removes the file
  void Begin();
  void Settle();  // removes the file; safe on any thread

  // Adds one crash to every marker that has begun in this process. Async-signal-safe.
  static void NoteCrash() noexcept;

 private:
  const std::filesystem::path path_;
  uint32_t num_crashes_ = 0;
  int slot_ = -1;
};

}  // namespace kvgate::store::file
