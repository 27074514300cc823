// WarmCaches knows which conversations' prefixes are still in their providers' caches, how long
// that lasts, and what the next request costs more behind that. Bounded: the one that goes cold
// first is forgotten. In memory only. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/dialect/form/json_writer.h"

namespace kvgate::ledger::rollup {

struct WarmCache {
  std::string conversation = {};
  std::string session = {};
  std::string tenant = {};
  std::string model = {};
  std::string upstream = {};
  int64_t tokens = 0;  // the prefix that is cached
  int64_t last_us = 0;
  int64_t expires_us = 0;
  int64_t cold_nanodollars = 0;
};

class WarmCaches {
 public:
  static constexpr size_t kCachesMax = 4096;
  static constexpr size_t kShownMax = 200;

  // Replaces what is known of the conversation at that upstream.
  void Note(WarmCache cache);
  // Writes those that are warm as an array, the soonest to go cold first; one tenant's if it is
  // given.
  void Write(int64_t now_us, std::optional<std::string_view> tenant,
             dialect::form::JsonWriter& json) const;

 private:
  using Key = std::pair<std::string, std::string>;  // conversation, upstream
  std::map<Key, WarmCache> caches_;
};

}  // namespace kvgate::ledger::rollup
