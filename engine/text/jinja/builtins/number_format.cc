#include "engine/text/jinja/builtins/number_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "base/utf8.h"
#include "engine/text/jinja/runtime/runtime.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::builtins {
namespace {

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

bool ReadNumber(std::string_view text, size_t& at, int64_t& number) {
  const auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (code != std::errc()) return false;
  at = static_cast<size_t>(end - text.data());
  return true;
}

// Turns "1234567" into "1,234,567".
std::string Group(std::string_view digits, char separator, size_t every) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped;
}

std::string Printf(char conversion, int precision, bool alternate, double number) {
  const std::string format = fmt::format("%{}.*{}", alternate ? "#" : "", conversion);
  std::string text(512, '\0');
  for (;;) {
    const int size = std::snprintf(text.data(), text.size(), format.c_str(), precision, number);
    if (static_cast<size_t>(size) < text.size()) {
      text.resize(static_cast<size_t>(size));
      return text;
    }
    text.resize(static_cast<size_t>(size) + 1);
  }
}

}  // namespace

bool ParseFormatSpec(std::string_view text, FormatSpec& spec) {
  size_t at = 0;
  const size_t first = text.empty() ? 0 : value::DecodeAt(text, 0).size;
  if (first > 0 && first < text.size() && IsAlign(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && IsAlign(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  const auto is = [&](char c) { return at < text.size() && text[at] == c; };
  if (is('+') || is('-') || is(' ')) spec.sign = text[at++];
  if (is('#')) spec.alternate = ++at > 0;
  if (is('0')) {
    spec.zero = true;
    ++at;
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
  }
  if (at < text.size() && text[at] >= '0' && text[at] <= '9' && !ReadNumber(text, at, spec.width)) {
    return false;
  }
  if (is(',') || is('_')) spec.grouping = text[at++];
  if (is('.')) {
    ++at;
    const bool digit = at < text.size() && text[at] >= '0' && text[at] <= '9';
    if (!digit || !ReadNumber(text, at, spec.precision)) return false;
  }
  if (at < text.size()) spec.type = text[at++];
  return at == text.size() && spec.width <= kFormatWidthMax && spec.precision <= kFormatWidthMax;
}

std::string IntegerDigits(uint64_t magnitude, const FormatSpec& spec) {
  std::string digits;
  size_t every = 4;
  std::string_view prefix;
  switch (spec.type) {
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      prefix = "0b";
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      prefix = "0o";
      break;
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      prefix = "0X";
      break;
    default:
      digits = fmt::format("{}", magnitude);
      every = 3;
  }
  if (spec.grouping != '\0') digits = Group(digits, spec.grouping, every);
  return spec.alternate ? std::string(prefix) + digits : digits;
}

std::string FloatDigits(double magnitude, const FormatSpec& spec) {
  if (std::isnan(magnitude) || std::isinf(magnitude)) {
    const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
    std::string text = std::isnan(magnitude) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
    return spec.type == '%' ? text + "%" : text;
  }
  std::string text;
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  if (spec.type == '%') {
    text = Printf('f', precision, spec.alternate, magnitude * 100) + "%";
  } else if (spec.type == '\0' && spec.precision < 0) {
    text = FloatText(magnitude);
  } else if (spec.type == '\0') {
    // Like g, but with at least one digit after the point, as in str().
    text = Printf('g', std::max(precision, 1), false, magnitude);
    const bool exponent = text.find('e') != std::string::npos;
    if (!exponent && text.find('.') == std::string::npos) {
      const bool fits = static_cast<int64_t>(text.size()) < std::max<int64_t>(precision, 1);
      text = fits ? text + ".0" : Printf('e', std::max(precision, 1) - 1, false, magnitude);
    }
  } else {
    const char conversion = spec.type == 'n' ? 'g' : spec.type;
    const int digits = (conversion | 0x20) == 'g' ? std::max(precision, 1) : precision;
    text = Printf(conversion, digits, spec.alternate, magnitude);
  }
  if (spec.grouping == '\0') return text;
  const size_t whole = text.find_first_not_of("0123456789");
  return Group(text.substr(0, whole), spec.grouping, 3) +
         (whole == std::string::npos ? "" : text.substr(whole));
}

std::string Pad(std::string_view sign, std::string_view body, const FormatSpec& spec,
                char default_align) {
  const char align = spec.align == '\0' ? default_align : spec.align;
  const auto used = static_cast<int64_t>(CountUtf8Characters(sign) + CountUtf8Characters(body));
  const int64_t missing = std::max<int64_t>(spec.width - used, 0);
  const int64_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  std::string text;
  const auto fill = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) text += spec.fill;
  };
  fill(before);
  text += sign;
  if (align == '=') fill(missing);
  text += body;
  if (align != '=') fill(missing - before);
  return text;
}

}  // namespace kvgate::jinja::builtins
