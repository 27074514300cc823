#include "gateway/ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/memory_fence.h"
#include "gateway/ledger/record_format.h"
#include "gateway/ledger/record_rollup.h"
#include "gateway/ledger/segment/segment_format.h"
#include "gateway/ledger/source_cost.h"
#include "gateway/ledger/totals_metrics.h"

namespace kvgate::ledger {
namespace {

using dialect::form::JsonWriter;
using store::meta::MetaTable;

constexpr std::string_view kSealedKey = "sealed";  // present: no record holds prompt text in clear

constexpr int64_t kSecondUs = 1'000'000;
constexpr size_t kSealMax = 4096;  // records per step
constexpr int64_t kListMax = 1000;
constexpr int64_t kRestoreMax = 2000;  // records that are read at the start for the clocks
constexpr int64_t kRestoreUs = 3600 * kSecondUs;
// What the gateway does not read counts as this.
constexpr std::string_view kUserSource = "user";

SourceTokens AllAs(const std::string& source, const reply::TokenUsage& usage) {
  return {.source = source,
          .cached = usage.cache_read_tokens,
          .written = usage.cache_write_tokens + usage.cache_write_1h_tokens,
          .uncached = usage.uncached_tokens};
}

// Attributes the input of a request whose prompt was not read, or is the gateway's own, as a whole.
void FillAttribution(RequestRecord& record) {
  if (!record.usage) return;
  const bool is_own = !record.purpose.empty();
  const bool has_input = record.usage->input_tokens() > 0;
  if (!is_own && (!record.attribution.empty() || !has_input)) return;
  const SourceTokens all = AllAs(is_own ? record.purpose : std::string(kUserSource), *record.usage);
  record.attribution = {all};
  record.is_estimated = false;
  record.segments = {{.source = all.source,
                      .cached = all.cached,
                      .written = all.written,
                      .uncached = all.uncached}};
}

// Returns null if its model is not known.
const PriceRow* RowOf(const Prices& prices, const RequestRecord& record) {
  const std::string& answered = record.answered_by.empty() ? record.model : record.answered_by;
  const PriceRow* row = prices.Find(record.provider, answered);
  // An answer may name a deployment; the model that was asked for is the better name then.
  if ((row == nullptr || !row->prices) && answered != record.model) {
    row = prices.Find(record.provider, record.model);
  }
  return row;
}

// Runs once in the life of a data directory; if the process is killed meanwhile, it starts again.
Result<void> SealWords(store::meta::MetaStore& meta) {
  KVGATE_TRY(const auto done, meta.Get(MetaTable::kLedger, kSealedKey));
  if (done) return {};
  uint64_t num_sealed = 0;
  std::string before;
  while (true) {
    std::vector<store::meta::MetaWrite> writes;
    size_t num_seen = 0;
    KVGATE_TRY_VOID(meta.ScanBack(
        MetaTable::kLedger, {.prefix = kRecordPrefix, .before = before},
        [&](std::string_view key, std::string_view value) {
          before = key;
          const auto record =
              HasClearWords(value) ? DecodeRecord(value, meta.keyring()) : std::nullopt;
          const bool has_words =
              record && record->prefix_break &&
              !(record->prefix_break->before.empty() && record->prefix_break->after.empty());
          if (has_words) {
            writes.push_back(
                {.key = std::string(key), .value = EncodeRecord(*record, meta.keyring())});
          }
          return ++num_seen < kSealMax;
        }));
    if (!writes.empty()) KVGATE_TRY_VOID(meta.PutAll(MetaTable::kLedger, writes));
    num_sealed += writes.size();
    if (num_seen < kSealMax) break;
  }
  if (before.empty()) return {};  // no records yet
  if (num_sealed > 0) {
    KVGATE_TRY_VOID(meta.Compact(MetaTable::kLedger));
    KVGATE_LOG(kInfo, "ledger", "{} records of an older version have their words sealed",
               num_sealed);
  }
  return meta.Put(MetaTable::kLedger, kSealedKey, "1");
}

// A provider's cache outlives this process.
void RestoreClocks(const Ledger::Options& options, rollup::WarmCaches& clocks) {
  const int64_t since_us = WallClock::NowUs() - kRestoreUs;
  std::vector<RequestRecord> newest;
  const Result<void> read = options.meta->ScanBack(
      MetaTable::kLedger, {.prefix = kRecordPrefix}, [&](std::string_view, std::string_view value) {
        auto record = DecodeRecord(value, options.meta->keyring());
        if (record && record->time_us < since_us) return false;
        if (record) newest.push_back(*std::move(record));
        return static_cast<int64_t>(newest.size()) < kRestoreMax;
      });
  if (!read) KVGATE_LOG(kWarning, "ledger", "reading records: {}", read.error().ToString());
  for (auto record = newest.rbegin(); record != newest.rend(); ++record) {
    auto cache = WarmCacheOf(*record, RowOf(options.prices, *record));
    if (cache) clocks.Note(*std::move(cache));
  }
}

upstream::Spending SpentEverywhere(const Totals& totals, const SpendingElsewhere* elsewhere,
                                   std::string_view tenant, int64_t now_us) {
  upstream::Spending spending = totals.Spent(tenant, now_us);
  if (elsewhere != nullptr) elsewhere->AddTo(tenant, now_us, spending);
  return spending;
}

}  // namespace

std::string MakeRequestId() {
  thread_local std::mt19937_64 random(RandomSeed());
  // 13 hex digits of microseconds last until 2112; 11 random ones separate requests of one
  // microsecond.
  const auto now = static_cast<uint64_t>(WallClock::NowUs());
  std::string id = ToHex(now >> 20, now << 44 | random() >> 20);
  id.erase(0, 8);
  return id;
}

Ledger::Ledger(const Options& options)
    : options_(options), step_records_(std::min(options.step_records, options.queue_max / 2)) {
  Restore();
  thread_ = std::thread([this] { Run(); });
}

Ledger::~Ledger() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Ledger::Restore() {
  if (options_.meta == nullptr) return;
  const auto scanned = options_.meta->Scan(
      MetaTable::kLedger, kTotalPrefix, [this](std::string_view key, std::string_view value) {
        if (!totals_.Restore(key.substr(kTotalPrefix.size()), value)) {
          KVGATE_LOG(kWarning, "ledger", "the sum '{}' cannot be read; it begins anew", key);
        }
        return true;
      });
  if (!scanned) KVGATE_LOG(kWarning, "ledger", "reading sums: {}", scanned.error().ToString());
  if (const auto sealed = SealWords(*options_.meta); !sealed) {
    KVGATE_LOG(kWarning, "ledger",
               "words of prompts in records of an older version are not sealed: {}",
               sealed.error().ToString());
  }
  writer_.emplace(RecordWriter::Options{.meta = *options_.meta,
                                        .records_max = options_.records_max,
                                        .retention_days = options_.retention_days,
                                        .segments_max = options_.segments_max});
  if (writer_->has_notes()) rollups_at_ = std::chrono::steady_clock::now();
  RestoreClocks(options_, clocks_);
}

void Ledger::Price(RequestRecord& record) const {
  if (!record.usage) return;
  const PriceRow* const row = RowOf(options_.prices, record);
  if (row != nullptr) record.cost = CostOf(*row, *record.usage, record.service_tier);
  if (!record.cost) return;
  if (record.kept) {  // no caller has asked for it, so without the gateway it would cost nothing
    record.cost->nanodollars += RentOf(*row, record.kept->num_tokens, record.kept->seconds);
    record.cost->uncached_nanodollars = record.cost->direct_nanodollars = 0;
  }
  if (record.direct_usage) {
    const auto direct = CostOf(*row, *record.direct_usage, record.service_tier);
    if (direct) record.cost->direct_nanodollars = direct->nanodollars;
  }
  record.price_date = row->date;
  ShareInputCost(*row, *record.usage, record.service_tier, record.attribution);
}

void Ledger::Add(RequestRecord record) { Count(record); }

void Ledger::Count(RequestRecord& record) {
  BoundRecord(record);
  FillAttribution(record);
  Price(record);
  if (options_.on_record) options_.on_record(record);
  RecordWriter::Row stored = ToStored(record);
  std::optional<rollup::WarmCache> cache = WarmCacheOf(record, RowOf(options_.prices, record));
  const bool is_told = options_.on_use && record.usage.has_value();
  Use use{.now_us = WallClock::NowUs()};
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_told)
      use.before = SpentEverywhere(totals_, options_.elsewhere, record.tenant, use.now_us);
    totals_.Add(record);
    if (is_told)
      use.after = SpentEverywhere(totals_, options_.elsewhere, record.tenant, use.now_us);
    if (record.outcome != "refused") {
      models_.Add(record.time_us,
                  {.tenant = record.tenant, .model = record.model, .upstream = record.upstream},
                  stored.entry.whole);
    }
    if (cache) clocks_.Note(*std::move(cache));
    if (options_.meta != nullptr && queue_.size() >= options_.queue_max) {
      ++num_dropped_;
    } else if (options_.meta != nullptr) {
      queue_.push_back(std::move(stored));
      wakes = queue_.size() == 1 || queue_.size() == step_records_;
    }
  }
  if (wakes) wake_.notify_one();
  if (is_told) options_.on_use(record.tenant, use);
}

