#include "gateway/ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
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

namespace kvgate::ledger {
namespace {

using protocol::form::JsonWriter;
using store::meta::MetaTable;

// Keys of the table's rows: records by id, sums by kind and name, the number of records.
constexpr std::string_view kRecordPrefix = "r/";
constexpr std::string_view kTotalPrefix = "t/";
constexpr std::string_view kCountKey = "n";
constexpr std::string_view kSealedKey = "sealed";  // present: no record holds prompt text in clear

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kAgeCheckUs = 60 * kSecondUs;
constexpr size_t kRetireMax = 1000;  // records per step
constexpr size_t kSealMax = 4096;    // records per step
constexpr int64_t kListMax = 1000;
constexpr int64_t kRestoreMax = 2000;  // records that are read at the start for the clocks
constexpr int64_t kRestoreUs = 3600 * kSecondUs;
// What the gateway does not read counts as this.
constexpr std::string_view kUserSource = "user";

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() ? std::optional(value) : std::nullopt;
}

SourceTokens AllAs(const std::string& source, const TokenUsage& usage) {
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

std::string RecordKey(std::string_view id) { return std::string(kRecordPrefix).append(id); }

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
  const auto count = options_.meta->Get(MetaTable::kLedger, kCountKey);
  if (count && *count) num_stored_ = ParseInteger(**count).value_or(0);
  rollups_.emplace(*options_.meta, rollup::Rollups::Options{});
  segments_.emplace(*options_.meta, options_.records_max > 0 ? options_.segments_max : 0);
  segments_->Restore();
  RestoreClocks(options_, clocks_);
}

void Ledger::Price(RequestRecord& record) const {
  if (!record.usage) return;
  const PriceRow* const row = RowOf(options_.prices, record);
  if (row != nullptr) record.cost = CostOf(*row, *record.usage, record.service_tier);
  if (!record.cost) return;
  record.price_date = row->date;
  ShareInputCost(*row, *record.usage, record.service_tier, record.attribution);
}

void Ledger::Add(RequestRecord record) { Count(record); }

void Ledger::Count(RequestRecord& record) {
  BoundRecord(record);
  FillAttribution(record);
  Price(record);
  if (options_.on_record) options_.on_record(record);
  Queued queued = ToQueued(record);
  std::optional<rollup::WarmCache> cache = WarmCacheOf(record, RowOf(options_.prices, record));
  const bool is_told = options_.on_use && record.usage.has_value();
  Use use{.now_us = WallClock::NowUs()};
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_told) use.before = totals_.Spent(record.tenant, use.now_us);
    totals_.Add(record);
    if (is_told) use.after = totals_.Spent(record.tenant, use.now_us);
    if (record.outcome != "refused") {
      models_.Add(record.time_us,
                  {.tenant = record.tenant, .model = record.model, .upstream = record.upstream},
                  queued.entry.whole);
    }
    if (cache) clocks_.Note(*std::move(cache));
    if (options_.meta != nullptr && queue_.size() >= options_.queue_max) {
      ++num_dropped_;
    } else if (options_.meta != nullptr) {
      queue_.push_back(std::move(queued));
      wakes = queue_.size() == 1 || queue_.size() == step_records_;
    }
  }
  if (wakes) wake_.notify_one();
  if (is_told) options_.on_use(record.tenant, use);
}

Ledger::Queued Ledger::ToQueued(const RequestRecord& record) const {
  Queued queued{.entry = EntryOf(record)};
  if (options_.meta == nullptr || options_.records_max == 0) return queued;
  queued.id = record.id;
  queued.row = EncodeRecord(record, options_.meta->keyring());
  if (options_.segments_max > 0 && !record.segments.empty()) {
    queued.segments = segment::EncodeSegments(record.segments);
  }
  return queued;
}

std::unique_ptr<upstream::ExchangeObserver> Ledger::Begin(const upstream::ExchangeStart& start) {
  return std::make_unique<ExchangeRecorder>(
      start, ExchangeRecorder::Hooks{.sink = [this](RequestRecord&& record) { Count(record); },
                                     .digests = digests_,
                                     .complete = options_.complete,
                                     .price = [this](RequestRecord& record) { Price(record); }});
}

upstream::Spending Ledger::Spent(std::string_view tenant) const {
  const std::lock_guard lock(mutex_);
  return totals_.Spent(tenant, WallClock::NowUs());
}

