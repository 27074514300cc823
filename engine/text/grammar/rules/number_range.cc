#include "engine/text/grammar/rules/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace kvgate::grammar::rules {
namespace {

constexpr int64_t kIntegerMax = 999'999'999'999'999'999;     // 18 digits
constexpr int64_t kMultipleDigitsMax = 999'999'999'999'999;  // 15
constexpr size_t kDigitsMax = 15;                            // of numbers
constexpr int64_t kExactMax = int64_t{1} << 53;
constexpr int64_t kDoubleGapMax = 256;  // exceeds the gap between doubles of 18 digits

// Tells which bounds the digits so far are equal to; a bound that they have left no longer
// restricts.
struct Tight {
  bool lower = false;
  bool upper = false;
};

CharSet Digits(char first, char last) {
  return {{static_cast<char32_t>(first), static_cast<char32_t>(last)}};
}

// --- integers ---------------------------------------------------------------------------------

// Non-negative integers with a fixed number of digits, between two bounds of that length.
class IntegerDigits {
 public:
  IntegerDigits(Grammar& grammar, uint64_t multiple_of)
      : grammar_(grammar), multiple_of_(multiple_of) {}

  ExprId Between(const std::string& lower, const std::string& upper) {
    lower_ = lower;
    upper_ = upper;
    return Rest(0, {.lower = true, .upper = true}, 0);
  }

 private:
  // The digits from `at` on. The digits before it leave `remainder` modulo multiple_of_.
  ExprId Rest(size_t at, Tight tight, uint64_t remainder) {
    const size_t left = lower_.size() - at;
    if (left == 0) return remainder == 0 ? grammar_.Empty() : grammar_.Nothing();
    if (!tight.lower && !tight.upper) return Free(left, remainder);
    const char first = tight.lower ? lower_[at] : '0';
    const char last = tight.upper ? upper_[at] : '9';
    std::vector<ExprId> alternatives;
    for (char digit = first; digit <= last; ++digit) {
      const Tight then = {.lower = tight.lower && digit == first,
                          .upper = tight.upper && digit == last};
      alternatives.push_back(grammar_.Sequence(
          {grammar_.Chars(Digits(digit, digit)), Rest(at + 1, then, Append(remainder, digit))}));
    }
    return grammar_.Choice(alternatives);
  }

  // All digits are possible; only their number and the remainder matter.
  ExprId Free(size_t left, uint64_t remainder) {
    if (multiple_of_ == 1) {
      const auto count = static_cast<uint32_t>(left);
      return grammar_.Repeat(grammar_.Chars(Digits('0', '9')), {.min = count, .max = count});
    }
    if (left == 0) return remainder == 0 ? grammar_.Empty() : grammar_.Nothing();
    const auto [at, is_new] = rules_.try_emplace({left, remainder});
    if (is_new) {
      const RuleId rule = at->second = grammar_.AddRule("digits");
      std::vector<ExprId> alternatives;
      for (char digit = '0'; digit <= '9'; ++digit) {
        alternatives.push_back(grammar_.Sequence(
            {grammar_.Chars(Digits(digit, digit)), Free(left - 1, Append(remainder, digit))}));
      }
      grammar_.SetBody(rule, grammar_.Choice(alternatives));
      return grammar_.Rule(rule);
    }
    return grammar_.Rule(at->second);
  }

  uint64_t Append(uint64_t remainder, char digit) const {
    return (remainder * 10 + static_cast<uint64_t>(digit - '0')) % multiple_of_;
  }

  Grammar& grammar_;
  const uint64_t multiple_of_;
  std::string lower_;
  std::string upper_;
  std::map<std::pair<size_t, uint64_t>, RuleId> rules_;
};

// REQUIRES: 0 <= lower <= upper.
ExprId Magnitudes(Grammar& grammar, IntegerDigits& digits, int64_t lower, int64_t upper) {
  std::vector<ExprId> alternatives;
  int64_t begin = 0;
  for (int64_t end = 9;; end = end * 10 + 9) {
    const int64_t first = std::max(lower, begin);
    const int64_t last = std::min(upper, end);
    if (first <= last) {
      alternatives.push_back(digits.Between(std::to_string(first), std::to_string(last)));
    }
    if (end >= upper) break;
    begin = end + 1;
  }
  return grammar.Choice(alternatives);
}

// Returns the last integer inside the bound.
int64_t ToInteger(const Bound& bound, bool is_lower) {
  const Decimal& value = bound.value;
  const int64_t sign = value.negative ? -1 : 1;
  if (value.whole.size() > 18) return sign * (kIntegerMax + 1);
  const int64_t whole = sign * std::stoll(value.whole);
  // Above 2^53 neighbouring integers may read as the same double.
  const int64_t step = std::abs(whole) < kExactMax ? 1 : kDoubleGapMax;
  const bool is_integer = value.fraction.empty();
  // `whole` is rounded towards zero.
  if (is_lower) {
    const bool passed = is_integer ? bound.exclusive : !value.negative;
    return passed ? whole + step : whole;
  }
  const bool passed = is_integer ? bound.exclusive : value.negative;
  return passed ? whole - step : whole;
}

// --- numbers ----------------------------------------------------------------------------------

// Non-negative numbers whose whole part has a fixed number of digits, between two bounds.
class NumberDigits {
 public:
  // The digits of the whole part followed by those of the fraction. Null: no number of this length
  // can violate the bound.
  struct Limit {
    std::string digits;
    bool exclusive = false;
  };
  NumberDigits(Grammar& grammar, size_t num_whole, const Limit* lower, const Limit* upper)
      : grammar_(grammar), num_whole_(num_whole), lower_(lower), upper_(upper) {}

