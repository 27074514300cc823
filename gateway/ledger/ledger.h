// Ledger: keeps one record of every request, and sums. Add never waits for a disk: a thread writes
// what has gathered a few times a second, records and sums in one step, so that after a crash they
// agree; what was added a second before it is there.
//
// The queue is bounded: while the disk does not take records they are dropped and counted, and the
// sums still count their requests. Kept are the newest records, by number and by age.
// Thread-safe. The parts outlive it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <kvgate/result.h>

#include "gateway/ledger/exchange_recorder.h"
#include "gateway/ledger/prices.h"
#include "gateway/ledger/request_record.h"
#include "gateway/ledger/totals.h"
#include "gateway/metrics/registry.h"
#include "gateway/upstream/exchange_observer.h"
#include "store/meta/meta_store.h"

namespace kvgate::ledger {

class Ledger final : public upstream::ExchangeLog {
 public:
  struct Options {
    store::MetaStore* meta = nullptr;  // null: records are not kept, sums last as long as this
    const Prices& prices = Prices::Builtin();
    size_t queue_max = 8192;        // records waiting for the writer; beyond: dropped
    int64_t records_max = 100'000;  // kept; 0: none
    int64_t retention_days = 30;
    std::chrono::milliseconds write_interval{200};
    // Adds to records of forwarded requests that were prepared; called before they are priced and
    // counted, from the thread of the exchange's end. Empty: nothing is added.
    ExchangeRecorder::Complete complete = {};
  };
  // Takes up the sums of the process before this one.
  explicit Ledger(const Options& options);
  // Writes what is queued.
  ~Ledger() override;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Prices the record and counts it.
  void Add(RequestRecord record);
  // What it costs, as far as that is known.
  void Price(RequestRecord& record) const;

  // upstream::ExchangeLog
  std::unique_ptr<upstream::ExchangeObserver> Begin(const upstream::ExchangeStart& start) override;
  upstream::Spending Spent(std::string_view tenant) const override;

  struct ListArgs {
    int64_t limit = 50;                      // 1 to 1000
    std::string before = {};                 // an id: those before it in time
    std::optional<std::string> tenant = {};  // whose; not set: everybody's
  };
  // JSON, newest first: {"data": [RECORD …], "has_more": true}. What was added before the call is
  // in it.
  Result<std::string> List(const ListArgs& args);
  // One record. kNotFound: there is none, or it is not that tenant's.
  Result<std::string> Get(std::string_view id, std::optional<std::string_view> tenant = {});
  // The sums and the state of the writer, as an object; with a tenant, its own sum alone.
  void WriteStats(protocol::JsonWriter& json, std::optional<std::string_view> tenant = {}) const;
  void Collect(metrics::TextWriter& writer) const;
  // Until everything added so far is written, or could not be.
  void Flush();

 private:
  void Count(RequestRecord& record);
  void Run();
  void WriteQueued();
  void Retire(int64_t now_us);
  void Restore();
  Result<void> SealWords();

  const Options options_;
  mutable std::mutex mutex_;  // of the queue and the sums
  std::condition_variable wake_;
  // Rows as they are stored, a fifth of a record's size; empty ones where records are not kept.
  std::vector<store::MetaWrite> queue_;
  Totals totals_;
  uint64_t num_dropped_ = 0;
  bool stopping_ = false;
  std::mutex write_mutex_;  // held while records go to the store; taken before mutex_
  int64_t num_stored_ = 0;
  std::map<std::string, std::string> unwritten_;  // sums that the store has not taken yet
  int64_t retire_at_us_ = 0;
  std::thread thread_;  // last: starts when the rest is there
};

// 24 hex digits that sort by time, for x-kvgate-request-id.
std::string MakeRequestId();

}  // namespace kvgate::ledger
