#include "gateway/telemetry/record_feed.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"

namespace kvgate::telemetry {

using ledger::RequestRecord;

void MinuteSums::Add(const RequestRecord& record) {
  ++requests;
  if (ledger::IsFailed(record)) ++failed;
  if (record.usage) {
    cached_tokens += record.usage->cache_read_tokens;
    written_tokens += record.usage->cache_write_tokens + record.usage->cache_write_1h_tokens;
    uncached_tokens += record.usage->uncached_tokens;
    output_tokens += record.usage->output_tokens;
  }
  if (record.cost) {
    nanodollars += record.cost->nanodollars;
    uncached_nanodollars += record.cost->uncached_nanodollars;
    direct_nanodollars += record.cost->direct_nanodollars;
  }
}

void MinuteSums::Add(const MinuteSums& other) {
  requests += other.requests;
  failed += other.failed;
  cached_tokens += other.cached_tokens;
  written_tokens += other.written_tokens;
  uncached_tokens += other.uncached_tokens;
  output_tokens += other.output_tokens;
  nanodollars += other.nanodollars;
  uncached_nanodollars += other.uncached_nanodollars;
  direct_nanodollars += other.direct_nanodollars;
}

void RecordFeed::Window::Add(const RequestRecord& record, int64_t second) {
  Slot& slot = slots_[static_cast<size_t>(second % kSeconds)];
  if (slot.second != second) slot = {.second = second, .sums = {}};
  slot.sums.Add(record);
}

MinuteSums RecordFeed::Window::SumAt(int64_t second) const {
  MinuteSums sum;
  for (const Slot& slot : slots_) {
    if (slot.second > second - kSeconds && slot.second <= second) sum.Add(slot.sums);
  }
  return sum;
}

RecordFeed::RecordFeed(const Options& options) : options_(options), tenants_(options.tenants_max) {}

int64_t RecordFeed::NowSecond() {
  return std::chrono::duration_cast<std::chrono::seconds>(SteadyClock::now().time_since_epoch())
      .count();
}

RecordFeed::Reader::~Reader() {
  const std::lock_guard lock(feed_.mutex_);
  std::erase(feed_.readers_, this);
}

RecordFeed::Reader::Taken RecordFeed::Reader::Take() {
  const std::lock_guard lock(feed_.mutex_);
  Taken taken = std::exchange(waiting_, {});
  waiting_.has_ended = taken.has_ended;
  return taken;
}

bool RecordFeed::Reader::is_empty() const {
  const std::lock_guard lock(feed_.mutex_);
  return waiting_.records.empty() && !waiting_.has_ended;
}

bool RecordFeed::Reader::HasRoom(int64_t second) {
  if (second > second_) {  // another thread may come with the one before
    second_ = second;
    num_in_second_ = 0;
  }
  return waiting_.records.size() < feed_.options_.records_max &&
         (args_.records_per_second == 0 || num_in_second_ < args_.records_per_second);
}

void RecordFeed::Reader::CountDropped() {
  ++waiting_.num_dropped;
  // What it did not ask for is not a sign that it is slow.
  if (waiting_.records.size() >= feed_.options_.records_max) ++feed_.num_dropped_;
}

Result<std::unique_ptr<RecordFeed::Reader>> RecordFeed::Read(ReadArgs args) {
  std::unique_ptr<Reader> reader(new Reader(*this, std::move(args)));
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    return MakeError(ErrorCode::kUnavailable, "telemetry", "The server is shutting down.");
  }
  if (readers_.size() >= options_.readers_max) {
    return MakeError(ErrorCode::kOverloaded, "telemetry",
                     fmt::format("{} readers follow the records already, and no more may.",
                                 options_.readers_max));
  }
  readers_.push_back(reader.get());
  return reader;
}

// REQUIRES: the lock is held. Counts the record for the readers that leave it out, unless another
// one takes it: then Publish does.
bool RecordFeed::IsWanted(const RequestRecord& record, int64_t second) {
  bool is_wanted = false;
  for (Reader* const reader : readers_) {
    is_wanted = is_wanted || (reader->HasRoom(second) && reader->args_.filter(record));
  }
  if (is_wanted) return true;
  for (Reader* const reader : readers_) {
    if (reader->args_.filter(record)) reader->CountDropped();
  }
  return false;
}

void RecordFeed::Publish(const RequestRecord& record) {
  const int64_t second = NowSecond();
  {
    const std::lock_guard lock(mutex_);
    all_.Add(record, second);
    tenants_.FindOrAdd(record.tenant).Add(record, second);
    if (readers_.empty() || !IsWanted(record, second)) return;
  }
  // The text is written without the lock.
  const auto text = std::make_shared<const std::string>(ledger::RecordJson(record));
  const std::lock_guard lock(mutex_);
  for (Reader* const reader : readers_) {
    if (!reader->args_.filter(record)) continue;
    if (!reader->HasRoom(second)) {
      reader->CountDropped();
      continue;
    }
    ++reader->num_in_second_;
    reader->waiting_.records.push_back(text);
    if (reader->waiting_.records.size() == 1) reader->args_.wake();
  }
}

void RecordFeed::Close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  EndAll();
}

void RecordFeed::EndAll() {
  const std::lock_guard lock(mutex_);
  for (Reader* const reader : readers_) {
    reader->waiting_.has_ended = true;
    reader->args_.wake();
  }
}

MinuteSums RecordFeed::LastMinute(std::optional<std::string_view> tenant) const {
  const int64_t second = NowSecond();
  const std::lock_guard lock(mutex_);
  if (!tenant) return all_.SumAt(second);
  const Window* const window = tenants_.Peek(std::string(*tenant));
  return window == nullptr ? MinuteSums() : window->SumAt(second);
}

void RecordFeed::Collect(metrics::TextWriter& writer) const {
  uint64_t num_readers = 0;
  uint64_t num_dropped = 0;
  {
    const std::lock_guard lock(mutex_);
    num_readers = readers_.size();
    num_dropped = num_dropped_;
  }
  writer.Family("kvgate_event_readers", "gauge", "Clients that follow the records.");
  writer.Sample("kvgate_event_readers", {}, num_readers);
  writer.Family("kvgate_event_records_dropped_total", "counter",
                "Records that a client did not get because it read too slowly.");
  writer.Sample("kvgate_event_records_dropped_total", {}, num_dropped);
}

}  // namespace kvgate::telemetry
