#include "gateway/session/log/session_locks.h"

namespace kvgate::session::log {

SessionLocks::Outcome SessionLocks::TryLock(Args args) {
  Key key(args.tenant, args.key);
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = holders_.try_emplace(
      key, Holder{.turn = args.turn, .is_brief = args.is_brief, .waiting = {}});
  // It owns nothing, and must not be null.
  if (!is_new && args.is_brief && found->second.admits_events) {
    return {.lock = std::shared_ptr<void>(this, [](void*) {})};
  }
  if (!is_new) {
    if (args.on_free) found->second.waiting.push_back(std::move(args.on_free));
    return {.lock = nullptr, .turn = found->second.turn, .is_brief = found->second.is_brief};
  }
  return {.lock =
              std::shared_ptr<void>(this, [this, key = std::move(key)](void*) { Release(key); })};
}

void SessionLocks::AdmitEvents(std::string_view tenant, std::string_view key, bool admits) {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    const auto found = holders_.find(Key(tenant, key));
    if (found == holders_.end()) return;
    found->second.admits_events = admits;
    if (admits) waiting = std::exchange(found->second.waiting, {});
  }
  for (const auto& wake : waiting) wake();
}

void SessionLocks::Release(const Key& key) {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    const auto found = holders_.find(key);
    waiting = std::move(found->second.waiting);
    holders_.erase(found);
  }
  for (const auto& wake : waiting) wake();
}

size_t SessionLocks::num_locked() const {
  const std::lock_guard lock(mutex_);
  return holders_.size();
}

}  // namespace kvgate::session::log
