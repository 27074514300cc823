// MaskWorker: a thread that answers what matchers are asked, so that the engine's thread does not
// wait for a grammar. What it works on is lent to it: until `done` was called nobody else touches
// the matcher, nor any other of the same table.
//
// The grammar that has taken the least work so far goes first: whoever sends costly ones waits for
// those who do not. The queue has one task for each text under way, so it is as short as the
// engine's list of sequences.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/grammar/mask_table.h"

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
  // Frees a table that nobody uses.
  void Discard(std::shared_ptr<MaskTable> table);

 private:
  void Run();
  void Answer(Task task);

  std::mutex mutex_;
  std::condition_variable wanted_;
  std::vector<Task> tasks_;
  std::vector<std::shared_ptr<MaskTable>> discarded_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace kvgate::grammar
