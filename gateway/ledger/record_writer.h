// RecordWriter writes steps of the ledger into the store: records, their segments, changed sums,
// and what rollups count, all in one write, so that they agree after a crash. It keeps the newest
// records, bounded by number and age. One thread at a time writes, and waits for the disk.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gateway/ledger/record_spans.h"
#include "gateway/ledger/rollup/entry.h"
#include "gateway/ledger/rollup/rollups.h"
#include "gateway/ledger/segment/segment_rows.h"
#include "store/meta/meta_store.h"

namespace kvgate::ledger {

// Keys of rows in the ledger's table begin with these: records by id, sums by kind and name.
inline constexpr std::string_view kRecordPrefix = "r/";
inline constexpr std::string_view kTotalPrefix = "t/";
std::string RecordKey(std::string_view id);

class RecordWriter {
 public:
  struct Options {
    store::meta::MetaStore& meta;  // must outlive it
    int64_t records_max = 0;       // 0: no records are kept
    int64_t retention_days = 0;
    int64_t segments_max = 0;  // of so many newest records the segments are kept
  };
  // Goes on from what an earlier process has left.
  explicit RecordWriter(const Options& options);

  // A record as stored.
  struct Row {
    std::string key = {};       // RecordKey of its id
    std::string record = {};    // about a fifth of a record's size; empty: it is not kept
    std::string segments = {};  // empty: they are not kept
    rollup::Entry entry = {};
  };
  // How a step writes what rollups count: a note of the step alone costs little; rows of rollups
  // take the place of all notes before.
  enum class Counting : uint8_t { kNote, kRollups };
  struct Step {
    std::vector<Row> rows = {};
    std::vector<std::pair<std::string, std::string>> sums = {};  // changed: "KIND/NAME" and value
    Counting counting = Counting::kNote;
  };
  // Writes the step. If the store refuses it, its records are lost, and its sums are written with
  // the next one.
  Result<void> Write(Step step);
  // True if there is what no rollup in the store counts.
  bool has_notes() const { return rollups_.has_unwritten(); }
  // Drops the oldest records above the limits of number and age, and old rollups.
  void Retire(int64_t now_us);

  // Returns the segments of the record with this id and these stored bytes; nullopt if they are not
  // kept (any more). Any thread may call it.
  Result<std::optional<std::vector<segment::RecordSegment>>> SegmentsOf(
      std::string_view id, std::string_view record) const;

 private:
  Result<std::vector<store::meta::MetaWrite>> RowsOf(Step step, int64_t num_stored);
  void RestoreSpans();
  void RetireRecords(int64_t now_us);
  void ReadOldRecords(int64_t now_us, int64_t surplus);
  void DeleteRecords(std::string_view from, const RecordSpans::Oldest& oldest);
  void RetireRollups(int64_t now_us);

  const Options options_;
  RecordSpans spans_;
  std::map<std::string, std::string> unwritten_;  // sums that the store has not accepted yet
  rollup::Rollups rollups_;
  segment::SegmentRows segments_;
  int64_t retire_at_us_ = 0;
  std::string retired_;      // no record is in front of this key but what came late
  bool retires_on_ = false;  // the last step may have left old records
};

}  // namespace kvgate::ledger
