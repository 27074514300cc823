// SharingThread: the thread of the background on which a gateway exchanges with others, through the
// store that they share, what no request waits for. It does so every second, all of it in turn.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace kvgate::runtime::sharing {

class SharingThread {
 public:
  struct Options {
    std::chrono::milliseconds interval{1'000};  // between two exchanges
  };
  struct Exchange {
    std::string what = {};  // for the log, should it throw: "sharing pins"
    std::function<void()> run = {};
  };
  // Begins at once. What the exchanges refer to outlives it.
  SharingThread(const Options& options, std::vector<Exchange> exchanges);
  // Waits for the exchange that runs.
  ~SharingThread();
  SharingThread(const SharingThread&) = delete;
  SharingThread& operator=(const SharingThread&) = delete;

 private:
  void Run();

  const Options options_;
  const std::vector<Exchange> exchanges_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_stopping_ = false;
  std::thread thread_;  // declared last, so that it starts when all other members exist
};

}  // namespace kvgate::runtime::sharing
