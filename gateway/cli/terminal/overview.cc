#include "gateway/cli/terminal/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "gateway/cli/terminal/figures.h"
#include "gateway/cli/terminal/json_field.h"

namespace kvgate::cli::terminal {
namespace {

using Json = nlohmann::json;

// Input tokens of a sum: of the last minute, or of all time.
struct Input {
  int64_t cached = 0;
  int64_t total = 0;
};
Input MinuteInput(const Json& minute) {
  const int64_t cached = CountOf(minute, "cached_tokens");
  return {cached, cached + CountOf(minute, "written_tokens") + CountOf(minute, "uncached_tokens")};
}
Input TotalInput(const Json& totals) {
  const int64_t cached = CountOf(totals, "cache_read_tokens");
  return {cached,
          cached + CountOf(totals, "cache_write_tokens") + CountOf(totals, "uncached_tokens")};
}
std::string Rate(const Input& input) {
  return Percent(static_cast<double>(input.cached), static_cast<double>(input.total));
}

}  // namespace

void Overview::TakeEvent(std::string_view name, Json data) {
  if (!data.is_object()) return;
  if (name == "request") {
    records_.push_front(std::move(data));
    if (records_.size() > kRecordsMax) records_.pop_back();
  } else if (name == "dropped") {
    num_dropped_ += CountOf(data, "count");
  } else if (name == "stats") {
    const Input input = MinuteInput(FieldOf(data, "minute"));
    rates_.push_back(
        input.total > 0 ? static_cast<double>(input.cached) / static_cast<double>(input.total) : 0);
    if (rates_.size() > kRatesMax) rates_.erase(rates_.begin());
    now_ = std::move(data);
  }
}

void Overview::AddHead(const TextArgs& args, int64_t now_us,
                       std::vector<std::string>& lines) const {
  const Json minute = FieldOf(now_, "minute");
  const Json totals = FieldOf(FieldOf(stats_, "ledger"), "totals");
  // Only an admin sees what others do; a number that is not told is not shown.
  std::string load;
  for (const auto& [name, field] : std::initializer_list<std::pair<const char*, const char*>>{
           {"running", "requests_running"},
           {"waiting", "requests_waiting"},
           {"at upstreams", "requests_active"},
           {"connections", "connections"}}) {
    const int64_t count = CountOf(now_, field, -1);
    if (count >= 0) load += fmt::format("{}{} {}", load.empty() ? "" : ", ", count, name);
  }
  lines.push_back(Styled("kvgate", Style::kBold, args.is_styled) +
                  fmt::format("  {}   {}{}{}", Shown(address_, 60), load, load.empty() ? "" : "   ",
                              TimeOfDay(now_us)));
  lines.emplace_back();
  lines.push_back(fmt::format("hit rate   last minute {:>7}  {}", Rate(MinuteInput(minute)),
                              Bars(rates_.data(), rates_.size(), kRatesMax)));
  lines.push_back(fmt::format("           in all      {:>7}  {} of {} tokens",
                              Rate(TotalInput(totals)), Tokens(TotalInput(totals).cached),
                              Tokens(TotalInput(totals).total)));
  lines.push_back(fmt::format("minute     {} requests, {} failed; {} tokens in, {} out",
                              CountOf(minute, "requests"), CountOf(minute, "failed"),
                              Tokens(MinuteInput(minute).total),
                              Tokens(CountOf(minute, "output_tokens"))));
  lines.push_back(fmt::format(
      "cost       last minute {}, without a cache {}; in all {} of {}",
      Dollars(CountOf(minute, "nanodollars")), Dollars(CountOf(minute, "uncached_nanodollars")),
      Dollars(CountOf(totals, "nanodollars")), Dollars(CountOf(totals, "uncached_nanodollars"))));
}

void Overview::AddTiers(std::vector<std::string>& lines) const {
  std::string line;
  for (const Json& tier : FieldOf(now_, "tiers")) {
    const int64_t capacity = CountOf(tier, "capacity_bytes");
    if (capacity <= 0) continue;
    line += fmt::format(
        "{}{} {} of {} ({})", line.empty() ? "" : "   ", Shown(TextOf(tier, "tier"), 10),
        Bytes(CountOf(tier, "used_bytes")), Bytes(capacity),
        Percent(static_cast<double>(CountOf(tier, "used_bytes")), static_cast<double>(capacity)));
  }
  if (!line.empty()) lines.push_back("KV         " + line);
}

void Overview::AddClocks(const TextArgs& args, int64_t now_us, size_t count_max,
                         std::vector<std::string>& lines) const {
  std::vector<std::string> rows;
  for (const Json& clock : FieldOf(FieldOf(stats_, "ledger"), "clocks")) {
    const int64_t left_us = CountOf(clock, "expires_us") - now_us;
    if (left_us <= 0) continue;  // it has gone cold since
    if (rows.size() == count_max) break;
    const std::string session = TextOf(clock, "session");
    std::string row =
        fmt::format("  {} {} {} {:>8} {:>9} {:>12}",
                    Padded(session.empty() ? TextOf(clock, "conversation") : session, 28),
                    Padded(TextOf(clock, "model"), 22), Padded(TextOf(clock, "upstream"), 10),
                    Tokens(CountOf(clock, "tokens")), Duration(left_us),
                    Dollars(CountOf(clock, "cold_nanodollars")));
    const bool is_soon = left_us < int64_t{60} * 1'000'000;
    rows.push_back(
        Styled(std::move(row), is_soon ? Style::kWarning : Style::kPlain, args.is_styled));
  }
  if (rows.empty()) return;
  lines.emplace_back();
  lines.push_back(
      Styled(fmt::format("  {:<28} {:<22} {:<10} {:>8} {:>9} {:>12}", "CACHES THAT ARE WARM",
                         "MODEL", "UPSTREAM", "TOKENS", "COLD IN", "THEN COSTS"),
             Style::kDim, args.is_styled));
  lines.insert(lines.end(), rows.begin(), rows.end());
}

void Overview::AddRecords(const TextArgs& args, size_t count_max,
                          std::vector<std::string>& lines) const {
  lines.emplace_back();
  lines.push_back(RecordHeading(args));
  if (records_.empty()) lines.emplace_back("no request has ended yet");
  for (size_t i = 0; i < std::min(records_.size(), count_max); ++i) {
    lines.push_back(RecordLine(records_[i], args));
  }
}

std::vector<std::string> Overview::Lines(ScreenSize size, bool is_styled, int64_t now_us) const {
  const TextArgs args = {.columns = size.columns, .is_styled = is_styled};
  std::vector<std::string> lines;
  AddHead(args, now_us, lines);
  AddTiers(lines);
  AddClocks(args, now_us, size.rows / 4, lines);
  const size_t used = lines.size() + 4;  // a heading, the foot
  AddRecords(args, size.rows > used ? size.rows - used : 0, lines);
  while (lines.size() + 1 < size.rows) lines.emplace_back();
  std::string foot = "q ends";
  if (num_dropped_ > 0) foot += fmt::format("   {} requests came too fast to show", num_dropped_);
  lines.push_back(Styled(std::move(foot), Style::kDim, is_styled));
  return lines;
}

}  // namespace kvgate::cli::terminal
