// RecordFeed shows records to readers as they are added, and keeps the sums of the last minute.
//
// Publish never waits for a reader: each has a bounded queue, and what does not fit is dropped and
// counted for it. A reader gets what its filter lets through; whose records it may see is its
// owner's to say. A record's text is written only if somebody takes it, so that a page that shows
// some of many records costs what it shows. Thread-safe; the feed outlives its readers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/lru_map.h"
#include "base/result.h"
#include "gateway/ledger/request_record.h"
#include "gateway/metrics/registry.h"

namespace kvgate::telemetry {

struct MinuteSums {
  int64_t requests = 0;
  int64_t failed = 0;  // status 400 and above, or cut
  int64_t cached_tokens = 0;
  int64_t written_tokens = 0;
  int64_t uncached_tokens = 0;
  int64_t output_tokens = 0;
  int64_t nanodollars = 0;
  int64_t uncached_nanodollars = 0;
  int64_t direct_nanodollars = 0;
  void Add(const ledger::RequestRecord& record);
  void Add(const MinuteSums& other);
  friend bool operator==(const MinuteSums&, const MinuteSums&) = default;
};

class RecordFeed {
 public:
  struct Options {
    size_t readers_max = 64;    // further ones are refused
    size_t records_max = 256;   // that wait for one reader; further ones are dropped
    size_t tenants_max = 1024;  // whose sums are kept; those that were idle longest go first
  };
  using Filter = std::function<bool(const ledger::RequestRecord&)>;

  RecordFeed() : RecordFeed(Options()) {}
  explicit RecordFeed(const Options& options);

  struct ReadArgs {
    Filter filter;               // must be quick
    std::function<void()> wake;  // called when Take has something, from any thread, with the feed's
                                 // lock held
    uint32_t records_per_second = 0;  // further ones are left out and counted; 0: no limit
  };
  class Reader {
   public:
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    struct Taken {
      // As JSON, in the order of their end; readers share the texts.
      std::vector<std::shared_ptr<const std::string>> records = {};
      uint64_t num_dropped = 0;  // that were left out since the last call
      bool has_ended = false;    // no more will come
    };
    Taken Take();
    // True if Take would return no record and no end.
    bool is_empty() const;

   private:
    friend class RecordFeed;
    Reader(RecordFeed& feed, ReadArgs args) : feed_(feed), args_(std::move(args)) {}
    // Returns true if it takes one more record in this second, and false if it has too many. Both
    // need the feed's mutex.
    bool HasRoom(int64_t second);
    void CountDropped();
    RecordFeed& feed_;
    const ReadArgs args_;
    // Guarded by the feed's mutex.
    Taken waiting_;
    int64_t second_ = -1;         // of the last record
    uint32_t num_in_second_ = 0;  // records taken in it
  };
  // Fails with kOverloaded if there are too many readers, and with kUnavailable after Close.
  Result<std::unique_ptr<Reader>> Read(ReadArgs args);

  void Publish(const ledger::RequestRecord& record);
  // Ends all readers.
  void EndAll();
  // The same, and lets in no more.
  void Close();

  // The sums of the last 60 seconds, of one tenant or of all.
  MinuteSums LastMinute(std::optional<std::string_view> tenant = {}) const;
  void Collect(metrics::TextWriter& writer) const;

 private:
  static constexpr int64_t kSeconds = 60;
  // A ring of sums by second.
  class Window {
   public:
    void Add(const ledger::RequestRecord& record, int64_t second);
    MinuteSums SumAt(int64_t second) const;

   private:
    struct Slot {
      int64_t second = -1;
      MinuteSums sums;
    };
    std::array<Slot, kSeconds> slots_;
  };
  static int64_t NowSecond();
  bool IsWanted(const ledger::RequestRecord& record, int64_t second);

  const Options options_;
  mutable std::mutex mutex_;
  std::vector<Reader*> readers_;
  uint64_t num_dropped_ = 0;
  bool is_closed_ = false;
  Window all_;
  LruMap<std::string, Window> tenants_;
};

}  // namespace kvgate::telemetry
