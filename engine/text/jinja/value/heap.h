// Heap: an arena for one rendering. Every object of a template lives here until the rendering ends,
// so values are plain pointers and cycles need no collector. Not thread-safe.
//
// Allocate never refuses. Code that creates anything large calls Reserve first, which does refuse;
// small objects are bounded by the steps it takes to create them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvgate::jinja::value {

class Heap {
 public:
  explicit Heap(size_t bytes_max) : bytes_max_(bytes_max) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Returns true if `bytes` more fit. After the first refusal exhausted() stays true.
  bool Reserve(size_t bytes) {
    if (bytes > bytes_max_ || bytes_used_ > bytes_max_ - bytes) exhausted_ = true;
    return !exhausted_;
  }
  bool exhausted() const { return exhausted_; }

  void* Allocate(size_t bytes) {
    bytes = (bytes + 7) & ~size_t{7};
    bytes_used_ += bytes;
    if (bytes > left_) return AllocateBlock(bytes);
    std::byte* const place = next_;
    next_ += bytes;
    left_ -= bytes;
    return place;
  }
  // The object is never destroyed, so T must own nothing.
  template <typename T, typename... Args>
  T* New(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 8);
    return new (Allocate(sizeof(T))) T{std::forward<Args>(args)...};
  }
  // The elements are uninitialised.
  template <typename T>
  T* NewArray(size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 8);
    return static_cast<T*>(Allocate(count * sizeof(T)));
  }

 private:
  void* AllocateBlock(size_t bytes);

  size_t bytes_max_;
  size_t bytes_used_ = 0;
  bool exhausted_ = false;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

}  // namespace kvgate::jinja::value
