#include "gateway/session/compaction/cleared_marks.h"

#include "base/digest.h"

namespace kvgate::session::compaction {

bool ClearedMarks::Has(std::string_view tenant, uint64_t mark) {
  const uint64_t key = SecretHash(tenant);
  const std::scoped_lock lock(mutex_);
  const std::unique_ptr<Marks>* const marks = tenants_.Find(key);
  return marks != nullptr && (*marks)->Find(mark) != nullptr;
}

void ClearedMarks::Add(std::string_view tenant, uint64_t mark) {
  const uint64_t key = SecretHash(tenant);
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<Marks>& marks = tenants_.FindOrAdd(key);
  if (marks == nullptr) marks = std::make_unique<Marks>(kMarksMax);
  marks->FindOrAdd(mark);
}

}  // namespace kvgate::session::compaction
