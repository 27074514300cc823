// Budget: bounds the number of steps that building one grammar may take. Every loop over the
// content of a request charges its rounds here and stops once the budget is spent, so the cost of a
// request is bounded even if its parts multiply. Not thread-safe.
#pragma once

#include <cstdint>

namespace kvgate::grammar::rules {

class Budget {
 public:
  // One step takes about 20 ns, so this is about 0.4 s.
  static constexpr uint64_t kStepsMax = 20'000'000;

  explicit Budget(uint64_t steps_max = kStepsMax) : steps_max_(steps_max) {}

  // Returns false once the budget is spent.
  bool Charge(uint64_t steps) {
    steps_ += steps;
    return !is_spent();
  }
  bool is_spent() const { return steps_ > steps_max_; }
  uint64_t steps() const { return steps_; }
  uint64_t steps_max() const { return steps_max_; }

 private:
  uint64_t steps_max_;
  uint64_t steps_ = 0;
};

}  // namespace kvgate::grammar::rules
