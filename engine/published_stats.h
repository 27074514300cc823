// PublishedStats: statistics that one thread writes and any thread reads. They are copied word by
// word: each word is correct, but two words may be from different moments.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kvgate::engine {

template <typename Stats>
class PublishedStats {
 public:
  // Called by the writer's thread only.
  void Publish(const Stats& stats) {
    const auto words = std::bit_cast<Words>(stats);
    for (size_t i = 0; i < kNumWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }
  Stats Read() const {
    Words words;
    for (size_t i = 0; i < kNumWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    return std::bit_cast<Stats>(words);
  }

 private:
  static_assert(std::is_trivially_copyable_v<Stats> && sizeof(Stats) % sizeof(uint64_t) == 0);
  static constexpr size_t kNumWords = sizeof(Stats) / sizeof(uint64_t);
  using Words = std::array<uint64_t, kNumWords>;
  std::array<std::atomic<uint64_t>, kNumWords> words_{};
};

}  // namespace kvgate::engine