std::vector<std::pair<std::string, upstream::Spending>> Ledger::AllSpent() const {
  std::vector<std::pair<std::string, upstream::Spending>> all;
  const std::lock_guard lock(mutex_);
  totals_.ForEachSpending(WallClock::NowUs(), [&](const auto& tenant, const auto& spending) {
    all.emplace_back(tenant, spending);
  });
  return all;
}

// --- Writing

void Ledger::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    // Records that come in the meantime are written in the same step.
    wake_.wait_for(lock, options_.write_interval,
                   [this] { return stopping_ || queue_.size() >= step_records_; });
    lock.unlock();
    Flush();
    lock.lock();
  }
}

void Ledger::Flush() {
  const std::lock_guard writing(write_mutex_);
  WriteQueued();
}

// Records for which there is no memory are lost like those that the disk does not take.
void Ledger::WriteQueued() {
  std::vector<Queued> queued;
  {
    const std::lock_guard lock(mutex_);
    queued.swap(queue_);
  }
  const size_t num_records = queued.size();
  if (num_records == 0) return;
  bool written = false;
  (void)Attempt("ledger", "writing records", [&] { written = Write(std::move(queued)); });
  if (!written) {
    const std::lock_guard lock(mutex_);
    num_dropped_ += num_records;
    return;
  }
  (void)Attempt("ledger", "dropping old records", [this] {
    const int64_t now_us = WallClock::NowUs();
    Retire(now_us);
    RetireParts(now_us);
  });
}

// Returns all rows of one step.
Result<std::vector<store::meta::MetaWrite>> Ledger::RowsOf(std::vector<Queued> queued,
                                                           int64_t num_stored) {
  std::vector<rollup::Entry> entries;
  entries.reserve(queued.size());
  for (Queued& each : queued) entries.push_back(std::move(each.entry));
  KVGATE_TRY(std::vector<store::meta::MetaWrite> rows, rollups_->Fold(entries));
  segments_->Begin();
  for (Queued& each : queued) {
    if (each.row.empty()) continue;
    if (!each.segments.empty()) segments_->Append(each.id, std::move(each.segments), rows);
    rows.push_back({.key = RecordKey(each.id), .value = std::move(each.row)});
  }
  segments_->AppendCount(rows);
  for (const auto& [key, value] : unwritten_) rows.push_back({.key = key, .value = value});
  rows.push_back({.key = std::string(kCountKey), .value = std::to_string(num_stored)});
  return rows;
}

// Returns true if the store has accepted the records and the changed sums.
bool Ledger::Write(std::vector<Queued> queued) {
  const size_t num_records = queued.size();
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, value] : totals_.TakeChanged()) {
      unwritten_.insert_or_assign(fmt::format("{}{}", kTotalPrefix, key), std::move(value));
    }
  }
  const auto num_kept = std::count_if(queued.begin(), queued.end(),
                                      [](const Queued& each) { return !each.row.empty(); });
  const int64_t num_stored = num_stored_ + num_kept;
  const auto rows = RowsOf(std::move(queued), num_stored);
  const Result<void> put = rows ? options_.meta->PutAll(MetaTable::kLedger, *rows) : rows.error();
  if (!put) {
    KVGATE_LOG(kWarning, "ledger", "{} records are lost: {}", num_records, put.error().ToString());
    return false;
  }
  unwritten_.clear();
  rollups_->Accept();
  segments_->Accept();
  num_stored_ = num_stored;
  return true;
}

// Drops the oldest records above the limits of number and age.
void Ledger::Retire(int64_t now_us) {
  // A small surplus may gather, so that not every step has to look for the oldest records.
  const int64_t surplus = num_stored_ - options_.records_max;
  const bool too_many = surplus > options_.records_max / 64;
  const bool check_age = now_us >= retire_at_us_;
  if (!too_many && !check_age) return;
  const int64_t oldest_us = now_us - options_.retention_days * 86'400 * kSecondUs;
  // The store holds deleted rows for a while, and passing over them costs more than the step's own
  // work. So it begins where the last one ended. What came late in front of that, because its
  // request took long, is found when ages are checked.
  const bool from_front = check_age && !retires_on_;
  std::vector<store::meta::MetaWrite> writes;
  const auto scanned = options_.meta->ScanFrom(
      MetaTable::kLedger,
      {.prefix = kRecordPrefix, .from = from_front ? std::string_view() : retired_},
      [&](std::string_view key, std::string_view value) {
        const bool beyond = static_cast<int64_t>(writes.size()) < surplus && too_many;
        if (writes.size() == kRetireMax || (!beyond && TimeOfRecord(value) >= oldest_us))
          return false;
        writes.push_back({.key = std::string(key), .value = std::nullopt});
        return true;
      });
  if (!scanned) return;
  // A full step may have left some old records, so the next one continues at once.
  retires_on_ = writes.size() == kRetireMax;
  if (check_age || retires_on_) retire_at_us_ = retires_on_ ? now_us : now_us + kAgeCheckUs;
  if (writes.empty()) return;
  std::string last = writes.back().key;
  const int64_t num_stored =
      std::max<int64_t>(0, num_stored_ - static_cast<int64_t>(writes.size()));
  writes.push_back({.key = std::string(kCountKey), .value = std::to_string(num_stored)});
  if (!options_.meta->PutAll(MetaTable::kLedger, writes)) return;
  num_stored_ = num_stored;
  retired_ = std::move(last);
}

