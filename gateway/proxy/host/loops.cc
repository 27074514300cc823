#include "gateway/proxy/host/loops.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <future>

#include "base/memory_fence.h"
#include "base/thread_activity.h"

namespace kvgate::proxy::host {
namespace {

namespace asio = boost::asio;

// How often each loop reports that it is alive.
constexpr std::chrono::milliseconds kBeatInterval{250};

// Reports that a loop is running. It lives on the loop's thread, which destroys it after the loop
// has ended, so no handler runs afterwards.
class Heartbeat {
 public:
  Heartbeat(asio::io_context& io, const char* what) : what_(what), timer_(io) { Beat(); }

 private:
  void Beat() {
    activity_.Begin(what_);
    timer_.expires_after(kBeatInterval);
    timer_.async_wait([this](const boost::system::error_code& code) {
      if (!code) Beat();
    });
  }

  const char* const what_;
  ThreadActivity activity_{{.pool = "loop", .patience = kBeatInterval + std::chrono::seconds(1)}};
  asio::steady_timer timer_;
};

}  // namespace

Loops::Loops(int count, const char* what) : what_(what) {
  for (int i = 0; i < count; ++i) loops_.push_back(std::make_unique<asio::io_context>(1));
}

void Loops::Start() {
  for (const auto& loop : loops_) {
    guards_.emplace_back(loop->get_executor());
    threads_.emplace_back([this, &io = *loop] { Run(io); });
  }
}

void Loops::Stop() {
  guards_.clear();
  for (const auto& loop : loops_) loop->stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Loops::Flush() {
  for (const auto& loop : loops_) {
    std::promise<void> has_run;
    asio::post(*loop, [&] { has_run.set_value(); });
    has_run.get_future().wait();
  }
}

void Loops::Run(asio::io_context& io) {
  Heartbeat heartbeat(io, what_);
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      LogFailure("proxy", "a handler threw", "", error);
    }
  }
}

}  // namespace kvgate::proxy::host
