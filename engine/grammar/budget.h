// Budget: how many steps making one grammar may take, charged as they are taken. Whoever loops over
// what a request says charges each round and stops where the budget is spent; so the cost of a
// request is bounded however its parts multiply. Not thread-safe.
#pragma once

#include <cstdint>

namespace kvgate::grammar {

class Budget {
 public:
  // A step is some 20 ns.
  static constexpr uint64_t kStepsMax = 20'000'000;

  explicit Budget(uint64_t steps_max = kStepsMax) : steps_max_(steps_max) {}

  // False: it is spent.
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

}  // namespace kvgate::grammar
