// LogitRow: one row of logits for the sampler. Either the whole row is in host memory, or only its
// head (the most likely tokens, and sums over the whole row); the row itself is then fetched only
// if needed. With a vocabulary of 128K tokens a head has 2 KiB, a row 512 KiB.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "base/ids.h"

namespace kvgate::sample {

// The most tokens of a head; the sampler sorts as many of a whole row (see sampler.h).
inline constexpr size_t kHeadTokensMax = 256;

// The most likely tokens of a row, most likely first, the lower id first among equal ones. NaN
// counts as -infinity, +infinity as the greatest finite number. With m = logits[0]:
struct LogitHead {
  std::span<const TokenId> tokens;  // at least one
  std::span<const float> logits;    // [tokens.size()]
  double exp_sum = 0;               // sum over the row of exp(logit - m)
  // Sum over the row of exp((logit - m) * Sampler::inverse_temperature()).
  double tempered_exp_sum = 0;
  double tolerance = 0;  // relative, of both sums
};

class LogitRow {
 public:
  explicit LogitRow(std::span<const float> whole) : size_(whole.size()), whole_(whole) {}
  // `fetch` is called at most once; its result has `size` logits and must outlive this object.
  LogitRow(const LogitHead& head, size_t size, std::function<std::span<const float>()> fetch)
      : size_(size), has_head_(true), head_(head), fetch_(std::move(fetch)) {}

  size_t size() const { return size_; }
  // Returns null if the whole row is in host memory.
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
