// RecentUses: which versions were used a moment ago, so that what a provider's cache holds of one
// is likely to be read again. Bounded; thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/lru_map.h"
#include "gateway/session/prompts/prompt_name.h"

namespace kvgate::session::prompts {

class RecentUses {
 public:
  static constexpr size_t kVersionsMax = 16'384;
  // The shortest lifetime of a provider's cache.
  static constexpr int64_t kRecentUs = 300 * int64_t{1'000'000};

  // Notes a use. Returns true if the tenant has used this version with that model since kRecentUs.
  bool Note(std::string_view tenant, const PromptName& id, std::string_view model, int64_t now_us);

 private:
  std::mutex mutex_;
  LruMap<std::string, int64_t> last_us_{kVersionsMax};
};

}  // namespace kvgate::session::prompts
