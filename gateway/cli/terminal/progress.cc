#include "gateway/cli/terminal/progress.h"

#include <fmt/format.h>

#include <utility>

#include "base/memory_fence.h"

namespace kvgate::cli::terminal {

Progress::Progress(std::string what, std::string unit, std::FILE* out,
                   std::chrono::milliseconds interval)
    : what_(std::move(what)), unit_(std::move(unit)), out_(out) {
  thread_ = std::thread([this, interval] {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, interval, [this] { return ended_; })) {
      const auto elapsed = std::chrono::steady_clock::now() - begin;
      (void)Attempt("cli", "showing progress",
                    [&] { Print(std::chrono::duration_cast<std::chrono::seconds>(elapsed)); });
    }
  });
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Progress::Print(std::chrono::seconds elapsed) const {
  std::string numbers;
  const uint64_t total = total_.load();
  if (!unit_.empty() && total > 0) {
    numbers = fmt::format("{} of {} {}, ", done_.load(), total, unit_);
  } else if (!unit_.empty()) {
    numbers = fmt::format("{} {}, ", done_.load(), unit_);
  }
  fmt::print(out_, "{}: {}{} s\n", what_, numbers, elapsed.count());
  std::fflush(out_);
}

}  // namespace kvgate::cli::terminal
