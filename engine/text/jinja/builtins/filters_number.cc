// Filters that return numbers, and Python's int() and float() of text.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::Runtime;
using value::MakeFailed;
using value::MakeFloat;
using value::MakeInt;
using value::Tag;
using value::Value;

namespace {

std::string_view TrimBlanks(std::string_view text) {
  while (!text.empty() && value::IsSpace(value::DecodeAt(text, 0).code)) {
    text.remove_prefix(value::DecodeAt(text, 0).size);
  }
  while (!text.empty()) {
    const size_t last = value::CharacterBefore(text, text.size());
    if (!value::IsSpace(value::DecodeAt(text, last).code)) break;
    text = text.substr(0, last);
  }
  return text;
}

// Removes underscores between digits. Returns false if one is elsewhere.
bool DropUnderscores(std::string_view text, std::string& plain) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain += text[i];
      continue;
    }
    const auto is_digit = [&](size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return false;
  }
  return true;
}

Value Abs(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.is(Tag::kFloat)) return MakeFloat(std::abs(value.number));
  if (value.is_integer()) {
    return value.as_integer() < 0 ? runtime.Negative(value) : MakeInt(value.as_integer());
  }
  if (value.is(Tag::kUndefined)) return runtime.FailUndefined(value);
  return runtime.Fail(fmt::format("bad operand type for abs(): '{}'", value::TypeName(value)));
}

// int(number). Returns nothing for NaN and infinity, and fails if the result exceeds 64 bits.
std::optional<Value> Truncated(Runtime& runtime, double number) {
  if (!std::isfinite(number)) return std::nullopt;
  if (std::abs(number) >= 9.2e18) return runtime.Fail("the integer does not fit in 64 bits");
  return MakeInt(static_cast<int64_t>(number));
}

Value ToInt(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value fallback = arguments.positional[0].missing() ? MakeInt(0) : arguments.positional[0];
  const auto base = IntegerArgument(runtime, arguments.positional[1], 10);
  if (!base) return MakeFailed();
  if (value.is_integer()) return MakeInt(value.as_integer());
  if (value.is(Tag::kBigInteger)) return value;
  if (value.is(Tag::kUndefined)) return runtime.FailUndefined(value);
  std::optional<double> number;
  if (value.is(Tag::kFloat)) number = value.number;
  if (value.is_string()) {
    if (!runtime.ChargeBytes(value.string->size)) return MakeFailed();
    if (const auto whole = ParseInteger(value.text(), *base); whole) return MakeInt(*whole);
    number = ParseFloat(value.text());
  }
  if (!number) return fallback;
  const auto whole = Truncated(runtime, *number);
  return whole ? *whole : fallback;
}

Value ToFloat(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value fallback = arguments.positional[0].missing() ? MakeFloat(0) : arguments.positional[0];
  if (value.is_number()) return MakeFloat(value.as_double());
  if (value.is(Tag::kUndefined)) return runtime.FailUndefined(value);
  const bool text = value.is_string() || value.is(Tag::kBigInteger);
  if (text && !runtime.ChargeBytes(value.string->size)) return MakeFailed();
  const auto number = text ? ParseFloat(value.text()) : std::nullopt;
  return number ? MakeFloat(*number) : fallback;
}

// round(number, digits) as in Python: rounds the exact binary value.
double RoundTo(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 320) return number;
  if (digits < -310) return std::copysign(0.0, number);
  if (digits >= 0) {
    char buffer[720];
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(digits), number);
    return std::strtod(buffer, nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(number / scale) * scale;
}

Value RoundInteger(Runtime& runtime, int64_t number, int64_t digits) {
  if (digits >= 0) return MakeInt(number);
  if (digits < -18) return MakeInt(0);
  int64_t scale = 1;
  for (int64_t i = digits; i < 0; ++i) scale *= 10;
  const int64_t rest = ((number % scale) + scale) % scale;
  const int64_t low = number - rest;
  const bool up = rest * 2 > scale || (rest * 2 == scale && (low / scale) % 2 != 0);
  return runtime.Binary(syntax::BinaryOperator::kAdd, MakeInt(low), MakeInt(up ? scale : 0));
}

