#include "gateway/ledger/rollup/rollup_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace kvgate::ledger::rollup {
namespace {

using dialect::form::JsonWriter;
using store::meta::MetaTable;

// How far an overview looks back that says nothing of it.
constexpr std::array<int64_t, kNumSteps> kUsualMinutes = {60, 48 * 60, 30 * 1'440};

// Each step is a search of its own.
constexpr int64_t kStepsMax = 1'500;

// Calls visit(name, bucket) for each row of a group.
template <typename Visit>
Result<void> ReadGroup(const store::meta::MetaStore& meta, const Group& group, Visit visit) {
  const std::string prefix = GroupPrefix(group);
  return meta.Scan(MetaTable::kLedger, prefix, [&](std::string_view key, std::string_view value) {
    Bucket bucket;
    if (!DecodeBucket(value, bucket)) {
      KVGATE_LOG(kWarning, "ledger", "the rollup '{}' cannot be read; it is left out", key);
      return true;
    }
    return visit(key.substr(prefix.size()), std::move(bucket));
  });
}

Error TooMany() {
  return MakeError(ErrorCode::kInvalidArgument, "ledger",
                   fmt::format("from_us and to_us ask for more than {} steps or {} rows: a larger "
                               "step, or a shorter time, has fewer.",
                               kStepsMax, kRowsMax),
                   "from_us");
}

struct Span {
  int64_t from = 0;  // minutes since 1970
  int64_t to = 0;    // the minute behind the last
};

Result<Span> SpanOf(const Query& query, int64_t now_us) {
  const Step step = query.step.value_or(Step::kDay);
  const int64_t to_us = query.to_us > 0 ? query.to_us : now_us + 1;
  const int64_t usual = kUsualMinutes[static_cast<size_t>(step)] * kMinuteUs;
  const int64_t from_us = query.from_us > 0 ? query.from_us : std::max<int64_t>(to_us - usual, 0);
  if (from_us >= to_us) {
    return MakeError(ErrorCode::kInvalidArgument, "ledger", "from_us must be before to_us.",
                     "from_us");
  }
  // Nothing is older, or newer, than this.
  const int64_t oldest = now_us / kMinuteUs - RetentionMinutes(step) - StepMinutes(step);
  const int64_t newest = now_us / kMinuteUs + 1'440;
  return Span{.from = std::max(from_us / kMinuteUs, std::max<int64_t>(oldest, 0)),
              .to = std::min((to_us + kMinuteUs - 1) / kMinuteUs, newest)};
}

Result<std::vector<Row>> ReadSteps(const store::meta::MetaStore& meta, const Query& query,
                                   const Span& span) {
  if ((span.to - span.from) / StepMinutes(*query.step) > kStepsMax) return TooMany();
  std::vector<Row> rows;
  bool is_full = false;
  for (int64_t minute = BeginOf(*query.step, span.from); minute < span.to && !is_full;
       minute += StepMinutes(*query.step)) {
    const Group group{.step = *query.step, .minute = minute, .scope = query.scope, .by = query.by};
    KVGATE_TRY_VOID(ReadGroup(meta, group, [&](std::string_view name, Bucket bucket) {
      is_full = rows.size() >= kRowsMax;
      if (is_full) return false;
      rows.push_back(
          {.time_us = minute * kMinuteUs, .name = std::string(name), .bucket = std::move(bucket)});
      return true;
    }));
  }
  if (is_full) return TooMany();
  return rows;
}

// The largest step that begins at `minute` and does not reach beyond the span. What is older than
// a step's retention is taken from the step above it. Behind the present there are no requests, so
// a step that reaches beyond it is whole.
Step LargestStep(int64_t minute, const Span& span, int64_t now) {
  for (const Step step : {Step::kDay, Step::kHour}) {
    const int64_t end = minute + StepMinutes(step);
    if (BeginOf(step, minute) == minute && (end <= span.to || span.to > now)) return step;
  }
  return Step::kMinute;
}

// Moves the beginning of the span to where a step begins whose rows still exist.
int64_t KeptBegin(int64_t minute, int64_t now) {
  for (const Step step : kSteps) {
    if (minute >= now - RetentionMinutes(step)) return BeginOf(step, minute);
  }
  return BeginOf(Step::kDay, minute);
}

Result<std::vector<Row>> ReadSums(const store::meta::MetaStore& meta, const Query& query,
                                  const Span& span, int64_t now) {
  std::map<std::string, Bucket, std::less<>> sums;
  size_t num_read = 0;
  int64_t minute = KeptBegin(span.from, now);
  while (minute < span.to && num_read <= 8 * kRowsMax) {
    Step step = LargestStep(minute, span, now);
    // The end of an old span is rounded up in the same way.
    while (step != Step::kDay && minute < now - RetentionMinutes(step)) {
      step = step == Step::kMinute ? Step::kHour : Step::kDay;
    }
    const Group group{
        .step = step, .minute = BeginOf(step, minute), .scope = query.scope, .by = query.by};
    KVGATE_TRY_VOID(ReadGroup(meta, group, [&](std::string_view name, Bucket bucket) {
      auto found = sums.find(name);
      if (found == sums.end()) found = sums.try_emplace(std::string(name)).first;
      found->second.Merge(bucket);
      return ++num_read <= 8 * kRowsMax;
    }));
    minute = BeginOf(step, minute) + StepMinutes(step);
  }
  if (num_read > 8 * kRowsMax || sums.size() > kRowsMax) return TooMany();
  std::vector<Row> rows;
  for (auto& [name, bucket] : sums) {
    rows.push_back({.time_us = span.from * kMinuteUs, .name = name, .bucket = std::move(bucket)});
  }
  return rows;
}

void WriteTokens(const Bucket& bucket, JsonWriter& json) {
  json.Key("cached_tokens").Integer(bucket.cached_tokens);
  json.Key("written_tokens").Integer(bucket.written_tokens);
  json.Key("uncached_tokens").Integer(bucket.uncached_tokens);
}

void WriteLosses(const Bucket& bucket, JsonWriter& json) {
  json.Key("breaks").Integer(bucket.breaks).Key("lost_tokens").Integer(bucket.lost_tokens);
  json.Key("lost_nanodollars").Integer(bucket.lost_nanodollars);
}

void WriteWhole(const Bucket& bucket, JsonWriter& json) {
  json.Key("requests").Integer(bucket.requests).Key("failed").Integer(bucket.failed);
  WriteTokens(bucket, json);
  json.Key("output_tokens").Integer(bucket.output_tokens);
  json.Key("nanodollars").Integer(bucket.nanodollars);
  json.Key("uncached_nanodollars").Integer(bucket.uncached_nanodollars);
  json.Key("direct_nanodollars").Integer(bucket.direct_nanodollars);
  WriteLosses(bucket, json);
  json.Key("ttft_us");
  WritePercentiles(bucket.ttft, json);
  json.Key("tpot_us");
  WritePercentiles(bucket.tpot, json);
}

}  // namespace

Result<Rows> ReadRollups(const store::meta::MetaStore& meta, const Query& query, int64_t now_us) {
  KVGATE_TRY(const Span span, SpanOf(query, now_us));
  Rows read{.from_us = span.from * kMinuteUs, .to_us = span.to * kMinuteUs, .rows = {}};
  if (query.step) {
    read.from_us = BeginOf(*query.step, span.from) * kMinuteUs;
    KVGATE_TRY(read.rows, ReadSteps(meta, query, span));
  } else {
    KVGATE_TRY(read.rows, ReadSums(meta, query, span, now_us / kMinuteUs));
  }
  return read;
}

void WritePercentiles(const Histogram& histogram, JsonWriter& json) {
  if (histogram.empty()) {
    json.Null();
    return;
  }
  json.BeginObject().Key("p50").Integer(histogram.Percentile(0.5));
  json.Key("p90").Integer(histogram.Percentile(0.9));
  json.Key("p99").Integer(histogram.Percentile(0.99)).EndObject();
}

void WriteRollups(const Query& query, const Rows& rows, JsonWriter& json) {
  json.BeginObject().Key("step").String(query.step ? StepName(*query.step) : "all");
  json.Key("by").String(ByName(query.by)).Key("from_us").Integer(rows.from_us);
  json.Key("to_us").Integer(rows.to_us).Key("data").BeginArray();
  for (const Row& row : rows.rows) {
    json.BeginObject().Key("time_us").Integer(row.time_us).Key("name").String(row.name);
    switch (query.by) {
      case By::kSource:
      case By::kTool:
      case By::kServer:
        WriteTokens(row.bucket, json);
        json.Key("nanodollars").Integer(row.bucket.nanodollars);
        break;
      case By::kBreak:
        WriteLosses(row.bucket, json);
        break;
      default:
        WriteWhole(row.bucket, json);
    }
    json.EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace kvgate::ledger::rollup
