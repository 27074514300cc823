// SegmentRows keeps the segments of the newest records as rows of their own beside them, bounded by
// number. It hands out what to write; the ledger writes it in its own steps. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
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
  // `meta` must outlive it. With `rows_max` 0 nothing is kept.
  SegmentRows(const store::meta::MetaStore& meta, int64_t rows_max)
      : meta_(meta), rows_max_(rows_max) {}

  // Reads how many rows an earlier process has left.
  void Restore();
  // Returns true if segments are kept at all.
  bool keeps() const { return rows_max_ > 0; }
  // Appends the row of a record, EncodeSegments having made its value, and forgets it if Accept is
  // not called before the next Begin.
  void Begin() { num_added_ = 0; }
  void Append(std::string_view id, std::string value, std::vector<store::meta::MetaWrite>& writes);
  // Appends the number of rows.
  void AppendCount(std::vector<store::meta::MetaWrite>& writes) const;
  // The store has what was appended since Begin.
  void Accept();

  // Returns deletions of the oldest rows above the bound, and the number that is left then; none if
  // few are above it.
  Result<std::vector<store::meta::MetaWrite>> TakeOld();
  // The store has what TakeOld returned last.
  void AcceptOld();

  // Returns the segments of a record; nullopt if they are not kept (any more).
  Result<std::optional<std::vector<RecordSegment>>> Read(std::string_view id) const;

 private:
  const store::meta::MetaStore& meta_;
  const int64_t rows_max_;
  int64_t num_stored_ = 0;
  int64_t num_added_ = 0;
  int64_t num_old_ = 0;
  std::string old_;      // the last key that TakeOld returned
  std::string retired_;  // the last key that was deleted
};

}  // namespace kvgate::ledger::segment
