// Numbers between bounds as expressions, compared exactly as decimals, digit by digit.
//
// Integers have at most 18 digits (multiples 15) and numbers at most 15 (whole part and fraction
// together), so that a reader that uses doubles puts a number on the same side of every bound as we
// do. Bounded numbers have no exponent, and zero has no sign.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/text/grammar/rules/grammar.h"

namespace kvgate::grammar::rules {

// A decimal number without an exponent. Zero is not negative.
struct Decimal {
  bool negative = false;
  std::string whole = "0";    // no leading zeros except in "0"
  std::string fraction = {};  // no trailing zeros
};
// Returns the shortest decimal that reads back as this double. REQUIRES: finite.
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

// Returns the multiples of `multiple_of` in the range, or Grammar::Nothing if there are none.
// kUnsupported: multiple_of is above kMultipleMax.
Result<ExprId> AddIntegerRange(Grammar& grammar, const NumberRange& range, uint64_t multiple_of);
inline constexpr uint64_t kMultipleMax = 1000;

ExprId AddNumberRange(Grammar& grammar, const NumberRange& range);

}  // namespace kvgate::grammar::rules