  ExprId Make() { return Rest(0, {.lower = lower_ != nullptr, .upper = upper_ != nullptr}); }

 private:
  static char DigitAt(const Limit& limit, size_t at) {
    return at < limit.digits.size() ? limit.digits[at] : '0';
  }
  // Returns true if all digits from `at` on are zeros.
  static bool EndsAt(const Limit& limit, size_t at) {
    return limit.digits.find_first_not_of('0', at) == std::string::npos;
  }

  // Returns true if the number may end after `at` digits.
  bool MayEnd(size_t at, Tight tight) const {
    if (tight.lower && (!EndsAt(*lower_, at) || lower_->exclusive)) return false;
    if (tight.upper && EndsAt(*upper_, at) && upper_->exclusive) return false;
    return true;
  }

  ExprId Rest(size_t at, Tight tight) {
    if (at < num_whole_) return Digit(at, tight);
    std::vector<ExprId> alternatives;
    if (MayEnd(at, tight)) alternatives.push_back(grammar_.Empty());
    if (at < kDigitsMax) {
      const ExprId more = Digit(at, tight);
      alternatives.push_back(at == num_whole_ ? grammar_.Sequence({grammar_.Literal("."), more})
                                              : more);
    }
    return grammar_.Choice(alternatives);
  }

  ExprId Digit(size_t at, Tight tight) {
    const bool leads = at == 0 && num_whole_ > 1;
    const char first = tight.lower ? DigitAt(*lower_, at) : leads ? '1' : '0';
    const char last = tight.upper ? DigitAt(*upper_, at) : '9';
    std::vector<ExprId> alternatives;
    const auto add = [&](char from, char to, Tight then) {
      if (from > to) return;
      alternatives.push_back(
          grammar_.Sequence({grammar_.Chars(Digits(from, to)), Rest(at + 1, then)}));
    };
    if (tight.lower && tight.upper && first == last) {
      add(first, last, tight);
    } else {
      const char low = static_cast<char>(tight.lower ? first + 1 : first);
      const char high = static_cast<char>(tight.upper ? last - 1 : last);
      if (tight.lower && first <= last) add(first, first, {.lower = true});
      if (tight.upper && first <= last) add(last, last, {.upper = true});
      if (low <= high) AddFree(at, CharSet(Digits(low, high)), alternatives);
    }
    return grammar_.Choice(alternatives);
  }

  // Neither bound restricts the remaining digits.
  void AddFree(size_t at, const CharSet& digits, std::vector<ExprId>& alternatives) {
    const ExprId any = grammar_.Chars(Digits('0', '9'));
    std::vector<ExprId> parts = {grammar_.Chars(digits)};
    const auto left = static_cast<uint32_t>(kDigitsMax - at - 1);
    if (at < num_whole_) {
      const auto whole = static_cast<uint32_t>(num_whole_ - at - 1);
      parts.push_back(grammar_.Repeat(any, {.min = whole, .max = whole}));
      const uint32_t fraction = left - whole;
      if (fraction > 0) {
        parts.push_back(grammar_.Optional(grammar_.Sequence(
            {grammar_.Literal("."), grammar_.Repeat(any, {.min = 1, .max = fraction})})));
      }
    } else {
      parts.push_back(grammar_.Repeat(any, {.min = 0, .max = left}));
    }
    alternatives.push_back(grammar_.Sequence(parts));
  }

