// BlockFinder: asks a store without an index, such as one that gateways share, which KV blocks it
// has, on a thread of its own; the store then knows (BlockStore::Contains). All functions may be
// called from any thread.
//
// A driven finder has no thread: its owner takes the questions and performs them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "engine/kv/block_hasher.h"
#include "store/kv/block_store.h"

namespace kvgate::tier {

class BlockFinder {
 public:
  struct Options {
    Fingerprint fingerprint;
    bool is_driven = false;  // no thread: the caller uses Take and Perform
    // Called with the ticket of a question that was answered, or was not within its limit.
    std::function<void(uint64_t ticket)> on_answer;
  };
  // The store outlives it.
  BlockFinder(Options options, store::kv::BlockStore& store);
  // Ends what was asked, delivers the answers, and joins the thread.
  ~BlockFinder();

  struct Item {
    kv::BlockKey key;
    uint32_t group = kv::kFullGroup;
  };
  // Asks for these blocks and returns the ticket that names the question; on_answer follows exactly
  // once, within about `limit`. Throws std::bad_alloc without asking. REQUIRES: items not empty.
  uint64_t Ask(std::vector<Item> items, std::chrono::microseconds limit);
  // Returns how long the store took to answer; 0 if it answered nothing lately.
  double answer_seconds() const;
  // True while the store cannot be reached.
  bool is_paused() const { return store_.is_paused(); }

  struct Question {
    uint64_t ticket = 0;
    std::vector<Item> items;
    std::chrono::microseconds limit{0};
    // By when it is of no use any more: one that waits behind others. One that does not has its
    // whole limit, however late a busy machine lets the thread run.
    std::optional<SteadyClock::time_point> deadline;
  };
  std::optional<Question> Take();
  void Perform(const Question& question);

 private:
  void Run();
  bool LookUp(const Question& question);
  void NoteAnswer(double seconds, SteadyClock::time_point now);  // REQUIRES: mutex_ held
  void Deliver(uint64_t ticket);

  const Options options_;
  store::kv::BlockStore& store_;
  mutable std::mutex mutex_;  // guards the following
  std::condition_variable ready_;
  std::deque<Question> questions_;
  uint64_t last_ticket_ = 0;
  bool is_asking_ = false;
  double answer_seconds_ = 0;
  SteadyClock::time_point answered_at_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace kvgate::tier