RecordWriter::Row Ledger::ToStored(const RequestRecord& record) const {
  RecordWriter::Row stored{.entry = EntryOf(record)};
  if (options_.meta == nullptr || options_.records_max == 0) return stored;
  stored.key = RecordKey(record.id);
  stored.record = EncodeRecord(record, options_.meta->keyring());
  if (options_.segments_max > 0 && !record.segments.empty()) {
    stored.segments = segment::EncodeSegments(record.segments);
  }
  return stored;
}

std::unique_ptr<upstream::ExchangeObserver> Ledger::Begin(const upstream::ExchangeStart& start) {
  return std::make_unique<ExchangeRecorder>(
      start, ExchangeRecorder::Hooks{.sink = [this](RequestRecord&& record) { Count(record); },
                                     .digests = digests_,
                                     .complete = options_.complete,
                                     .price = [this](RequestRecord& record) { Price(record); }});
}

upstream::Spending Ledger::Spent(std::string_view tenant) const {
  const int64_t now_us = WallClock::NowUs();
  if (options_.elsewhere != nullptr) options_.elsewhere->NoteAsked(tenant);
  const std::lock_guard lock(mutex_);
  return SpentEverywhere(totals_, options_.elsewhere, tenant, now_us);
}

std::vector<std::pair<std::string, upstream::Spending>> Ledger::AllSpent() const {
  std::map<std::string, upstream::Spending> all;
  const int64_t now_us = WallClock::NowUs();
  const std::lock_guard lock(mutex_);
  if (options_.elsewhere != nullptr) {
    options_.elsewhere->ForEach(
        now_us, [&](const auto& tenant, const auto& spending) { all.emplace(tenant, spending); });
  }
  totals_.ForEachSpending(now_us, [&](const auto& tenant, const auto&) {
    all.insert_or_assign(tenant, SpentEverywhere(totals_, options_.elsewhere, tenant, now_us));
  });
  return {all.begin(), all.end()};
}

