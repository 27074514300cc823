// Value: the unchecked value of one key, from a file or a flag, and functions that check it. Each
// sets `out`, or returns what is wrong with the value: "must be between 1 and 256, not 0".
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kvgate::config {

using Value =
    std::variant<std::string, int64_t, double, bool, std::vector<std::string>, std::vector<double>>;
// Converts a flag's text to the value that a file would hold.
Value FromText(std::string_view text);

std::optional<std::string> Expect(std::string_view what, const Value& value);

template <typename Int>
std::optional<std::string> SetInteger(const Value& value, int64_t min, int64_t max, Int& out) {
  const int64_t* number = std::get_if<int64_t>(&value);
  if (number == nullptr) return Expect("an integer", value);
  if (*number < min || *number > max) {
    return fmt::format("must be between {} and {}, not {}", min, max, *number);
  }
  out = static_cast<Int>(*number);
  return std::nullopt;
}

std::optional<std::string> SetNumber(const Value& value, double min, double max, double& out);
std::optional<std::string> SetBytes(const Value& value, uint64_t min, uint64_t& out);
// Accepts seconds, from a minute to a century.
std::optional<std::string> SetAge(const Value& value, int64_t& out);
std::optional<std::string> SetBool(const Value& value, bool& out);
std::optional<std::string> SetString(const Value& value, std::string& out);
std::optional<std::string> SetChoice(const Value& value, std::span<const std::string_view> choices,
                                     std::string& out);
// Accepts a short name without characters that need quoting, for labels, headers and records.
std::optional<std::string> SetName(const Value& value, std::string& out);
// The same of 32 letters at most.
std::optional<std::string> SetVersion(const Value& value, std::string& out);
std::optional<std::string> SetUrl(const Value& value, std::string& out);
// The same; empty: none.
std::optional<std::string> SetOptionalUrl(const Value& value, std::string& out);
// The same, of https; http goes to this machine alone, because what is sent names callers.
std::optional<std::string> SetWebhook(const Value& value, std::string& out);
// Accepts ascending numbers, 10 at most, above 0 and up to 1; a flag gives them as "0.5,1".
std::optional<std::string> SetShares(const Value& value, std::vector<double>& out);
std::optional<std::string> SetSha256(const Value& value, std::string& out);
std::optional<std::string> SetStrings(const Value& value, std::vector<std::string>& out);
std::optional<std::string> SetChoices(const Value& value, std::span<const std::string_view> choices,
                                      std::vector<std::string>& out);

}  // namespace kvgate::config
