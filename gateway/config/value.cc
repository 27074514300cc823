#include "gateway/config/value.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "gateway/config/config.h"
#include "gateway/config/nearest.h"

namespace kvgate::config {
namespace {

std::string_view TypeName(const Value& value) {
  static constexpr std::string_view kNames[] = {"a string",  "an integer", "a number",
                                                "a boolean", "an array",   "an array of numbers"};
  return kNames[value.index()];
}

}  // namespace

std::optional<std::string> Expect(std::string_view what, const Value& value) {
  return fmt::format("must be {}, not {}", what, TypeName(value));
}

std::optional<std::string> SetNumber(const Value& value, double min, double max, double& out) {
  double number = 0;
  if (const int64_t* whole = std::get_if<int64_t>(&value)) {
    number = static_cast<double>(*whole);
  } else if (const double* real = std::get_if<double>(&value)) {
    number = *real;
  } else if (const std::string* text = std::get_if<std::string>(&value)) {  // a flag's: "0.5"
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (code != std::errc() || end != text->data() + text->size()) return Expect("a number", value);
  } else {
    return Expect("a number", value);
  }
  if (!(number >= min && number <= max)) {
    return fmt::format("must be between {} and {}, not {}", min, max, number);
  }
  out = number;
  return std::nullopt;
}

std::optional<std::string> SetBytes(const Value& value, uint64_t min, uint64_t& out) {
  uint64_t bytes = 0;
  if (const int64_t* number = std::get_if<int64_t>(&value); number != nullptr && *number >= 0) {
    bytes = static_cast<uint64_t>(*number);
  } else if (const std::string* text = std::get_if<std::string>(&value)) {
    const Result<uint64_t> parsed = ParseBytes(*text);
    if (!parsed) return parsed.error().detail;
    bytes = *parsed;
  } else {
    return Expect("a size like \"1GiB\"", value);
  }
  if (bytes < min) return fmt::format("must be at least {} bytes, not {}", min, bytes);
  out = bytes;
  return std::nullopt;
}

std::optional<std::string> SetAge(const Value& value, int64_t& out) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return Expect("a time like \"30d\"", value);
  const Result<int64_t> parsed = ParseSeconds(*text);
  if (!parsed) return parsed.error().detail;
  if (*parsed < 60 || *parsed > 36'500 * int64_t{86'400}) {
    return fmt::format("must be between \"1m\" and \"36500d\", not \"{}\"", *text);
  }
  out = *parsed;
  return std::nullopt;
}

std::optional<std::string> SetBool(const Value& value, bool& out) {
  const bool* flag = std::get_if<bool>(&value);
  if (flag == nullptr) return Expect("true or false", value);
  out = *flag;
  return std::nullopt;
}

std::optional<std::string> SetString(const Value& value, std::string& out) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return Expect("a string", value);
  out = *text;
  return std::nullopt;
}

std::optional<std::string> SetChoice(const Value& value, std::span<const std::string_view> choices,
                                     std::string& out) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return Expect("a string", value);
  if (std::find(choices.begin(), choices.end(), *text) == choices.end()) {
    return fmt::format("must be one of {}, not \"{}\"{}", fmt::join(choices, ", "), *text,
                       DidYouMean(*text, choices));
  }
  out = *text;
  return std::nullopt;
}

namespace {

std::optional<std::string> SetPlain(const Value& value, size_t bytes_max, std::string& out) {
  if (auto problem = SetString(value, out)) return problem;
  const bool plain = std::all_of(out.begin(), out.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (out.empty() || out.size() > bytes_max || !plain) {
    return fmt::format("must be 1 to {} letters, digits, '-', '_' or '.', not \"{}\"", bytes_max,
                       out);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> SetName(const Value& value, std::string& out) {
  return SetPlain(value, 64, out);
}

std::optional<std::string> SetVersion(const Value& value, std::string& out) {
  return SetPlain(value, 32, out);
}

std::optional<std::string> SetUrl(const Value& value, std::string& out) {
  if (auto problem = SetString(value, out)) return problem;
  if (const Result<Url> url = ParseUrl(out); !url) return url.error().detail;
  return std::nullopt;
}

std::optional<std::string> SetOptionalUrl(const Value& value, std::string& out) {
  if (const auto* text = std::get_if<std::string>(&value); text != nullptr && text->empty()) {
    out.clear();
    return std::nullopt;
  }
  return SetUrl(value, out);
}

std::optional<std::string> SetWebhook(const Value& value, std::string& out) {
  if (auto problem = SetOptionalUrl(value, out)) return problem;
  if (out.empty()) return std::nullopt;
  const Result<Url> url = ParseUrl(out);
  const bool is_local = url && HostPort{.host = url->host, .port = url->port}.is_loopback();
  if (url && !url->tls && !is_local) return "must be https, because its host is another machine";
  return std::nullopt;
}

std::optional<std::string> SetShares(const Value& value, std::vector<double>& out) {
  constexpr size_t kSharesMax = 10;
  std::vector<double> shares;
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    shares = *numbers;
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value);
             strings == nullptr || !strings->empty()) {
    std::string_view rest;
    std::string text;  // of a flag, which may look like one number
    if (const auto* whole = std::get_if<std::string>(&value)) text = *whole;
    if (const auto* integer = std::get_if<int64_t>(&value)) text = fmt::format("{}", *integer);
    if (text.empty()) return Expect("an array of numbers", value);
    for (rest = text; !rest.empty();) {
      const std::string_view part = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), part.size() + 1));
      double share = 0;
      if (auto problem = SetNumber(Value(std::string(part)), 0, 1, share)) return problem;
      shares.push_back(share);
    }
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    const double above = i == 0 ? 0 : shares[i - 1];
    if (!(shares[i] > above && shares[i] <= 1)) {
      return fmt::format("must be ascending, above 0 and at most 1; {} is not", shares[i]);
    }
  }
  if (shares.size() > kSharesMax) return fmt::format("must be {} numbers at most", kSharesMax);
  out = std::move(shares);
  return std::nullopt;
}

std::optional<std::string> SetSha256(const Value& value, std::string& out) {
  if (auto problem = SetString(value, out)) return problem;
  const bool hex =
      std::all_of(out.begin(), out.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (out.size() != 64 || !hex) return "must be 64 hex digits: the SHA-256 of the key";
  return std::nullopt;
}

std::optional<std::string> SetStrings(const Value& value, std::vector<std::string>& out) {
  const auto* strings = std::get_if<std::vector<std::string>>(&value);
  if (strings == nullptr) return Expect("an array of strings", value);
  out = *strings;
  return std::nullopt;
}

std::optional<std::string> SetChoices(const Value& value, std::span<const std::string_view> choices,
                                      std::vector<std::string>& out) {
  if (auto problem = SetStrings(value, out)) return problem;
  for (const std::string& chosen : out) {
    std::string same;
    if (auto problem = SetChoice(Value(chosen), choices, same)) return problem;
  }
  return std::nullopt;
}

Value FromText(std::string_view text) {
  int64_t integer = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), integer);
  if (code == std::errc() && end == text.data() + text.size()) return integer;
  if (text == "true") return true;
  if (text == "false") return false;
  return std::string(text);
}

}  // namespace kvgate::config
