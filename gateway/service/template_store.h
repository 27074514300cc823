// TemplateStore keeps on disk what has been learnt of tenants' prompts: which of their lines are
// volatile. After a restart new conversations therefore begin with the slots that were known
// before. There is one sealed row for each tenant and model that Templates holds, so its bounds are
// those of Templates; a row that has not been written for as long as the retention is deleted.
//
// A background thread writes what has changed at most once in each interval, which is what a crash
// loses; no request waits for it. Failed writes are retried. A damaged row is logged and dropped.
// The same thread tells what has changed to the gateways that share a store with this one, and
// hears what they have learnt.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/templates/templates.h"
#include "store/meta/meta_store.h"
#include "store/shared/shared_feed.h"

namespace kvgate::service {

class TemplateStore {
 public:
  struct Options {
    store::meta::MetaStore& meta;             // must outlive the store, like `templates`
    prompt::templates::Templates& templates;  // is given what the rows on disk hold
    store::shared::SharedFeed* shared = nullptr;  // of other gateways; null: there are none
    std::chrono::seconds retention{7 * 86'400};
    std::chrono::milliseconds write_interval{5'000};
    std::function<int64_t()> now_us = {};  // microseconds since 1970; empty: the system's clock
  };
  explicit TemplateStore(const Options& options);
  // Writes what is not yet on disk.
  ~TemplateStore();
  TemplateStore(const TemplateStore&) = delete;
  TemplateStore& operator=(const TemplateStore&) = delete;

  // Deletes all that was learnt.
  static Result<void> Purge(store::meta::MetaStore& meta);

 private:
  // One row on disk.
  struct Kept {
    prompt::parse::Identity model;  // Templates::KeyOf
    std::string key;
    int64_t time_us = 0;
    uint64_t num_told = 0;  // changes of lines that other gateways were told of
  };
  struct Found;
  void Load();
  // Returns the rows that can be used, and adds the deletion of all others to `unwritten_`.
  std::vector<Found> Scan();
  void Run();
  void WriteNew();
  void TakeChanged();
  void TalkToOthers();
  void Keep(Kept kept);
  // Both add the row's deletion to `unwritten_`.
  void Drop(const prompt::parse::Identity& model);
  void Delete(std::string key);
  int64_t NowUs() const;
  int64_t OldestUs() const;  // rows written before this time are too old

  const Options options_;
  std::list<Kept> kept_;  // last written first
  std::unordered_map<prompt::parse::Identity, std::list<Kept>::iterator> rows_;
  prompt::templates::Templates::Changes taken_;    // not all of it is in `unwritten_` yet
  std::vector<store::meta::MetaWrite> unwritten_;  // while writes fail, nothing more is taken
  bool told_ = false;                              // the failure of writes has been logged
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;  // declared last, so that it starts when all other members exist
};

}  // namespace kvgate::service
