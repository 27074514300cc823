// The Ledger keeps one record of every request, and sums. Add never waits for a disk: a thread
// writes queued records, their segments, the changed sums and a note of what rollups are to count
// in one step, a few times a second or more often, so that they agree after a crash, and whatever
// was added more than a second before it is kept. Once a second notes become rollups.
//
// The queue is bounded: if the disk does not take records, they are dropped and counted, and the
// sums still include their requests; rollups do not. The newest records are kept, bounded by number
// and age.
// Thread-safe. The objects in Options must outlive it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gateway/ledger/exchange_recorder.h"
#include "gateway/ledger/prices.h"
#include "gateway/ledger/record_filter.h"
#include "gateway/ledger/record_writer.h"
#include "gateway/ledger/request_record.h"
#include "gateway/ledger/rollup/recent_models.h"
#include "gateway/ledger/rollup/rollup_reader.h"
#include "gateway/ledger/rollup/warm_caches.h"
#include "gateway/ledger/spending_elsewhere.h"
#include "gateway/ledger/totals.h"
#include "gateway/metrics/registry.h"
#include "gateway/upstream/body_digests.h"
#include "gateway/upstream/exchange_observer.h"
#include "store/meta/meta_store.h"

namespace kvgate::ledger {

class Ledger final : public upstream::ExchangeLog {
 public:
  struct Use {
    upstream::Spending before = {};
    upstream::Spending after = {};
    int64_t now_us = 0;  // whose day and month both are of
  };
  struct Options {
    store::meta::MetaStore* meta =
        nullptr;  // null: no records, and sums live as long as this object
    const Prices& prices = Prices::Builtin();
    // What tenants have used at other gateways is part of what Spent, AllSpent and on_use say, and
    // of nothing else. Null: there are no others.
    SpendingElsewhere* elsewhere = nullptr;
    size_t queue_max = 8192;        // records waiting for the writer; further ones are dropped
    int64_t records_max = 100'000;  // 0: no records are kept
    int64_t retention_days = 30;
    int64_t segments_max = 20'000;  // of so many newest records the segments are kept
    // A step writes this long after its first record came, or as soon as so many wait: a long step
    // would hold up requests for milliseconds where there are few processors.
    std::chrono::milliseconds write_interval{200};
    size_t step_records = 128;
    // So long after a note the rollups are written that count it.
    std::chrono::milliseconds rollups_interval{1000};
    // Adds to the records of prepared requests before they are priced and counted. It runs on the
    // thread on which the exchange ends. May be empty.
    ExchangeRecorder::Complete complete = {};
    // Called once for each counted record, on the thread that adds it, before it is queued and
    // while no lock is held. It must be quick. May be empty.
    std::function<void(const RequestRecord&)> on_record = {};
    // Called once for each counted record with a usage, on the thread that adds it and while no
    // lock is held, with what its tenant had used before it and after it. No other record's use
    // lies between the two, and both are of the same day and month. It must be quick. May be empty.
    std::function<void(std::string_view tenant, const Use& use)> on_use = {};
  };
  // Continues the sums that an earlier process stored.
  explicit Ledger(const Options& options);
  // Writes the queued records.
  ~Ledger() override;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Prices the record, counts it and queues it.
  void Add(RequestRecord record);
  const Prices& prices() const { return options_.prices; }
  // Where the SHA-256 of bodies are computed.
  upstream::BodyDigests& digests() { return digests_; }
  // Sets the record's cost, if the usage and a price are known.
  void Price(RequestRecord& record) const;

  // upstream::ExchangeLog
  std::unique_ptr<upstream::ExchangeObserver> Begin(const upstream::ExchangeStart& start) override;
  upstream::Spending Spent(std::string_view tenant) const override;
  // Returns what each tenant has used that has used anything this month, by name.
  std::vector<std::pair<std::string, upstream::Spending>> AllSpent() const;
  // Returns what the tenant has used here alone in the day and the month of `now_us`.
  upstream::Spending SpentHere(std::string_view tenant, int64_t now_us) const;

  struct ListArgs {
    int64_t limit = 50;                      // 1 to 1000
    std::string before = {};                 // an id; only older records are listed
    std::optional<std::string> tenant = {};  // whose records; not set: everybody's
    RecordFilter filter = {};                // which of them
  };
  // Returns JSON, newest first: {"data": [RECORD …], "has_more": true}. It includes all records
  // added before the call.
  Result<std::string> List(const ListArgs& args);
  // Calls `visit` for each record that List would return, without the bound of 1000, until it
  // returns false. It may take long; records that come meanwhile are not visited.
  Result<void> Visit(const ListArgs& args, const std::function<bool(const RequestRecord&)>& visit);
  // Returns one record with its segments; kNotFound if there is none, or if it belongs to another
  // tenant.
  Result<std::string> Get(std::string_view id, std::optional<std::string_view> tenant = {});
  // Returns the segments of a record; none if they are not kept any more. It may wait for the disk.
  Result<std::vector<segment::RecordSegment>> SegmentsOf(std::string_view id);
  // Returns sums by time as JSON, of one tenant or of everybody; it includes all records added
  // before the call. Fails as ReadRollups does.
  Result<std::string> Rollups(rollup::Query query, std::optional<std::string_view> tenant = {});
  // Writes the sums, the clocks of warm caches, and the writer's state as an object; with a tenant,
  // only what is that tenant's.
  void WriteStats(dialect::form::JsonWriter& json,
                  std::optional<std::string_view> tenant = {}) const;
  // Writes the models of the last hour as an array.
  void WriteModels(dialect::form::JsonWriter& json,
                   std::optional<std::string_view> tenant = {}) const;
  void Collect(metrics::TextWriter& writer) const;
  // Returns when all records added so far are written, or have failed to be.
  void Flush();

 private:
  using Counting = RecordWriter::Counting;
  void Count(RequestRecord& record);
  RecordWriter::Row ToStored(const RequestRecord& record) const;
  void Run();
  void Flush(Counting counting);
  void WriteQueued(Counting counting);
  bool Write(RecordWriter::Step step);
  void PlanRollups(Counting done);
  void Restore();

  const Options options_;
  const size_t step_records_;
  upstream::BodyDigests digests_;
  mutable std::mutex mutex_;  // guards the queue and the sums
  std::condition_variable wake_;
  std::vector<RecordWriter::Row> queue_;
  Totals totals_;
  rollup::RecentModels models_;
  rollup::WarmCaches clocks_;
  uint64_t num_dropped_ = 0;
  bool stopping_ = false;
  std::optional<std::chrono::steady_clock::time_point> rollups_at_;  // set while there are notes
  std::mutex write_mutex_;              // held while records go to the store; taken before mutex_
  std::optional<RecordWriter> writer_;  // set if there is a store
  std::thread thread_;                  // last member: it starts when all others exist
};

// Returns 24 hex digits that sort by time, for x-kvgate-request-id.
std::string MakeRequestId();

}  // namespace kvgate::ledger
