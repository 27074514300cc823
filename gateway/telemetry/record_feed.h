// RecordFeed shows records to readers as they are added, and keeps the sums of the last minute.
//
// Publish never waits for a reader: each has a bounded queue, and what does not fit is dropped and
// counted for it. A reader gets what its filter lets through; whose records it may see is its
// owner's to say. Thread-safe; the feed outlives its readers.
#pragma once

#include <array>
#include <atomic>
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

  class Reader {
   public:
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    struct Taken {
      // As JSON, in the order of their end; readers share the texts.
      std::vector<std::shared_ptr<const std::string>> records = {};
      uint64_t num_dropped = 0;  // behind those, since the last call
      bool has_ended = false;    // no more will come
    };
    Taken Take();
    // True if Take would return nothing new.
    bool is_empty() const;

   private:
    friend class RecordFeed;
    Reader(RecordFeed& feed, Filter filter, std::function<void()> wake)
        : feed_(feed), filter_(std::move(filter)), wake_(std::move(wake)) {}
    RecordFeed& feed_;
    const Filter filter_;
    const std::function<void()> wake_;
    Taken waiting_;  // guarded by the feed's mutex
  };
  // `filter` must be quick. `wake` is called from any thread when Take has something, with the
  // feed's lock held. Fails with kOverloaded if there are too many readers, and with kUnavailable
  // after Close.
  Result<std::unique_ptr<Reader>> Read(Filter filter, std::function<void()> wake);

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

  const Options options_;
  std::atomic<size_t> num_readers_{0};
  mutable std::mutex mutex_;
  std::vector<Reader*> readers_;
  uint64_t num_dropped_ = 0;
  bool is_closed_ = false;
  Window all_;
  LruMap<std::string, Window> tenants_;
};

}  // namespace kvgate::telemetry
