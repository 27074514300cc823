// Heap: the memory of one rendering. Everything a template makes lives here until the rendering
// ends, so values are plain pointers and cycles cost nothing. Not thread-safe.
//
// The bound is soft by one request: what goes past it is refused by Reserve, which the makers of
// anything large ask first; small objects are bounded by the steps that make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvgate::jinja {

class Heap {
 public:
  explicit Heap(size_t bytes_max) : bytes_max_(bytes_max) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Whether `bytes` more fit; once they do not, exhausted() stays true.
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
  // Never destroyed: T must own nothing.
  template <typename T, typename... Args>
  T* New(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 8);
    return new (Allocate(sizeof(T))) T{std::forward<Args>(args)...};
  }
  // Uninitialised.
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

}  // namespace kvgate::jinja