// Drops old segments and rollups.
void Ledger::RetireParts(int64_t now_us) {
  if (const auto old = segments_->TakeOld(); old && !old->empty()) {
    if (options_.meta->PutAll(MetaTable::kLedger, *old)) segments_->AcceptOld();
  }
  if (const auto old = rollups_->TakeOld(now_us); old && !old->empty()) {
    // What is not deleted now is found when the process starts the next time.
    (void)options_.meta->PutAll(MetaTable::kLedger, *old);
  }
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
      KVGATE_TRY(auto segments, segments_->Read(id));
      if (segments) record->segments = *std::move(segments);
      return RecordJson(*record, segments.has_value());
    }
  }
  return MakeError(ErrorCode::kNotFound, "ledger",
                   fmt::format("There is no record of the request '{}'.", id));
}

Result<std::vector<segment::RecordSegment>> Ledger::SegmentsOf(std::string_view id) {
  if (options_.meta == nullptr) return NoRecords();
  KVGATE_TRY(auto segments, segments_->Read(id));
  return segments.value_or(std::vector<segment::RecordSegment>());
}

Result<std::string> Ledger::Rollups(rollup::Query query, std::optional<std::string_view> tenant) {
  if (options_.meta == nullptr) return NoRecords();
  Flush();
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

namespace {

// Writes the samples of one kind of series: {upstream="…"} or {model="…"}.
class SeriesWriter {
 public:
  SeriesWriter(std::string label, metrics::TextWriter& writer)
      : label_(std::move(label)), writer_(writer) {}

  void Add(const std::string& name, const Sum& sum) { sums_.emplace_back(name, sum); }

  void Write() {
    const std::string prefix = fmt::format("kvgate_ledger_{}_", label_);
    One(prefix + "requests_total", "Requests.", &Sum::requests);
    One(prefix + "unknown_usage_total", "Answers whose tokens are not known.", &Sum::unknown_usage);
    One(prefix + "unknown_cost_total", "Answers without a known price.", &Sum::unknown_cost);
    const std::string tokens = prefix + "tokens_total";
    writer_.Family(tokens, "counter", "Tokens as reported, by what the cache did for them.");
    for (const auto& [name, sum] : sums_) {
      const auto sample = [&, &name = name](const char* kind, int64_t value) {
        writer_.Sample(tokens, {{label_, name}, {"kind", kind}}, static_cast<uint64_t>(value));
      };
      sample("uncached", sum.uncached_tokens);
      sample("cache_read", sum.cache_read_tokens);
      sample("cache_write", sum.cache_write_tokens);
      sample("output", sum.output_tokens);
    }
    Dollars(prefix + "cost_dollars_total", "Known cost.", &Sum::nanodollars);
    Dollars(prefix + "uncached_cost_dollars_total", "Known cost if there were no cache.",
            &Sum::uncached_nanodollars);
  }

 private:
  void One(const std::string& family, const char* help, int64_t Sum::*value) {
    writer_.Family(family, "counter", help);
    for (const auto& [name, sum] : sums_) {
      writer_.Sample(family, {{label_, name}}, static_cast<uint64_t>(sum.*value));
    }
  }
  void Dollars(const std::string& family, const char* help, int64_t Sum::*value) {
    writer_.Family(family, "counter", help);
    for (const auto& [name, sum] : sums_) {
      writer_.Sample(family, {{label_, name}}, static_cast<double>(sum.*value) / 1e9);
    }
  }

  const std::string label_;
  metrics::TextWriter& writer_;
  std::vector<std::pair<std::string, Sum>> sums_;
};

// Writes one member of each sum as a metric family.
template <typename S>
void WriteCounts(const char* family, const char* help, const char* label,
                 const Totals::SeriesOf<S>& sums, int64_t S::*value, metrics::TextWriter& writer) {
  writer.Family(family, "counter", help);
  for (const auto& [name, sum] : sums) {
    writer.Sample(family, {{label, name}}, static_cast<uint64_t>(sum.*value));
  }
}

template <typename S>
void WriteDollars(const char* family, const char* help, const char* label,
                  const Totals::SeriesOf<S>& sums, int64_t S::*value, metrics::TextWriter& writer) {
  writer.Family(family, "counter", help);
  for (const auto& [name, sum] : sums) {
    writer.Sample(family, {{label, name}}, static_cast<double>(sum.*value) / 1e9);
  }
}

void WriteSources(const Totals::SeriesOf<SourceSum>& sources, metrics::TextWriter& writer) {
  constexpr const char* kTokens = "kvgate_ledger_source_tokens_total";
  writer.Family(kTokens, "counter",
                "Tokens of prompts by what they are, and what the cache did for them.");
  for (const auto& [name, sum] : sources) {
    const auto sample = [&, &name = name](const char* kind, int64_t value) {
      writer.Sample(kTokens, {{"source", name}, {"kind", kind}}, static_cast<uint64_t>(value));
    };
    sample("uncached", sum.uncached_tokens);
    sample("cache_read", sum.cached_tokens);
    sample("cache_write", sum.written_tokens);
  }
  WriteDollars("kvgate_ledger_source_cost_dollars_total", "Known cost of prompts.", "source",
               sources, &SourceSum::nanodollars, writer);
}

void WriteBreaks(const Totals::SeriesOf<BreakSum>& breaks, metrics::TextWriter& writer) {
  WriteCounts("kvgate_prefix_break_total", "Requests whose cached prefix ended early.", "cause",
              breaks, &BreakSum::breaks, writer);
  WriteCounts("kvgate_break_tokens_total", "Tokens that were not read because of it.", "cause",
              breaks, &BreakSum::lost_tokens, writer);
  // Names of before, kept for one version.
  WriteCounts("kvgate_prefix_breaks_total", "Requests whose cached prefix ended early.", "cause",
              breaks, &BreakSum::breaks, writer);
  WriteCounts("kvgate_prefix_break_lost_tokens_total", "Tokens that were not read because of it.",
              "cause", breaks, &BreakSum::lost_tokens, writer);
  WriteDollars("kvgate_prefix_break_lost_dollars_total", "What reading them would have saved.",
               "cause", breaks, &BreakSum::lost_nanodollars, writer);
}

void WriteCost(const Sum& all, metrics::TextWriter& writer) {
  constexpr const char* kCost = "kvgate_cost_usd_total";
  writer.Family(kCost, "counter",
                "Known cost of all requests, and what it would be without any cache.");
  writer.Sample(kCost, {{"kind", "actual"}}, static_cast<double>(all.nanodollars) / 1e9);
  writer.Sample(kCost, {{"kind", "counterfactual"}},
                static_cast<double>(all.uncached_nanodollars) / 1e9);
}

}  // namespace

void Ledger::Collect(metrics::TextWriter& writer) const {
  SeriesWriter upstreams("upstream", writer);
  SeriesWriter models("model", writer);
  Totals::SeriesOf<SourceSum> sources;
  Totals::SeriesOf<BreakSum> breaks;
  Sum all;
  uint64_t num_dropped = 0;
  {
    const std::lock_guard lock(mutex_);
    num_dropped = num_dropped_;
    totals_.ForEachUpstream([&](const auto& name, const Sum& sum) { upstreams.Add(name, sum); });
    totals_.ForEachModel([&](const auto& name, const Sum& sum) { models.Add(name, sum); });
    sources = totals_.sources();
    breaks = totals_.breaks();
    all = totals_.all();
  }
  writer.Family("kvgate_ledger_records_dropped_total", "counter",
                "Records that were not kept because the disk did not take them.");
  writer.Sample("kvgate_ledger_records_dropped_total", {}, num_dropped);
  upstreams.Write();
  models.Write();
  WriteSources(sources, writer);
  WriteBreaks(breaks, writer);
  WriteCost(all, writer);
}

}  // namespace kvgate::ledger
