#include "gateway/cli/terminal/figures.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "base/utf8.h"

namespace kvgate::cli::terminal {
namespace {

constexpr std::string_view kReplacement = "?";

// Three digits that matter: "1.23", "12.3", "123".
std::string ThreeDigits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

// True for what could move the cursor, change colours, or turn the direction of what follows.
bool IsControl(char32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x200e ||
         character == 0x200f || (character >= 0x2028 && character <= 0x202e) ||
         (character >= 0x2066 && character <= 0x2069);
}

}  // namespace

std::string Tokens(int64_t count) {
  const auto value = static_cast<double>(count);
  if (count < 1000) return fmt::format("{}", count);
  if (value < 999'500) return ThreeDigits(value / 1e3) + "K";
  if (value < 999'500'000) return ThreeDigits(value / 1e6) + "M";
  return ThreeDigits(value / 1e9) + "G";
}

std::string Bytes(int64_t count) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(count);
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", count)
                   : fmt::format("{:.{}f} {}", value, value < 9.95 ? 1 : 0, kUnits[unit]);
}

std::string Dollars(int64_t nanodollars) {
  const double dollars = static_cast<double>(nanodollars) / 1e9;
  const double size = std::abs(dollars);
  return fmt::format("{}${:.{}f}", dollars < 0 ? "-" : "", size,
                     size < 10     ? 6
                     : size < 1000 ? 4
                                   : 2);
}

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

std::string Duration(int64_t microseconds) {
  if (microseconds < 0) return "-";
  const double seconds = static_cast<double>(microseconds) / 1e6;
  if (seconds < 0.9995) return ThreeDigits(seconds * 1e3) + " ms";
  if (seconds < 99.95) return ThreeDigits(seconds) + " s";
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return seconds < 172'800 ? fmt::format("{:.0f} h", seconds / 3600)
                           : fmt::format("{:.0f} d", seconds / 86'400);
}

std::string TimeOfDay(int64_t time_us, bool with_date) {
  const std::tm time = fmt::localtime(static_cast<std::time_t>(time_us / 1'000'000));
  return with_date ? fmt::format("{:%F %T}", time) : fmt::format("{:%T}", time);
}

std::string Shown(std::string_view text, size_t columns) {
  if (text.empty()) return "-";
  std::string shown;
  size_t fitting = 0;  // bytes of `shown` that leave room for two dots
  for (size_t used = 0; !text.empty(); ++used) {
    if (used == columns) {
      if (columns < 2) return std::string(columns, '.');
      return shown.substr(0, fitting) + "..";
    }
    if (used + 2 == columns) fitting = shown.size();
    const Utf8Step step = NextUtf8(text);
    const bool is_plain = step.status == Utf8Status::kValid && !IsControl(step.code_point);
    shown += is_plain ? text.substr(0, step.length) : kReplacement;
    text.remove_prefix(step.length);
  }
  return shown;
}

std::string Padded(std::string_view text, size_t columns) {
  std::string shown = Shown(text, columns);
  const size_t used = CountUtf8Characters(shown);
  shown.append(columns > used ? columns - used : 0, ' ');
  return shown;
}

std::string Bars(const double* shares, size_t count, size_t columns) {
  constexpr std::array<const char*, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string bars;
  for (size_t i = count > columns ? count - columns : 0; i < count; ++i) {
    const double share = std::clamp(shares[i], 0.0, 1.0);
    bars += kBars[std::min<size_t>(static_cast<size_t>(share * kBars.size()), kBars.size() - 1)];
  }
  return bars;
}

}  // namespace kvgate::cli::terminal
