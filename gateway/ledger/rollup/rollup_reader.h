// RollupReader reads rollups from the store, whichever thread writes them. It may wait for the
// disk. The time follows the rows asked for, whose number is bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/rollup/bucket.h"
#include "gateway/ledger/rollup/rollup_key.h"
#include "store/meta/meta_store.h"

namespace kvgate::ledger::rollup {

struct Query {
  std::optional<Step> step = Step::kMinute;  // nullopt: one row for each name over the whole span
  By by = By::kTotal;
  std::string scope = ScopeOfAll();
  int64_t from_us = 0;  // 0: as long before to_us as overviews show
  int64_t to_us = 0;    // 0: now
};

struct Row {
  int64_t time_us = 0;  // where its step begins; of a sum, where the span does
  std::string name = {};
  Bucket bucket = {};
};

struct Rows {
  int64_t from_us = 0;  // as asked for, or where the first step begins
  int64_t to_us = 0;
  std::vector<Row> rows = {};  // by time, then by name
};

// Rows that one answer may have.
inline constexpr size_t kRowsMax = 50'000;

// Fails with kInvalidArgument if there are more rows than kRowsMax, or if the span ends before it
// begins.
Result<Rows> ReadRollups(const store::meta::MetaStore& meta, const Query& query, int64_t now_us);

// Writes {"step", "by", "from_us", "to_us", "data": […]}, with the fields that the dimension has.
void WriteRollups(const Query& query, const Rows& rows, dialect::form::JsonWriter& json);
// Writes {"p50", "p90", "p99"}; null if nothing was counted.
void WritePercentiles(const Histogram& histogram, dialect::form::JsonWriter& json);

}  // namespace kvgate::ledger::rollup