upstream::Spending Ledger::SpentHere(std::string_view tenant, int64_t now_us) const {
  const std::lock_guard lock(mutex_);
  return totals_.Spent(tenant, now_us);
}

// --- Writing

void Ledger::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto has_work = [this] { return stopping_ || !queue_.empty(); };
    if (rollups_at_) {
      wake_.wait_until(lock, *rollups_at_, has_work);
    } else {
      wake_.wait(lock, [&] { return has_work() || rollups_at_; });
    }
    // Records that come in the meantime are written in the same step.
    if (!queue_.empty()) {
      wake_.wait_for(lock, options_.write_interval,
                     [this] { return stopping_ || queue_.size() >= step_records_; });
    }
    const bool stops = stopping_;
    const bool rollups = stops || (rollups_at_ && std::chrono::steady_clock::now() >= *rollups_at_);
    const bool records = !queue_.empty();
    lock.unlock();
    if (rollups || records) Flush(rollups ? Counting::kRollups : Counting::kNote);
    lock.lock();
    if (stops && queue_.empty()) return;
  }
}

void Ledger::Flush() { Flush(Counting::kNote); }

void Ledger::Flush(Counting counting) {
  const std::lock_guard writing(write_mutex_);
  WriteQueued(counting);
}

// Says when the thread writes rollups next: not at all while there is nothing to count.
void Ledger::PlanRollups(Counting done) {
  {
    const std::lock_guard lock(mutex_);
    if (done == Counting::kNote && rollups_at_) return;
    rollups_at_.reset();
    if (writer_->has_notes()) {
      rollups_at_ = std::chrono::steady_clock::now() + options_.rollups_interval;
    }
  }
  wake_.notify_one();
}

