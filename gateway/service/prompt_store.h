// PromptStore keeps on disk the beginnings of tenants' prompts as they were first sent.
// After a restart tools and system prompts therefore go out in the same bytes and order, and still
// hit the provider's cache. Prompt text at rest is bounded in bytes and age; the oldest is dropped
// first, but that of a scope which holds more than half of the bytes before any other, so that no
// tenant pushes out the others.
//
// A background thread writes new rows about every second; no request waits for it. Failed writes
// are retried each second. A damaged row is logged and dropped. The same thread tells new rows to
// the gateways that share a store with this one, and hears theirs, so that all of them send a text
// in the bytes in which one of them sent it first; what is known here stays as it is.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "gateway/prompt/history/tenant_memory.h"
#include "store/meta/meta_store.h"
#include "store/shared/shared_feed.h"

namespace kvgate::service {

class PromptStore {
 public:
  struct Options {
    store::meta::MetaStore& meta;            // must outlive the store, like `tenants`
    prompt::history::TenantMemory& tenants;  // is filled with the rows found on disk
    store::shared::SharedFeed* shared = nullptr;  // of other gateways; null: there are none
    std::chrono::seconds retention{7 * 86'400};
    uint64_t bytes_max = uint64_t{64} << 20;
    std::chrono::milliseconds write_interval{1'000};
    std::function<int64_t()> now_us = {};  // microseconds since 1970; empty: the system's clock
  };
  explicit PromptStore(const Options& options);
  // Writes the rows that are not yet on disk.
  ~PromptStore();
  PromptStore(const PromptStore&) = delete;
  PromptStore& operator=(const PromptStore&) = delete;

  // Deletes all stored prompts.
  static Result<void> Purge(store::meta::MetaStore& meta);

 private:
  using Scope = prompt::history::TenantMemory::Scope;
  // One row on disk.
  struct Kept {
    int64_t time_us = 0;
    std::string key;
    size_t bytes = 0;
    Scope scope = {};
  };
  // The rows that one scope has on disk.
  struct Share {
    std::deque<std::list<Kept>::iterator> rows;  // oldest first
    uint64_t bytes = 0;
  };
  void Load();
  void Run();
  void WriteNew();
  void TakeNew();
  void TalkToOthers();
  void Keep(Kept kept);
  // Drops rows that are too old or too many, and adds their deletion to `unwritten_`.
  void MakeRoom(int64_t oldest_us);
  void DropOldestOf(const Scope& scope);
  int64_t NowUs() const;
  int64_t OldestUs(int64_t now_us) const;  // rows written before this time are too old

  const Options options_;
  std::list<Kept> kept_;  // oldest first
  std::unordered_map<Scope, Share> shares_;
  Scope largest_ = {};  // the last scope that came to hold more than half of bytes_max
  uint64_t bytes_ = 0;
  std::vector<store::meta::MetaWrite>
      unwritten_;      // while writes fail, newer rows stay in `tenants`
  bool told_ = false;  // the failure of writes has been logged
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;  // declared last, so that it starts when all other members exist
};

}  // namespace kvgate::service
