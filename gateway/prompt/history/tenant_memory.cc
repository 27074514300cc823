#include "gateway/prompt/history/tenant_memory.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "gateway/prompt/parse/canonical.h"

namespace kvgate::prompt::history {

using parse::Identity;

namespace {

constexpr size_t kEntryBytes = 128;  // estimate of a table entry without the data it points to

size_t SizeOf(const std::string& text) { return kEntryBytes + text.size(); }
size_t SizeOf(const std::vector<Identity>& tools) {
  return kEntryBytes + tools.size() * sizeof(Identity);
}

}  // namespace

TenantMemory::Scope TenantMemory::ScopeOf(std::string_view tenant, std::string_view upstream) {
  return parse::Chain(parse::HashBytes(tenant, parse::Domain::kConversation),
                      parse::HashBytes(upstream, parse::Domain::kConversation),
                      parse::Domain::kConversation);
}

std::shared_ptr<const std::string> TenantMemory::FindBytes(const Scope& scope,
                                                           const Identity& same) {
  const Identity key = parse::Chain(scope, same);
  const std::lock_guard lock(mutex_);
  if (auto bytes = FindLocked(scope, key)) return bytes;
  auto bytes = FindLocked(kNobodys, key);
  if (!bytes) return nullptr;
  DropTextLocked(scopes_[kNobodys].by_key.at(key));  // the text belongs to this scope from here on
  InsertLocked(scope, key, bytes);
  return bytes;
}

std::shared_ptr<const std::string> TenantMemory::PeekBytes(const Scope& scope,
                                                           const Identity& same) const {
  const Identity key = parse::Chain(scope, same);
  const std::lock_guard lock(mutex_);
  for (const Scope& one : {scope, kNobodys}) {
    const auto kept = scopes_.find(one);
    if (kept == scopes_.end()) continue;
    const auto found = kept->second.by_key.find(key);
    if (found != kept->second.by_key.end()) return found->second->bytes;
  }
  return nullptr;
}

std::shared_ptr<const std::string> TenantMemory::FindLocked(const Scope& scope,
                                                            const Identity& key) {
  const auto kept = scopes_.find(scope);
  if (kept == scopes_.end()) return nullptr;
  const auto found = kept->second.by_key.find(key);
  if (found == kept->second.by_key.end()) return nullptr;
  texts_.splice(texts_.begin(), texts_, found->second);
  Order& order = kept->second.texts;
  order.splice(order.begin(), order, found->second->place);
  return found->second->bytes;
}

void TenantMemory::KeepBytes(const Scope& scope, const Identity& same,
                             std::shared_ptr<const std::string> bytes) {
  const Identity key = parse::Chain(scope, same);
  const std::lock_guard lock(mutex_);
  if (FindLocked(scope, key) || FindLocked(kNobodys, key)) return;
  if (InsertLocked(scope, key, bytes)) {
    const size_t size = SizeOf(*bytes);
    NoteLocked({.key = key, .bytes = std::move(bytes), .scope = scope}, size);
  }
}

bool TenantMemory::InsertLocked(const Scope& scope, const Identity& key,
                                std::shared_ptr<const std::string> bytes) {
  const size_t size = SizeOf(*bytes);
  if (size > bytes_max_ / 4) return false;
  Kept& kept = scopes_[scope];
  if (kept.by_key.contains(key)) return false;
  // Everything that may throw for lack of memory runs first, so that a failure changes nothing.
  List text;
  text.push_front({.scope = scope, .key = key, .bytes = std::move(bytes)});
  Order place{text.begin()};
  text.front().place = place.begin();
  kept.by_key.emplace(key, text.begin());
  texts_.splice(texts_.begin(), text);
  kept.texts.splice(kept.texts.begin(), place);
  CountLocked(scope, static_cast<int64_t>(size));
  MakeRoomLocked();
  return true;
}

std::vector<Identity> TenantMemory::FindOrder(const Scope& scope, std::span<const Identity> tools) {
  const std::unordered_set<Identity> present(tools.begin(), tools.end());
  const std::lock_guard lock(mutex_);
  const auto found = scopes_.find(scope);
  if (found == scopes_.end()) return {};
  const std::vector<Identity>* best = nullptr;
  for (const std::vector<Identity>& order : found->second.orders) {
    const bool fits = std::all_of(order.begin(), order.end(),
                                  [&](const Identity& tool) { return present.contains(tool); });
    if (fits && (best == nullptr || order.size() > best->size())) best = &order;
  }
  return best == nullptr ? std::vector<Identity>{} : *best;
}

void TenantMemory::KeepOrder(const Scope& scope, std::vector<Identity> tools) {
  if (tools.empty() || SizeOf(tools) > bytes_max_ / 4) return;
  const std::lock_guard lock(mutex_);
  const std::vector<std::vector<Identity>>& orders = scopes_[scope].orders;
  if (std::find(orders.begin(), orders.end(), tools) != orders.end()) return;
  NoteLocked({.key = scope, .scope = scope, .order = tools}, SizeOf(tools));
  AddOrderLocked(scope, std::move(tools));
}

void TenantMemory::AddOrderLocked(const Scope& scope, std::vector<Identity> tools) {
  std::vector<std::vector<Identity>>& orders = scopes_[scope].orders;
  if (orders.size() >= kOrdersMax) {
    CountLocked(scope, -static_cast<int64_t>(SizeOf(orders.front())));
    orders.erase(orders.begin());
  }
  const size_t size = SizeOf(tools);
  orders.push_back(std::move(tools));
  CountLocked(scope, static_cast<int64_t>(size));
  MakeRoomLocked();
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
    InsertLocked(row.scope, row.key, std::move(row.bytes));
  } else if (scopes_[row.key].orders.size() < kOrdersMax) {
    AddOrderLocked(row.key, std::move(row.order));
  }
}

void TenantMemory::NoteLocked(Row row, size_t bytes) {
  if (!notes_ || noted_bytes_ + bytes > bytes_max_ / 4) return;
  noted_bytes_ += bytes;
  noted_.push_back(std::move(row));
}

void TenantMemory::CountLocked(const Scope& scope, int64_t bytes) {
  Kept& kept = scopes_[scope];
  kept.bytes += static_cast<size_t>(bytes);
  bytes_ += static_cast<size_t>(bytes);
  if (kept.bytes > bytes_max_ / 2) largest_ = scope;
}

void TenantMemory::MakeRoomLocked() {
  while (bytes_ > bytes_max_) {
    auto scope = scopes_.find(largest_);
    const bool is_over = scope != scopes_.end() && scope->second.bytes > bytes_max_ / 2;
    if (!is_over && !texts_.empty()) {
      DropTextLocked(std::prev(texts_.end()));
      continue;
    }
    if (!is_over) scope = scopes_.begin();  // only tool orders of very many scopes are left
    if (!scope->second.texts.empty()) {
      DropTextLocked(scope->second.texts.back());
    } else {
      bytes_ -= scope->second.bytes;
      scopes_.erase(scope);
    }
  }
}

void TenantMemory::DropTextLocked(List::iterator text) {
  const Scope scope = text->scope;
  Kept& kept = scopes_[scope];
  CountLocked(scope, -static_cast<int64_t>(SizeOf(*text->bytes)));
  kept.by_key.erase(text->key);
  kept.texts.erase(text->place);
  texts_.erase(text);
  if (!kept.texts.empty()) return;
  bytes_ -= kept.bytes;  // only the orders are left
  scopes_.erase(scope);
}

}  // namespace kvgate::prompt::history
