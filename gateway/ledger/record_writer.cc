#include "gateway/ledger/record_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/log.h"
#include "gateway/ledger/record_format.h"

namespace kvgate::ledger {
namespace {

using store::meta::MetaTable;
using store::meta::MetaWrite;

constexpr std::string_view kCountKey = "n";  // the number of records

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kAgeCheckUs = 60 * kSecondUs;
constexpr int64_t kRetireMax = 1000;  // records that are read per step
constexpr int64_t kNumSpans = 256;    // of the records that are kept

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() ? std::optional(value) : std::nullopt;
}

std::string_view IdOf(std::string_view key) { return key.substr(kRecordPrefix.size()); }

}  // namespace

std::string RecordKey(std::string_view id) { return std::string(kRecordPrefix).append(id); }

RecordWriter::RecordWriter(const Options& options)
    : options_(options),
      spans_(std::max<int64_t>(1, options.records_max / kNumSpans)),
      rollups_(options.meta, rollup::Rollups::Options{}),
      segments_(options.meta, options.records_max > 0 ? options.segments_max : 0) {
  RestoreSpans();
  if (const auto notes = rollups_.Restore(); !notes) {
    KVGATE_LOG(kWarning, "ledger", "reading notes: {}", notes.error().ToString());
  }
  if (const auto restored = segments_.Restore(); !restored) {
    KVGATE_LOG(kWarning, "ledger", "reading segments: {}", restored.error().ToString());
  }
}

// What an earlier process left is one span.
void RecordWriter::RestoreSpans() {
  const auto count = options_.meta.Get(MetaTable::kLedger, kCountKey);
  if (!count || !*count) return;
  std::string last;
  const auto scanned = options_.meta.ScanBack(MetaTable::kLedger, {.prefix = kRecordPrefix},
                                              [&](std::string_view key, std::string_view) {
                                                last = key;
                                                return false;
                                              });
  if (!scanned) KVGATE_LOG(kWarning, "ledger", "reading records: {}", scanned.error().ToString());
  if (!last.empty()) spans_.Restore(std::move(last), ParseInteger(**count).value_or(0));
}

// Returns all rows of one step.
Result<std::vector<MetaWrite>> RecordWriter::RowsOf(Step step, int64_t num_stored) {
  std::vector<rollup::Entry> entries;
  entries.reserve(step.rows.size());
  for (Row& row : step.rows) entries.push_back(std::move(row.entry));
  std::vector<MetaWrite> rows;
  if (step.counting == Counting::kNote) {
    rows = rollups_.Note(entries);
  } else {
    KVGATE_TRY(rows, rollups_.Sum(entries));
  }
  rows.reserve(rows.size() + step.rows.size() + unwritten_.size() + 8);
  // Rows of one kind together: the store takes neighbours faster.
  std::erase_if(step.rows, [](const Row& row) { return row.record.empty(); });
  segments_.Begin();
  for (Row& row : step.rows) {
    if (row.segments.empty() || !segments_.keeps()) continue;
    SetSegmentsNumber(row.record, segments_.Add(IdOf(row.key), row.segments));
  }
  segments_.AppendTo(rows);
  for (Row& row : step.rows) {
    rows.push_back({.key = std::move(row.key), .value = std::move(row.record)});
  }
  for (const auto& [key, value] : unwritten_) rows.push_back({.key = key, .value = value});
  rows.push_back({.key = std::string(kCountKey), .value = std::to_string(num_stored)});
  return rows;
}

