// LruMap: a map of bounded size that evicts the entry which has not been asked for longest. The
// owner locks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <list>
#include <unordered_map>
#include <utility>

namespace kvgate {

template <typename Key, typename Value, typename Hash = std::hash<Key>>
class LruMap {
 public:
  // Keeps at least one entry, so that what FindOrAdd returns is never evicted at once.
  explicit LruMap(size_t max) : max_(std::max<size_t>(max, 1)) {}
  LruMap(const LruMap&) = delete;  // the index points into the list
  LruMap& operator=(const LruMap&) = delete;

  // Returns null if there is none. Pointers are valid until the entry is evicted.
  Value* Find(const Key& key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return &found->second->second;
  }
  // Like Find, but does not count as asking.
  const Value* Peek(const Key& key) const {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &found->second->second;
  }
  Value& FindOrAdd(const Key& key) {
    if (Value* value = Find(key)) return *value;
    order_.emplace_front(key, Value());
    index_[key] = order_.begin();
    if (order_.size() > max_) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }
  size_t size() const { return order_.size(); }

 private:
  using Order = std::list<std::pair<Key, Value>>;

  const size_t max_;
  Order order_;  // last asked for first
  std::unordered_map<Key, typename Order::iterator, Hash> index_;
};

}  // namespace kvgate
