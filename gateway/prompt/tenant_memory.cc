#include "gateway/prompt/tenant_memory.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "gateway/prompt/canonical.h"

namespace kvgate::prompt {
namespace {

constexpr size_t kEntryBytes = 128;  // of a table's entry, beside what it points to

}  // namespace

TenantMemory::Scope TenantMemory::ScopeOf(std::string_view tenant, std::string_view upstream) {
  return Chain(HashBytes(tenant, Domain::kConversation), HashBytes(upstream, Domain::kConversation),
               Domain::kConversation);
}

std::shared_ptr<const std::string> TenantMemory::FindBytes(const Scope& scope,
                                                           const Identity& same) {
  const Identity key = Chain(scope, same);
  const std::lock_guard lock(mutex_);
  if (const auto found = young_.texts.find(key); found != young_.texts.end()) return found->second;
  const auto found = old_.texts.find(key);
  if (found == old_.texts.end()) return nullptr;
  const std::shared_ptr<const std::string> bytes = found->second;
  young_.bytes += kEntryBytes + bytes->size();
  young_.texts.emplace(key, bytes);
  TurnOverLocked();
  return bytes;
}

void TenantMemory::KeepBytes(const Scope& scope, const Identity& same,
                             std::shared_ptr<const std::string> bytes) {
  const Identity key = Chain(scope, same);
  const std::lock_guard lock(mutex_);
  if (old_.texts.contains(key)) return;
  const size_t size = kEntryBytes + bytes->size();
  if (!young_.texts.emplace(key, bytes).second) return;
  young_.bytes += size;
  NoteLocked({.key = key, .bytes = std::move(bytes)}, size);
  TurnOverLocked();
}

std::vector<Identity> TenantMemory::FindOrder(const Scope& scope, std::span<const Identity> tools) {
  const std::unordered_set<Identity> present(tools.begin(), tools.end());
  const std::lock_guard lock(mutex_);
  const std::vector<Identity>* best = nullptr;
  for (const Generation* generation : {&old_, &young_}) {
    const auto found = generation->orders.find(scope);
    if (found == generation->orders.end()) continue;
    for (const std::vector<Identity>& order : found->second) {
      const bool fits = std::all_of(order.begin(), order.end(),
                                    [&](const Identity& tool) { return present.contains(tool); });
      if (fits && (best == nullptr || order.size() > best->size())) best = &order;
    }
  }
  return best == nullptr ? std::vector<Identity>{} : *best;
}

void TenantMemory::KeepOrder(const Scope& scope, std::vector<Identity> tools) {
  if (tools.empty()) return;
  const std::lock_guard lock(mutex_);
  auto& orders = young_.orders[scope];
  if (std::find(orders.begin(), orders.end(), tools) != orders.end()) return;
  const size_t size = kEntryBytes + tools.size() * sizeof(Identity);
  young_.bytes += size;
  if (orders.size() >= kOrdersMax) orders.erase(orders.begin());
  orders.push_back(tools);
  NoteLocked({.key = scope, .order = std::move(tools)}, size);
  TurnOverLocked();
}

std::vector<TenantMemory::Row> TenantMemory::TakeNew() {
  const std::lock_guard lock(mutex_);
  notes_ = true;
  noted_bytes_ = 0;
  return std::exchange(noted_, {});
}

void TenantMemory::Restore(Row row) {
  const std::lock_guard lock(mutex_);
  if (row.bytes) {
    const size_t size = kEntryBytes + row.bytes->size();
    if (young_.texts.emplace(row.key, std::move(row.bytes)).second) young_.bytes += size;
  } else {
    auto& orders = young_.orders[row.key];
    if (orders.size() >= kOrdersMax) return;
    young_.bytes += kEntryBytes + row.order.size() * sizeof(Identity);
    orders.push_back(std::move(row.order));
  }
  TurnOverLocked();
}

void TenantMemory::NoteLocked(Row row, size_t bytes) {
  if (!notes_ || noted_bytes_ + bytes > young_bytes_max_ / 2) return;
  noted_bytes_ += bytes;
  noted_.push_back(std::move(row));
}

void TenantMemory::TurnOverLocked() {
  if (young_.bytes > young_bytes_max_) old_ = std::exchange(young_, {});
}

}  // namespace kvgate::prompt
