// ClearedMarks: up to which tool use conversations have been cleared. A request carries its whole
// conversation again, so that one which clears "all but the newest" anew each time would change its
// prompt in the middle with every turn, and a cache would never be hit. What is forgotten here
// costs one write of a prefix. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/lru_map.h"

namespace kvgate::session::compaction {

class ClearedMarks {
 public:
  // `mark` stands for a conversation up to one of its tool uses. A look counts as a use of it.
  bool Has(std::string_view tenant, uint64_t mark);
  // Forgets the tenant's mark that was not used longest, where it has too many.
  void Add(std::string_view tenant, uint64_t mark);

 private:
  static constexpr size_t kTenantsMax = 1024;
  static constexpr size_t kMarksMax = 256;  // of a tenant
  using Marks = LruMap<uint64_t, char>;

  std::mutex mutex_;
  LruMap<uint64_t, std::unique_ptr<Marks>> tenants_{kTenantsMax};
};

}  // namespace kvgate::session::compaction