  Grammar& grammar_;
  const size_t num_whole_;
  const Limit* lower_;
  const Limit* upper_;
};

struct Magnitude {
  Decimal value;
  bool exclusive = false;
};

// Non-negative numbers from `lower` to `upper`, or to kDigitsMax digits if there is no upper bound.
ExprId Magnitudes(Grammar& grammar, const Magnitude& lower, const std::optional<Magnitude>& upper) {
  std::vector<ExprId> alternatives;
  const bool bounded = upper && upper->value.whole.size() <= kDigitsMax;
  const size_t last = bounded ? upper->value.whole.size() : kDigitsMax;
  const NumberDigits::Limit low = {lower.value.whole + lower.value.fraction, lower.exclusive};
  NumberDigits::Limit high;
  if (bounded) high = {upper->value.whole + upper->value.fraction, upper->exclusive};
  for (size_t length = lower.value.whole.size(); length <= last; ++length) {
    NumberDigits digits(grammar, length, length == lower.value.whole.size() ? &low : nullptr,
                        bounded && length == last ? &high : nullptr);
    alternatives.push_back(digits.Make());
  }
  return grammar.Choice(alternatives);
}

std::optional<Magnitude> ToMagnitude(const std::optional<Bound>& bound) {
  if (!bound) return std::nullopt;
  return Magnitude{.value = bound->value, .exclusive = bound->exclusive};
}

}  // namespace

Decimal ToDecimal(int64_t number) {
  std::string digits = std::to_string(number);
  Decimal decimal{.negative = number < 0};
  decimal.whole = number < 0 ? digits.substr(1) : digits;
  return decimal;
}

Decimal ToDecimal(double number) {
  std::array<char, 64> buffer;
  const auto [end, unused] = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                           std::abs(number), std::chars_format::scientific);
  const std::string text(buffer.data(), end);
  const size_t exponent_at = text.find('e');
  std::string digits = text.substr(0, exponent_at);
  std::erase(digits, '.');
  const int exponent = std::stoi(text.substr(exponent_at + 1));
  // The decimal point follows exponent + 1 digits.
  if (exponent < 0) digits.insert(0, static_cast<size_t>(-exponent), '0');
  const size_t num_whole = exponent < 0 ? 1 : static_cast<size_t>(exponent) + 1;
  if (digits.size() < num_whole) digits.resize(num_whole, '0');
  Decimal decimal{.negative = number < 0};
  decimal.whole = digits.substr(0, num_whole);
  decimal.fraction = digits.substr(num_whole);
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  return decimal;
}

Result<ExprId> AddIntegerRange(Grammar& grammar, const NumberRange& range, uint64_t multiple_of) {
  if (multiple_of > kMultipleMax) {
    return MakeError(ErrorCode::kUnsupported, "grammar.schema",
                     fmt::format("multiples of more than {} are not supported", kMultipleMax));
  }
  // Readers compute the quotient in doubles, so multiples must be exact.
  const int64_t most = multiple_of == 1 ? kIntegerMax : kMultipleDigitsMax;
  int64_t lower = -most;
  int64_t upper = most;
  if (range.lower) lower = std::max(lower, ToInteger(*range.lower, true));
  if (range.upper) upper = std::min(upper, ToInteger(*range.upper, false));
  if (lower > upper) return grammar.Nothing();
  IntegerDigits digits(grammar, multiple_of);
  std::vector<ExprId> alternatives;
  if (lower < 0) {
    const int64_t least = upper < 0 ? -upper : 1;
    alternatives.push_back(
        grammar.Sequence({grammar.Literal("-"), Magnitudes(grammar, digits, least, -lower)}));
  }
  if (upper >= 0) {
    alternatives.push_back(Magnitudes(grammar, digits, std::max<int64_t>(lower, 0), upper));
  }
  return grammar.Choice(alternatives);
}

ExprId AddNumberRange(Grammar& grammar, const NumberRange& range) {
  std::vector<ExprId> alternatives;
  const bool lower_negative = !range.lower || range.lower->value.negative;
  const bool upper_negative = range.upper && range.upper->value.negative;
  if (lower_negative) {
    const Magnitude least =
        upper_negative ? *ToMagnitude(range.upper) : Magnitude{.value = {}, .exclusive = true};
    alternatives.push_back(grammar.Sequence(
        {grammar.Literal("-"), Magnitudes(grammar, least, ToMagnitude(range.lower))}));
  }
  if (!upper_negative) {
    const Magnitude least = lower_negative ? Magnitude{} : *ToMagnitude(range.lower);
    alternatives.push_back(Magnitudes(grammar, least, ToMagnitude(range.upper)));
  }
  return grammar.Choice(alternatives);
}

}  // namespace kvgate::grammar::rules
