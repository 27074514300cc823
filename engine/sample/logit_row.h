// LogitRow: one row of logits as the sampler asks for it. Either the row is in host memory, or its
// head is (the most likely tokens, and sums over the whole row) and the row itself is fetched when
// somebody needs it: at a vocabulary of 128K, 2 KiB instead of 512 KiB.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include <kvgate/ids.h>

namespace kvgate::sample {

// A head has at most so many tokens; so many of a whole row are sorted (see sampler.h).
inline constexpr size_t kHeadTokensMax = 256;

// The most likely tokens of a row, most likely first, of equal ones the lower id first. NaN has
// counted as -infinity, +infinity as the greatest finite number. With m = logits[0]:
struct LogitHead {
  std::span<const TokenId> tokens;  // one at least
  std::span<const float> logits;    // [tokens.size()]
  double exp_sum = 0;               // over the row, of exp(logit - m)
  double tempered_exp_sum =
      0;                 // over the row, of exp((logit - m) * Sampler::inverse_temperature())
  double tolerance = 0;  // of both sums, relative
};

class LogitRow {
 public:
  explicit LogitRow(std::span<const float> whole) : size_(whole.size()), whole_(whole) {}
  // `fetch` is called once at most; what it gives has `size` logits and outlives this.
  LogitRow(const LogitHead& head, size_t size, std::function<std::span<const float>()> fetch)
      : size_(size), has_head_(true), head_(head), fetch_(std::move(fetch)) {}

  size_t size() const { return size_; }
  // Null: the row is in host memory anyway.
  const LogitHead* head() const { return has_head_ ? &head_ : nullptr; }
  std::span<const float> Whole() {
    if (whole_.empty() && fetch_ != nullptr) whole_ = std::exchange(fetch_, nullptr)();
    return whole_;
  }

 private:
  size_t size_;
  bool has_head_ = false;
  LogitHead head_;
  std::function<std::span<const float>()> fetch_;
  std::span<const float> whole_;
};

}  // namespace kvgate::sample
