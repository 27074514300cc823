#include "gateway/ledger/rollup/recent_models.h"

#include <utility>

#include "gateway/ledger/rollup/rollup_key.h"
#include "gateway/ledger/rollup/rollup_reader.h"

namespace kvgate::ledger::rollup {

void RecentModels::Add(int64_t time_us, const Name& name, const Bucket& bucket) {
  const int64_t minute = time_us / kMinuteUs;
  const int64_t newest = minutes_.empty() ? minute : minutes_.rbegin()->first;
  if (minute < newest - kMinutes) return;
  auto& sums = minutes_[minute];
  Key key(name.model, name.upstream, name.tenant);
  if (sums.size() >= kPerMinuteMax && !sums.contains(key)) return;
  sums[std::move(key)].Merge(bucket);
  while (minutes_.begin()->first < minutes_.rbegin()->first - kMinutes) {
    minutes_.erase(minutes_.begin());
  }
}

void RecentModels::Write(int64_t now_us, std::optional<std::string_view> tenant,
                         dialect::form::JsonWriter& json) const {
  std::map<std::pair<std::string, std::string>, Bucket> sums;
  const int64_t oldest = now_us / kMinuteUs - kMinutes;
  for (const auto& [minute, names] : minutes_) {
    if (minute < oldest) continue;
    for (const auto& [key, bucket] : names) {
      const auto& [model, upstream, owner] = key;
      if (!tenant || owner == *tenant) sums[{model, upstream}].Merge(bucket);
    }
  }
  json.BeginArray();
  for (const auto& [name, bucket] : sums) {
    json.BeginObject().Key("model").String(name.first).Key("upstream").String(name.second);
    json.Key("requests").Integer(bucket.requests).Key("ttft_us");
    WritePercentiles(bucket.ttft, json);
    json.Key("tpot_us");
    WritePercentiles(bucket.tpot, json);
    json.Key("output_tokens_per_second");
    if (bucket.decode_us > 0) {
      json.Number(static_cast<double>(bucket.decoded_tokens) * 1e6 /
                  static_cast<double>(bucket.decode_us));
    } else {
      json.Null();
    }
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace kvgate::ledger::rollup
