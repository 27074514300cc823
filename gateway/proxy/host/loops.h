// Loops: event loops with a thread each, so that what runs on one never changes threads, needs no
// lock and wakes no other thread.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

namespace kvgate::proxy::host {

class Loops {
 public:
  // `what` says in the log what runs there: "the handlers of requests"; it outlives this. The
  // threads do not run yet.
  Loops(int count, const char* what);
  // Ends as Stop does.
  ~Loops() { Stop(); }
  Loops(const Loops&) = delete;
  Loops& operator=(const Loops&) = delete;

  // Throws std::system_error if the system refuses a thread; those that run are stopped then.
  void Start();
  // Handlers that run end; what has not begun is dropped when this is destroyed.
  void Stop();

  size_t size() const { return loops_.size(); }
  boost::asio::io_context& at(size_t index) { return *loops_[index]; }
  // Another one at each call. Thread-safe.
  boost::asio::io_context& Next() {
    return *loops_[next_.fetch_add(1, std::memory_order_relaxed) % loops_.size()];
  }
  // Returns when all that was posted before has run. REQUIRES: they run. Not on a loop.
  void Flush();

 private:
  void Run(boost::asio::io_context& io);

  const char* const what_;
  std::vector<std::unique_ptr<boost::asio::io_context>> loops_;
  std::atomic<size_t> next_{0};
  std::vector<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> guards_;
  std::vector<std::thread> threads_;
};

}  // namespace kvgate::proxy::host