Result<void> RecordWriter::Write(Step step) {
  for (auto& [key, value] : step.sums) {
    unwritten_.insert_or_assign(std::string(kTotalPrefix).append(key), std::move(value));
  }
  const auto num_kept = std::count_if(step.rows.begin(), step.rows.end(),
                                      [](const Row& row) { return !row.record.empty(); });
  KVGATE_TRY(const std::vector<MetaWrite> rows, RowsOf(std::move(step), spans_.count() + num_kept));
  KVGATE_TRY_VOID(options_.meta.PutAll(MetaTable::kLedger, rows));
  unwritten_.clear();
  rollups_.Accept();
  segments_.Accept();
  std::vector<std::string_view> keys;
  keys.reserve(static_cast<size_t>(num_kept));
  for (const MetaWrite& row : rows) {
    if (row.key.starts_with(kRecordPrefix)) keys.push_back(row.key);
  }
  spans_.Add(keys);
  return {};
}

Result<std::optional<std::vector<segment::RecordSegment>>> RecordWriter::SegmentsOf(
    std::string_view id, std::string_view record) const {
  return segments_.Read({.id = id, .number = SegmentsNumberOf(record)});
}

void RecordWriter::Retire(int64_t now_us) {
  RetireRecords(now_us);
  RetireRollups(now_us);
}

void RecordWriter::RetireRecords(int64_t now_us) {
  // A small surplus may gather, so that not every step has to look for the oldest records.
  const int64_t surplus = spans_.count() - options_.records_max;
  const bool too_many = surplus > options_.records_max / 64;
  if (now_us < retire_at_us_ && too_many) {
    const RecordSpans::Oldest oldest = spans_.OldestOf(surplus);
    if (!oldest.last.empty()) {
      DeleteRecords(kRecordPrefix, oldest);
      return;
    }
  }
  if (now_us >= retire_at_us_ || too_many) ReadOldRecords(now_us, too_many ? surplus : 0);
}

// Deletes records that are too old, and so many of the oldest. They are read one by one, because
// spans say nothing about ages, and an earlier process's are one span.
void RecordWriter::ReadOldRecords(int64_t now_us, int64_t surplus) {
  const bool check_age = now_us >= retire_at_us_;
  const int64_t oldest_us = now_us - options_.retention_days * 86'400 * kSecondUs;
  // The store holds deleted rows for a while, and passing over them costs more than the step's own
  // work. So it begins where the last one ended. What came late in front of that, because its
  // request took long, is found when ages are checked.
  const bool from_front = (check_age && !retires_on_) || retired_.empty();
  const std::string from = from_front ? std::string(kRecordPrefix) : retired_;
  RecordSpans::Oldest oldest;
  const auto scanned =
      options_.meta.ScanFrom(MetaTable::kLedger, {.prefix = kRecordPrefix, .from = from},
                             [&](std::string_view key, std::string_view value) {
                               if (oldest.count == kRetireMax) return false;
                               if (oldest.count >= surplus && TimeOfRecord(value) >= oldest_us)
                                 return false;
                               oldest.last = key;
                               ++oldest.count;
                               return true;
                             });
  if (!scanned) return;
  // A full step may have left some old records, so the next one continues at once.
  retires_on_ = oldest.count == kRetireMax;
  if (check_age || retires_on_) retire_at_us_ = retires_on_ ? now_us : now_us + kAgeCheckUs;
  if (oldest.count > 0) DeleteRecords(from, oldest);
}

// What the store does not delete now is found again.
void RecordWriter::DeleteRecords(std::string_view from, const RecordSpans::Oldest& oldest) {
  std::string behind = oldest.last + '\0';  // the first key behind it
  const std::vector<MetaWrite> writes{
      {.key = std::string(from), .value = std::nullopt, .until = behind},
      {.key = std::string(kCountKey), .value = std::to_string(spans_.count() - oldest.count)}};
  if (!options_.meta.PutAll(MetaTable::kLedger, writes)) return;
  spans_.Remove(oldest.last, oldest.count);
  retired_ = std::move(behind);
}

void RecordWriter::RetireRollups(int64_t now_us) {
  if (const auto old = rollups_.TakeOld(now_us); old && !old->empty()) {
    // What is not deleted now is found when the process starts the next time.
    (void)options_.meta.PutAll(MetaTable::kLedger, *old);
  }
}

}  // namespace kvgate::ledger
