// PromptStore: what tenants' prompts begin with, as upstreams got it first, on disk: after a
// restart tools and system prompts go out in the same bytes and order, and meet the provider's
// cache. Prompt text at rest: bounded in bytes and age, the oldest goes first.
//
// A thread writes what is new about a second later; nobody waits for it. What cannot be written is
// tried again each second. A row that is damaged is logged and dropped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gateway/prompt/history/tenant_memory.h"
#include "store/meta/meta_store.h"

namespace kvgate::service {

class PromptStore {
 public:
  struct Options {
    store::MetaStore& meta;         // outlives the store, as the memory does
    prompt::TenantMemory& tenants;  // gets what is there
    std::chrono::seconds retention{7 * 86'400};
    uint64_t bytes_max = uint64_t{64} << 20;
    std::chrono::milliseconds write_interval{1'000};
    std::function<int64_t()> now_us = {};  // microseconds since 1970; empty: the system's clock
  };
  explicit PromptStore(const Options& options);
  // Writes what is new.
  ~PromptStore();
  PromptStore(const PromptStore&) = delete;
  PromptStore& operator=(const PromptStore&) = delete;

  // Deletes all that is there.
  static Result<void> Purge(store::MetaStore& meta);

 private:
  struct Kept {
    int64_t time_us = 0;
    std::string key;
    size_t bytes = 0;
  };
  void Load();
  void Run();
  void WriteNew();
  void TakeNew();
  int64_t NowUs() const;
  int64_t OldestUs(int64_t now_us) const;  // what was written before is too old

  const Options options_;
  std::deque<Kept> kept_;  // the oldest first
  uint64_t bytes_ = 0;
  std::vector<store::MetaWrite> unwritten_;  // while it fails, what is newer stays in `tenants`
  bool told_ = false;                        // that it fails
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace kvgate::service
