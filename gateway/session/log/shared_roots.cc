#include "gateway/session/log/shared_roots.h"

#include <algorithm>
#include <optional>
#include <span>

namespace kvgate::session::log {

using store::shared::SharedMap;

void SharedRoots::Say(const Name& name, When when) {
  {
    const std::lock_guard lock(mutex_);
    const std::string key = map_.KeyOf({.tenant = name.tenant, .name = name.root});
    const auto now = SteadyClock::now();
    const auto* const said = said_.Find(key);
    if (when == When::kAnyway || said == nullptr || now - *said >= options_.renewed) {
      said_.FindOrAdd(key) = now;
      if (unsaid_.size() < kUnsaidMax) unsaid_.emplace_back(name.tenant, name.root);
    }
  }
  SayUnsaid();
}

void SharedRoots::SayUnsaid() {
  std::unique_lock lock(mutex_);
  while (!unsaid_.empty() && !map_.is_paused()) {
    Owned next = std::move(unsaid_.front());
    unsaid_.pop_front();
    lock.unlock();
    const bool is_said = SayOne(next);
    lock.lock();
    if (!is_said) {
      unsaid_.push_front(std::move(next));
      return;
    }
  }
}

// A value that another gateway has set is set once more, so that its time begins anew.
bool SharedRoots::SayOne(const Owned& name) {
  const auto deadline = SteadyClock::now() + options_.call_time_max;
  const SharedMap::Name place{.tenant = name.first, .name = name.second};
  auto set = map_.Set({.name = place, .bytes = name.second}, deadline);
  if (!set) return false;
  if (*set) return true;
  const std::string key = map_.KeyOf(place);
  const auto there = map_.Get(std::span(&key, 1), deadline);
  if (!there) return false;
  if (there->front().state == SharedMap::Value::State::kForeign) return true;
  set =
      map_.Set({.name = place, .expected = there->front().version, .bytes = name.second}, deadline);
  return set.has_value();
}

void SharedRoots::Hear() {
  SayUnsaid();
  const std::lock_guard hearing(hearing_mutex_);
  SharedMap::Position position;
  {
    const std::lock_guard lock(mutex_);
    // What the store still lists is heard anew.
    if (num_heard_ >= kHeardMax) ForgetHeard();
    position = position_;
  }
  const auto end = SteadyClock::now() + options_.hear_time_max;
  for (bool has_more = true; has_more && SteadyClock::now() < end && !map_.is_paused();) {
    const auto deadline = std::min(end, SteadyClock::now() + options_.call_time_max);
    const auto changes = map_.ChangedSince(position, kKeysAtOnce, deadline);
    if (!changes) return;
    const auto values = map_.Get(changes->keys, deadline);
    if (!values) return;
    const std::lock_guard lock(mutex_);
    // The store has forgotten them: those that go on are said anew.
    if (changes->position.life != position.life) ForgetHeard();
    position = position_ = changes->position;
    for (const SharedMap::Value& value : *values) {
      if (value.state == SharedMap::Value::State::kThere) Add(value.tenant, value.bytes);
    }
    has_more = changes->has_more;
  }
}

void SharedRoots::Add(const std::string& tenant, const std::string& root) {
  if (heard_[tenant].emplace(root, last_number_ + 1).second) {
    ++last_number_;
    ++num_heard_;
  }
}

void SharedRoots::ForgetHeard() {
  heard_.clear();
  num_heard_ = 0;
  position_ = {};
}

std::vector<std::string> SharedRoots::Of(std::string_view tenant) const {
  const std::lock_guard lock(mutex_);
  const auto found = heard_.find(std::string(tenant));
  if (found == heard_.end()) return {};
  std::vector<std::pair<uint64_t, std::string>> numbered;
  for (const auto& [root, number] : found->second) numbered.emplace_back(number, root);
  std::sort(numbered.begin(), numbered.end());
  std::vector<std::string> roots;
  for (auto& [number, root] : numbered) roots.push_back(std::move(root));
  return roots;
}

void SharedRoots::Drop(const Name& name) {
  const std::lock_guard lock(mutex_);
  const auto found = heard_.find(std::string(name.tenant));
  if (found == heard_.end()) return;
  num_heard_ -= found->second.erase(std::string(name.root));
  if (found->second.empty()) heard_.erase(found);
}

}  // namespace kvgate::session::log