Value Round(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto digits = IntegerArgument(runtime, arguments.positional[0], 0);
  if (!digits) return MakeFailed();
  const Value& method = arguments.positional[1];
  const std::string_view name = method.missing()     ? "common"
                                : method.is_string() ? method.text()
                                                     : std::string_view();
  if (name != "common" && name != "ceil" && name != "floor") {
    return runtime.Fail("method must be common, ceil or floor");
  }
  if (value.is(Tag::kUndefined)) return runtime.FailUndefined(value);
  if (!value.is_number()) {
    return runtime.Fail(
        fmt::format("type {} doesn't define __round__ method", value::TypeName(value)));
  }
  if (name == "common") {
    return value.is_integer() ? RoundInteger(runtime, value.as_integer(), *digits)
                              : MakeFloat(RoundTo(value.number, *digits));
  }
  const Value scale = runtime.Binary(syntax::BinaryOperator::kPower, MakeInt(10), MakeInt(*digits));
  if (scale.failed()) return scale;
  const double scaled = value.as_double() * scale.as_double();
  if (!std::isfinite(scaled)) return runtime.Fail("cannot convert float infinity to integer");
  const double whole = name == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return MakeFloat((whole == 0 ? 0.0 : whole) / scale.as_double());
}

Value Sum(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto items = runtime.Iterate(value);
  if (!items) return MakeFailed();
  const AttributePath path(runtime, arguments.positional[0]);
  Value sum = arguments.positional[1].missing() ? MakeInt(0) : arguments.positional[1];
  if (sum.is_string()) return runtime.Fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : *items) {
    const Value part = path.Get(runtime, item);
    if (part.failed() || !runtime.Charge(1)) return MakeFailed();
    sum = runtime.Binary(syntax::BinaryOperator::kAdd, sum, part);
    if (sum.failed()) return sum;
  }
  return sum;
}

Value FileSize(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const bool binary = !arguments.positional[0].missing() && value::IsTrue(arguments.positional[0]);
  std::optional<double> bytes;
  if (value.is_number()) bytes = value.as_double();
  if (value.is_string()) bytes = ParseFloat(value.text());
  if (!bytes) return runtime.Fail("filesizeformat wants a number");
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return runtime.MakeText("1 Byte");
  if (*bytes < base) return runtime.MakeText(fmt::format("{:.0f} Bytes", std::trunc(*bytes)));
  constexpr std::string_view kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  constexpr std::string_view kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  double unit = base;
  size_t index = 0;
  for (unit *= base; index + 1 < std::size(kBinary) && *bytes >= unit; ++index) unit *= base;
  return runtime.MakeText(
      fmt::format("{:.1f} {}", base * *bytes / unit, binary ? kBinary[index] : kDecimal[index]));
}

constexpr runtime::FunctionSpec kFilters[] = {
    {"abs", "", Abs},
    {"int", "default? base?", ToInt},
    {"float", "default?", ToFloat},
    {"round", "precision? method?", Round},
    {"sum", "attribute? start?", Sum},
    {"filesizeformat", "binary?", FileSize},
};

}  // namespace

std::span<const runtime::FunctionSpec> NumberFilters() { return kFilters; }

std::optional<int64_t> ParseInteger(std::string_view text, int64_t base) {
  text = TrimBlanks(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  constexpr std::pair<char, int64_t> kPrefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
  bool prefixed = false;
  for (const auto& [letter, of_base] : kPrefixes) {
    const bool has = text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == letter;
    if (!has || (base != of_base && base != 0)) continue;
    base = of_base;
    text.remove_prefix(text[2] == '_' ? 3 : 2);
    prefixed = true;
    break;
  }
  if (base == 0) {
    const bool zeros = text.find_first_not_of("0_") == std::string_view::npos;
    if (!prefixed && text.size() > 1 && text[0] == '0' && !zeros) return std::nullopt;
    base = 10;
  }
  std::string digits = negative ? "-" : "";
  if (text.empty() || base < 2 || base > 36 || text[0] == '-' || text[0] == '+')
    return std::nullopt;
  if (!DropUnderscores(text, digits)) return std::nullopt;
  int64_t number = 0;
  const auto [end, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, static_cast<int>(base));
  if (code != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::optional<double> ParseFloat(std::string_view text) {
  text = TrimBlanks(text);
  std::string plain;
  if (!DropUnderscores(text, plain) || plain.empty()) return std::nullopt;
  const size_t sign = plain[0] == '-' || plain[0] == '+' ? 1 : 0;
  std::string lower = plain.substr(sign);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const double factor = plain[0] == '-' ? -1.0 : 1.0;
  if (lower == "inf" || lower == "infinity") return factor * HUGE_VAL;
  if (lower == "nan") return std::nan("");
  const bool decimal =
      !lower.empty() && lower.find_first_not_of("0123456789.e+-") == std::string::npos;
  if (!decimal || lower[0] == '+' || lower[0] == '-') return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(lower.c_str(), &end);
  if (end != lower.c_str() + lower.size()) return std::nullopt;
  return factor * number;
}

}  // namespace kvgate::jinja::builtins
