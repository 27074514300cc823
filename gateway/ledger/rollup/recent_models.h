// RecentModels sums the requests of the last hour by model and upstream, in memory, so that a page
// that shows them waits for no disk. Bounded. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/rollup/bucket.h"

namespace kvgate::ledger::rollup {

class RecentModels {
 public:
  static constexpr int64_t kMinutes = 60;
  static constexpr size_t kPerMinuteMax = 512;  // further ones of a minute are not shown

  struct Name {
    std::string tenant = {};
    std::string model = {};
    std::string upstream = {};
  };
  void Add(int64_t time_us, const Name& name, const Bucket& bucket);
  // Writes an array: {"model", "upstream", "requests", "ttft_us", "tpot_us",
  // "output_tokens_per_second"}; of one tenant if it is given.
  void Write(int64_t now_us, std::optional<std::string_view> tenant,
             dialect::form::JsonWriter& json) const;

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // model, upstream, tenant
  std::map<int64_t, std::map<Key, Bucket>> minutes_;
};

}  // namespace kvgate::ledger::rollup
