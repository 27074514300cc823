// MaskWorker: a thread that computes the answers of matchers, so that the engine thread does not
// wait for a grammar. The matcher's table is lent to it: until `done` is called nobody else may
// touch the matcher or any other matcher of the same table.
//
// Memory freed by grammars is returned to the system from time to time. malloc_trim blocks other
// threads that allocate from the same arena, so it gets at most one percent of the time.
//
// The task whose table has used the least work so far runs first, so expensive grammars wait for
// cheap ones. The queue holds at most one task per sequence, so the engine's limit on sequences
// bounds it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/text/grammar/mask/mask_table.h"

namespace kvgate::grammar::mask {

class Matcher;

class MaskWorker {
 public:
  struct Task {
    std::shared_ptr<Matcher> matcher;
    std::function<void(std::shared_ptr<Matcher>)> done;
  };
  MaskWorker();
  // Finishes the queued tasks first.
  ~MaskWorker();

  void Post(Task task);
  // Frees an object that nobody uses, on the worker thread.
  void Discard(std::shared_ptr<const void> what, size_t bytes);

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  void Answer(Task task);
  bool IsTrimDue() const { return freed_bytes_ >= kTrimBytes && Clock::now() >= next_trim_; }
  void GiveBack();

  std::mutex mutex_;
  std::condition_variable wanted_;
  std::vector<Task> tasks_;
  std::vector<std::shared_ptr<const void>> discarded_;
  bool stopping_ = false;
  // Trims after this much was freed; glibc keeps small blocks for the next grammar.
  static constexpr size_t kTrimBytes = size_t{8} << 20;
  size_t discarded_bytes_ = 0;
  size_t freed_bytes_ = 0;       // used by the worker only, like next_trim_
  Clock::time_point next_trim_;  // the first trim may come at once
  std::thread thread_;           // last, so that it starts after the other members exist
};

}  // namespace kvgate::grammar::mask
