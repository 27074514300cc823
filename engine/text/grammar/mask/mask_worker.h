// MaskWorker: a thread that answers what matchers are asked, so that the engine's thread does not
// wait for a grammar. What it works on is lent to it: until `done` was called nobody else touches
// the matcher, nor any other of the same table.
//
// What grammars leave behind in memory goes back to the system now and then: malloc_trim holds up
// all threads that want memory of the part it is at, so it has a hundredth of the time at most.
//
// The grammar that has taken the least work so far goes first: whoever sends costly ones waits for
// those who do not. The queue has one task for each text under way, so it is as short as the
// engine's list of sequences.
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

namespace kvgate::grammar {

class Matcher;

class MaskWorker {
 public:
  struct Task {
    std::shared_ptr<Matcher> matcher;
    std::function<void(std::shared_ptr<Matcher>)> done;
  };
  MaskWorker();
  // Ends what is queued first.
  ~MaskWorker();

  void Post(Task task);
  // Frees what nobody uses.
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
  // So much that was freed goes back to the system: glibc keeps small blocks for the next grammar.
  static constexpr size_t kTrimBytes = size_t{8} << 20;
  size_t discarded_bytes_ = 0;
  size_t freed_bytes_ = 0;       // the worker's own, like next_trim_
  Clock::time_point next_trim_;  // at once
  std::thread thread_;           // last: starts when the rest is there
};

}  // namespace kvgate::grammar
