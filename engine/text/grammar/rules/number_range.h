// Numbers between bounds, as expressions: exact decimal comparison, digit by digit.
//
// Integers have 18 digits at most (multiples 15), numbers 15 (whole part and fraction together), so
// that a reader with doubles sees a number on the same side of every bound as we do. Bounded
// numbers have no exponent; zero has no sign.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <kvgate/result.h>

#include "engine/grammar/grammar.h"

namespace kvgate::grammar {

// A decimal number without an exponent. Zero is not negative.
struct Decimal {
  bool negative = false;
  std::string whole = "0";    // no leading zeros but of "0"
  std::string fraction = {};  // no trailing zeros
};
// The shortest decimal that reads as this double. REQUIRES: finite.
Decimal ToDecimal(double number);
Decimal ToDecimal(int64_t number);

struct Bound {
  Decimal value;
  bool exclusive = false;
};

struct NumberRange {
  std::optional<Bound> lower;
  std::optional<Bound> upper;
};

// The multiples of `multiple_of` in the range; Grammar::Nothing where there are none.
// kUnsupported: multiple_of above kMultipleMax.
Result<ExprId> AddIntegerRange(Grammar& grammar, const NumberRange& range, uint64_t multiple_of);
inline constexpr uint64_t kMultipleMax = 1000;

ExprId AddNumberRange(Grammar& grammar, const NumberRange& range);

}  // namespace kvgate::grammar
