// IndexedObject: the members of a JSON object in document order, found by name in constant time.
// nlohmann::ordered_map searches linearly, so reading an object with 30,000 names took half a
// billion comparisons.
//
// The index is built once an object has more than kSmall members, and dropped when members are
// erased. Not thread-safe, not even for concurrent reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/digest.h"

namespace kvgate::grammar::schema {

template <class Key, class T, class IgnoredLess = std::less<Key>,
          class Allocator = std::allocator<std::pair<const Key, T>>>
class IndexedObject : public nlohmann::ordered_map<Key, T, IgnoredLess, Allocator> {
  using Base = nlohmann::ordered_map<Key, T, IgnoredLess, Allocator>;

 public:
  using Base::Base;
  using typename Base::const_iterator;
  using typename Base::iterator;
  using typename Base::key_type;
  using typename Base::size_type;
  using typename Base::value_type;

  std::pair<iterator, bool> emplace(key_type key, T&& value) {
    const size_t at = Find(key);
    if (at != this->size()) return {this->begin() + static_cast<ptrdiff_t>(at), false};
    Base::Container::emplace_back(std::move(key), std::move(value));
    return {std::prev(this->end()), true};
  }
  std::pair<iterator, bool> insert(value_type&& value) {
    return emplace(value.first, std::move(value.second));
  }
  std::pair<iterator, bool> insert(const value_type& value) {
    return emplace(value.first, T(value.second));
  }
  template <typename Input>
  void insert(Input first, Input last) {
    for (; first != last; ++first) insert(*first);
  }

  T& operator[](const key_type& key) { return emplace(key, T{}).first->second; }
  const T& operator[](const key_type& key) const { return at(key); }
  T& at(std::string_view key) { return (this->begin() + Existing(key))->second; }
  const T& at(std::string_view key) const { return (this->begin() + Existing(key))->second; }
  size_type count(std::string_view key) const { return Find(key) == this->size() ? 0 : 1; }
  iterator find(std::string_view key) { return this->begin() + static_cast<ptrdiff_t>(Find(key)); }
  const_iterator find(std::string_view key) const {
    return this->begin() + static_cast<ptrdiff_t>(Find(key));
  }

  size_type erase(std::string_view key) {
    const size_t at = Find(key);
    if (at == this->size()) return 0;
    erase(this->begin() + static_cast<ptrdiff_t>(at));
    return 1;
  }
  iterator erase(iterator at) { return erase(at, std::next(at)); }
  iterator erase(iterator first, iterator last) {
    slots_.clear();
    num_indexed_ = 0;
    return Base::erase(first, last);
  }

 private:
  static constexpr size_t kSmall = 16;  // objects up to this size are searched linearly
  static constexpr uint32_t kFree = UINT32_MAX;

  ptrdiff_t Existing(std::string_view key) const {
    const size_t at = Find(key);
    if (at == this->size()) throw std::out_of_range("key not found");
    return static_cast<ptrdiff_t>(at);
  }

  // Returns the position of the member, or size() if there is none.
  size_t Find(std::string_view key) const {
    const size_t size = this->size();
    if (size <= kSmall) {
      size_t at = 0;
      while (at < size && Member(at).first != key) ++at;
      return at;
    }
    Index();
    for (size_t slot = SecretHash(key) & (slots_.size() - 1);; slot = Next(slot)) {
      if (slots_[slot] == kFree) return size;
      if (Member(slots_[slot]).first == key) return slots_[slot];
    }
  }
  const value_type& Member(size_t at) const { return Base::Container::operator[](at); }

  size_t Next(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }

  // Indexes the members that were added since the last call.
  void Index() const {
    const size_t size = this->size();
    if (num_indexed_ > size) num_indexed_ = 0;
    if (num_indexed_ == size && !slots_.empty()) return;
    if (size * 2 > slots_.size() || num_indexed_ == 0) {
      size_t num_slots = 4 * kSmall;
      while (num_slots < size * 4) num_slots *= 2;
      slots_.assign(num_slots, kFree);
      num_indexed_ = 0;
    }
    for (; num_indexed_ < size; ++num_indexed_) {
      size_t slot = SecretHash(Member(num_indexed_).first) & (slots_.size() - 1);
      while (slots_[slot] != kFree) slot = Next(slot);
      slots_[slot] = static_cast<uint32_t>(num_indexed_);
    }
  }

  mutable std::vector<uint32_t> slots_;  // hash table: position of a member, or kFree
  mutable size_t num_indexed_ = 0;       // the first num_indexed_ members are in slots_
};

}  // namespace kvgate::grammar::schema