// Records for which there is no memory are lost like those that the disk does not take.
void Ledger::WriteQueued(Counting counting) {
  RecordWriter::Step step{.counting = counting};
  {
    const std::lock_guard lock(mutex_);
    step.rows.swap(queue_);
  }
  const size_t num_records = step.rows.size();
  const bool has_notes = writer_ && writer_->has_notes();
  if (num_records == 0 && !(counting == Counting::kRollups && has_notes)) return;
  bool written = false;
  (void)Attempt("ledger", "writing records", [&] { written = Write(std::move(step)); });
  PlanRollups(counting);
  if (!written) {
    const std::lock_guard lock(mutex_);
    num_dropped_ += num_records;
    return;
  }
  (void)Attempt("ledger", "dropping old records", [this] { writer_->Retire(WallClock::NowUs()); });
}

// Returns true if the store has accepted the step and the changed sums.
bool Ledger::Write(RecordWriter::Step step) {
  const size_t num_records = step.rows.size();
  {
    const std::lock_guard lock(mutex_);
    step.sums = totals_.TakeChanged();
  }
  const Result<void> put = writer_->Write(std::move(step));
  if (put) return true;
  const std::string what = num_records > 0 ? fmt::format("{} records are lost", num_records)
                                           : std::string("sums are not written yet");
  KVGATE_LOG(kWarning, "ledger", "{}: {}", what, put.error().ToString());
  return false;
}

// --- Reading

namespace {

Error NoRecords() {
  return MakeError(ErrorCode::kUnavailable, "ledger",
                   "Records are not kept: the server has no data directory.");
}

// The time at which the request of this id came; nullopt if the id is not one of MakeRequestId.
std::optional<int64_t> TimeOfId(std::string_view id) {
  constexpr size_t kTimeDigits = 13;
  int64_t time_us = 0;
  if (id.size() < kTimeDigits) return std::nullopt;
  const auto [end, code] = std::from_chars(id.data(), id.data() + kTimeDigits, time_us, 16);
  return code == std::errc() && end == id.data() + kTimeDigits ? std::optional(time_us)
                                                               : std::nullopt;
}

}  // namespace

Result<void> Ledger::Visit(const ListArgs& args,
                           const std::function<bool(const RequestRecord&)>& visit) {
  if (options_.meta == nullptr) return NoRecords();
  Flush();
  RecordFilter filter = args.filter;
  if (args.tenant) filter.Restrict(*args.tenant);
  return options_.meta->ScanBack(
      MetaTable::kLedger,
      {.prefix = kRecordPrefix, .before = args.before.empty() ? "" : RecordKey(args.before)},
      [&](std::string_view key, std::string_view value) {
        // An id is made before its record's time is taken, so none behind it is newer.
        const auto time_us = TimeOfId(key.substr(kRecordPrefix.size()));
        if (time_us && *time_us < filter.since_us() - kSecondUs) return false;
        if (!filter.MayFit(value)) return true;
        const auto record = DecodeRecord(value, options_.meta->keyring());
        if (!record) {
          KVGATE_LOG(kWarning, "ledger", "the record '{}' cannot be read; it is left out", key);
          return true;
        }
        return !filter.Fits(*record) || visit(*record);
      });
}

