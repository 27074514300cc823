// SegmentRows keeps the segments of the newest records, bounded by number. Those that come in one
// step share a row, as a row costs the store more than its bytes; a record remembers the number
// that its segments were given. It hands out what to write; the ledger writes it in its own steps.
// Read may be called from any thread, everything else from one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/ledger/segment/record_segment.h"
#include "store/meta/meta_store.h"

namespace kvgate::ledger::segment {

class SegmentRows {
 public:
  // `meta` must outlive it. With `segments_max` 0 nothing is kept.
  SegmentRows(const store::meta::MetaStore& meta, int64_t segments_max)
      : meta_(meta), segments_max_(static_cast<uint64_t>(segments_max)) {}

  // Goes on from what an earlier process has left. What the store does not let it read is kept, but
  // never dropped.
  Result<void> Restore();
  // Returns true if segments are kept at all.
  bool keeps() const { return segments_max_ > 0; }

  // Begins a step. What was added before, and not accepted, is forgotten.
  void Begin();
  // Adds the segments of the record with this id, EncodeSegments having made them, and returns
  // their number, from 1 on. REQUIRES: keeps().
  uint64_t Add(std::string_view id, std::string_view segments);
  // Appends the rows of the step, and deletions of rows that have become too old. At least the
  // newest `segments_max` are kept, and less than a row's more.
  void AppendTo(std::vector<store::meta::MetaWrite>& writes);
  // The store has what was appended since Begin.
  void Accept();

  struct ReadArgs {
    std::string_view id;  // of the record
    uint64_t number = 0;  // 0: its record is of a version that kept them by id
  };
  // Returns the segments of a record; nullopt if they are not kept (any more).
  Result<std::optional<std::vector<RecordSegment>>> Read(const ReadArgs& args) const;

 private:
  struct Row {
    uint64_t first = 0;  // the number of its first segments
    uint64_t count = 0;
    std::string parts = {};
  };

  void AppendOlder(std::vector<store::meta::MetaWrite>& writes);

  const store::meta::MetaStore& meta_;
  const uint64_t segments_max_;
  std::deque<uint64_t> firsts_;  // of the rows in the store, ascending
  uint64_t next_ = 1;            // the number of the next segments
  std::vector<Row> added_;
  size_t num_dropped_ = 0;  // of firsts_, with this step
  bool has_older_ = false;  // there are rows of the version that kept one for each record
  bool drops_mark_ = false;
  std::string older_;  // the last one of those that was deleted
};

}  // namespace kvgate::ledger::segment
