// Figures as people read them at a terminal, and text of others made safe to show there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::cli::terminal {

// "950", "12.3K", "4.56M", "1.20G": three digits that matter.
std::string Tokens(int64_t count);
// "512 B", "3.4 KiB", "1.2 GiB".
std::string Bytes(int64_t count);
// "$0.000123", "$12.3456", "$1234.57": more decimals the smaller the amount is.
std::string Dollars(int64_t nanodollars);
// "61.4 %"; "-" if `whole` is 0.
std::string Percent(double part, double whole);
// "310 ms", "2.1 s", "4 min", "3 h"; "-" if negative.
std::string Duration(int64_t microseconds);
// "14:32:05", or with the date if `with_date`, in local time.
std::string TimeOfDay(int64_t time_us, bool with_date = false);

// Text that came from elsewhere, for one place of `columns` columns: control characters, which
// could move the cursor or change colours, become "?", and what is too long ends in "..". Counts a
// character of UTF-8 as one column; bytes that are no UTF-8 become "?". Empty text becomes "-".
std::string Shown(std::string_view text, size_t columns);
// The same, filled up with spaces on the right.
std::string Padded(std::string_view text, size_t columns);

// The last `columns` values as a line of bars, "▁▂▅█", each a share of 0 to 1.
std::string Bars(const double* shares, size_t count, size_t columns);

}  // namespace kvgate::cli::terminal