Result<std::string> Ledger::List(const ListArgs& args) {
  if (args.limit < 1 || args.limit > kListMax) {
    return MakeError(ErrorCode::kInvalidArgument, "ledger",
                     fmt::format("limit must be from 1 to {}, not {}.", kListMax, args.limit),
                     "limit");
  }
  std::string out = R"({"data":[)";
  int64_t count = 0;
  KVGATE_TRY_VOID(Visit(args, [&](const RequestRecord& record) {
    if (++count > args.limit) return false;
    if (count > 1) out += ',';
    out += RecordJson(record);
    return true;
  }));
  out += count > args.limit ? R"(],"has_more":true})" : R"(],"has_more":false})";
  return out;
}

Result<std::string> Ledger::Get(std::string_view id, std::optional<std::string_view> tenant) {
  if (options_.meta != nullptr) {
    Flush();
    KVGATE_TRY(const std::optional<std::string> found,
               options_.meta->Get(MetaTable::kLedger, RecordKey(id)));
    auto record = found ? DecodeRecord(*found, options_.meta->keyring()) : std::nullopt;
    if (record && (!tenant || record->tenant == *tenant)) {
      KVGATE_TRY(auto segments, writer_->SegmentsOf(id, *found));
      if (segments) record->segments = *std::move(segments);
      return RecordJson(*record, segments.has_value());
    }
  }
  return MakeError(ErrorCode::kNotFound, "ledger",
                   fmt::format("There is no record of the request '{}'.", id));
}

Result<std::vector<segment::RecordSegment>> Ledger::SegmentsOf(std::string_view id) {
  if (options_.meta == nullptr) return NoRecords();
  KVGATE_TRY(const std::optional<std::string> record,
             options_.meta->Get(MetaTable::kLedger, RecordKey(id)));
  if (!record) return std::vector<segment::RecordSegment>();
  KVGATE_TRY(auto segments, writer_->SegmentsOf(id, *record));
  return segments.value_or(std::vector<segment::RecordSegment>());
}

Result<std::string> Ledger::Rollups(rollup::Query query, std::optional<std::string_view> tenant) {
  if (options_.meta == nullptr) return NoRecords();
  Flush(Counting::kRollups);
  if (tenant) query.scope = rollup::ScopeOfTenant(*tenant);
  KVGATE_TRY(const rollup::Rows rows,
             rollup::ReadRollups(*options_.meta, query, WallClock::NowUs()));
  std::string out;
  JsonWriter json(out);
  rollup::WriteRollups(query, rows, json);
  return out;
}

void Ledger::WriteModels(JsonWriter& json, std::optional<std::string_view> tenant) const {
  const std::lock_guard lock(mutex_);
  models_.Write(WallClock::NowUs(), tenant, json);
}

void Ledger::WriteStats(JsonWriter& json, std::optional<std::string_view> tenant) const {
  const std::lock_guard lock(mutex_);
  json.BeginObject().Key("price_date").String(options_.prices.date());
  json.Key("clocks");
  clocks_.Write(WallClock::NowUs(), tenant, json);
  if (tenant) {
    json.Key("totals");
    totals_.WriteTenant(*tenant, json);
    json.EndObject();
    return;
  }
  json.Key("records_queued").Unsigned(queue_.size());
  json.Key("records_dropped").Unsigned(num_dropped_);
  json.Key("totals");
  totals_.Write(json);
  json.EndObject();
}

void Ledger::Collect(metrics::TextWriter& writer) const {
  Totals totals;
  uint64_t num_dropped = 0;
  {
    const std::lock_guard lock(mutex_);
    totals = totals_;
    num_dropped = num_dropped_;
  }
  writer.Family("kvgate_ledger_records_dropped_total", "counter",
                "Records that were not kept because the disk did not take them.");
  writer.Sample("kvgate_ledger_records_dropped_total", {}, num_dropped);
  WriteTotalsMetrics(totals, writer);
}

}  // namespace kvgate::ledger
