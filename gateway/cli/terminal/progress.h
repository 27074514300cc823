// Progress: prints a line to stderr every two seconds while work goes on, so that quick work prints
// none. Set may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace kvgate::cli::terminal {

class Progress {
 public:
  // Prints "exporting: 12 of 40 MiB, 4 s"; without a unit "warming: 4 s".
  explicit Progress(std::string what, std::string unit = {}, std::FILE* out = stderr,
                    std::chrono::milliseconds interval = std::chrono::seconds(2));
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A total of 0 means that it is unknown.
  void Set(uint64_t done, uint64_t total) {
    done_.store(done);
    total_.store(total);
  }

 private:
  void Print(std::chrono::seconds elapsed) const;

  const std::string what_;
  const std::string unit_;  // empty: no numbers
  std::FILE* const out_;
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> total_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace kvgate::cli::terminal
