// SharedList is a list whose copies share their elements chunk by chunk, so that the sent part of a
// conversation is held once for all of its requests. Elements do not change after insertion. Copies
// may be used on several threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace kvgate::prompt::parse {

template <typename T>
class SharedList {
 public:
  // Elements per chunk. The next request copies the last chunk, which is half full on average.
  static constexpr size_t kChunkSize = 64;

  SharedList() = default;
  SharedList(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](size_t i) const { return items_[i / kChunkSize][i % kChunkSize]; }
  const T& back() const { return (*this)[size_ - 1]; }
  // The sum of the bytes given to push_back.
  size_t num_bytes() const { return num_bytes_; }

  // The same without the chunks that `other` shares.
  size_t NumBytesBeside(const SharedList& other) const {
    size_t bytes = 0;
    for (size_t i = 0; i < chunks_.size(); ++i) {
      const bool is_shared = i < other.chunks_.size() && chunks_[i] == other.chunks_[i];
      bytes += is_shared ? 0 : chunks_[i]->num_bytes;
    }
    return bytes;
  }

  // `bytes` is the memory that the item accounts for.
  void push_back(T item, size_t bytes = 0) {
    if (size_ % kChunkSize == 0) {
      chunks_.push_back(std::make_shared<Chunk>());  // not reserved: most requests are short
    } else if (chunks_.back().use_count() > 1) {
      chunks_.back() = std::make_shared<Chunk>(*chunks_.back());
    }
    chunks_.back()->items.push_back(std::move(item));
    items_.resize(chunks_.size());
    items_.back() = chunks_.back()->items.data();
    chunks_.back()->num_bytes += bytes;
    num_bytes_ += bytes;
    ++size_;
  }

  // Returns true if elements [size, size + kChunkSize) of `other` can be shared: a chunk ends here,
  // and the one there is full.
  bool CanShare(const SharedList& other) const {
    return size_ % kChunkSize == 0 && other.size_ >= size_ + kChunkSize;
  }
  // Appends those elements without a copy. REQUIRES: CanShare(other).
  void Share(const SharedList& other) {
    chunks_.push_back(other.chunks_[size_ / kChunkSize]);
    items_.push_back(chunks_.back()->items.data());
    num_bytes_ += chunks_.back()->num_bytes;
    size_ += kChunkSize;
  }

  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;
    Iterator() = default;
    Iterator(const SharedList* list, size_t at) : list_(list), at_(at) {}
    reference operator*() const { return (*list_)[at_]; }
    pointer operator->() const { return &(*list_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return {list_, at_++}; }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const SharedList* list_ = nullptr;
    size_t at_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size_}; }

 private:
  struct Chunk {
    std::vector<T> items;
    size_t num_bytes = 0;
  };
  std::vector<std::shared_ptr<Chunk>> chunks_;
  std::vector<const T*> items_;  // of each chunk, for those who read them one after the other
  size_t size_ = 0;
  size_t num_bytes_ = 0;
};

}  // namespace kvgate::prompt::parse
