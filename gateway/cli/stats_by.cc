#include "gateway/cli/stats_by.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gateway/cli/ledger_source.h"
#include "gateway/cli/terminal/figures.h"
#include "gateway/cli/terminal/json_field.h"
#include "gateway/ledger/ledger.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

constexpr int64_t kSecondUs = 1'000'000;
constexpr std::string_view kUsualSpan = "30d";
constexpr int64_t kPageRecords = 500;
constexpr size_t kNameColumns = 36;

int64_t InputOf(const Json& row) {
  return terminal::CountOf(row, "cached_tokens") + terminal::CountOf(row, "written_tokens") +
         terminal::CountOf(row, "uncached_tokens");
}

std::string HitRate(const Json& row) {
  return terminal::Percent(static_cast<double>(terminal::CountOf(row, "cached_tokens")),
                           static_cast<double>(InputOf(row)));
}

std::string NameOf(const Json& row, bool is_day) {
  if (!is_day) return terminal::TextOf(row, "name");
  const auto time = static_cast<std::time_t>(terminal::CountOf(row, "time_us") / kSecondUs);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(time));
}

void PrintRows(const Json& rows, const std::string& by) {
  const bool is_day = by == "day";
  const bool has_requests = by != "source" && by != "tool" && by != "server";
  fmt::print("{:<36} {:>9} {:>7} {:>12} {:>12} {:>12} {:>10} {:>11}\n", by, "requests", "hit",
             "cached", "written", "uncached", "output", "cost");
  for (const Json& row : rows) {
    fmt::print("{} {:>9} {:>7} {:>12} {:>12} {:>12} {:>10} {:>11}\n",
               terminal::Padded(NameOf(row, is_day), kNameColumns),
               has_requests ? fmt::format("{}", terminal::CountOf(row, "requests")) : "",
               HitRate(row), terminal::CountOf(row, "cached_tokens"),
               terminal::CountOf(row, "written_tokens"), terminal::CountOf(row, "uncached_tokens"),
               has_requests ? fmt::format("{}", terminal::CountOf(row, "output_tokens")) : "",
               terminal::Dollars(terminal::CountOf(row, "nanodollars")));
  }
}

void PrintBreaks(const Json& rows) {
  fmt::print("{:<36} {:>9} {:>14} {:>14}\n", "break", "requests", "tokens lost", "lost");
  for (const Json& row : rows) {
    fmt::print("{} {:>9} {:>14} {:>14}\n",
               terminal::Padded(terminal::TextOf(row, "name"), kNameColumns),
               terminal::CountOf(row, "breaks"), terminal::CountOf(row, "lost_tokens"),
               terminal::Dollars(terminal::CountOf(row, "lost_nanodollars")));
  }
}

// The dearest first, then those with most tokens; days stay in their order.
void Sort(Json& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    const int64_t cost_a =
        terminal::CountOf(a, "nanodollars") + terminal::CountOf(a, "lost_nanodollars");
    const int64_t cost_b =
        terminal::CountOf(b, "nanodollars") + terminal::CountOf(b, "lost_nanodollars");
    if (cost_a != cost_b) return cost_a > cost_b;
    return InputOf(a) + terminal::CountOf(a, "lost_tokens") >
           InputOf(b) + terminal::CountOf(b, "lost_tokens");
  });
}

Result<std::string> Sums(const LedgerSource& source, const std::string& by, int64_t from_us) {
  const bool is_day = by == "day";
  const std::string step = is_day ? "day" : "all";
  const std::string dimension = is_day ? "total" : by;
  const auto named = ledger::rollup::ParseBy(dimension);
  if (!named) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("--by cannot be '{}': there are day, source, model, upstream, "
                                 "tenant, key, session, prompt, prompt_version, break, tool and "
                                 "server",
                                 by));
  }
  return source.Get(
      fmt::format("/kvgate/v1/stats?step={}&by={}&from_us={}", step, dimension, from_us),
      [&](ledger::Ledger& ledger) {
        return ledger.Rollups(
            {.step = ledger::rollup::ParseStep(step), .by = *named, .from_us = from_us});
      });
}

// Quoted where it has to be. A text that a spreadsheet would compute begins with a quote.
std::string Field(std::string text) {
  if (!text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos) {
    text.insert(0, 1, '\'');
  }
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') quoted += c;
  }
  return quoted + '"';
}

// The columns of a record in CSV, as pointers into its JSON.
constexpr std::pair<const char*, const char*> kColumns[] = {
    {"id", "/id"},
    {"time_us", "/time_us"},
    {"tenant", "/tenant"},
    {"key", "/key"},
    {"session", "/session"},
    {"conversation", "/conversation/id"},
    {"prompt", "/prompt"},
    {"prompt_name", "/named_prompt/name"},
    {"prompt_version", "/named_prompt/version"},
    {"upstream", "/upstream"},
    {"model", "/model"},
    {"asked_model", "/asked_model"},
    {"dialect", "/dialect"},
    {"endpoint", "/endpoint"},
    {"status", "/status"},
    {"outcome", "/outcome"},
    {"stream", "/stream"},
    {"input_tokens", "/usage/input_tokens"},
    {"cache_read_tokens", "/usage/cache_read_tokens"},
    {"cache_write_tokens", "/usage/cache_write_tokens"},
    {"cache_write_1h_tokens", "/usage/cache_write_1h_tokens"},
    {"uncached_tokens", "/usage/uncached_tokens"},
    {"output_tokens", "/usage/output_tokens"},
    {"nanodollars", "/cost/nanodollars"},
    {"uncached_nanodollars", "/cost/uncached_nanodollars"},
    {"direct_nanodollars", "/cost/direct_nanodollars"},
    {"queue_us", "/timings/queue_us"},
    {"ttft_us", "/timings/ttft_us"},
    {"tpot_us", "/timings/tpot_us"},
    {"total_us", "/timings/total_us"},
    {"break", "/break/cause"},
    {"lost_tokens", "/break/lost_tokens"},
};

std::string CsvLine(const Json& record) {
  std::string line;
  for (const auto& [name, pointer] : kColumns) {
    if (!line.empty() || name != kColumns[0].first) line += ',';
    const Json::json_pointer at(pointer);
    const Json value = record.contains(at) ? record.at(at) : Json();
    if (value.is_null()) continue;
    line += value.is_string() ? Field(value.get<std::string>()) : value.dump();
  }
  return line;
}

std::string CsvHead() {
  std::string line;
  for (const auto& [name, pointer] : kColumns)
    line += (line.empty() ? "" : ",") + std::string(name);
  return line;
}

// Calls `write` with each record's JSON, newest first, until it returns false.
Result<void> ForEachRecord(const LedgerSource& source, int64_t since_us,
                           const std::function<bool(const Json&)>& write) {
  ledger::Ledger::ListArgs args{.limit = kPageRecords};
  KVGATE_TRY_VOID(args.filter.Take("since_us", fmt::format("{}", since_us)));
  while (true) {
    KVGATE_TRY(const std::string body,
               source.Get(fmt::format("/kvgate/v1/requests?limit={}&since_us={}&before={}",
                                      kPageRecords, since_us, args.before),
                          [&](ledger::Ledger& ledger) { return ledger.List(args); }));
    const Json page = Json::parse(body, nullptr, false);
    if (!page.is_object() || !page.contains("data")) {
      return MakeError(ErrorCode::kUnavailable, "cli", "the answer has no records");
    }
    for (const Json& record : page["data"]) {
      if (!write(record)) return {};
      args.before = record.value("id", "");
    }
    if (page["data"].empty() || !page.value("has_more", false)) return {};
  }
}

}  // namespace

Result<int64_t> ParseSpan(std::string_view text) {
  int64_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const int64_t seconds = unit == "d"   ? 86'400
                          : unit == "h" ? 3'600
                          : unit == "m" ? 60
                          : unit == "s" ? 1
                                        : 0;
  constexpr int64_t kCountMax = 1'000'000;
  if (code != std::errc() || seconds == 0 || count <= 0 || count > kCountMax) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("--since cannot be '{}': say 7d, 36h, 90m or 45s", text));
  }
  return count * seconds * kSecondUs;
}

Result<int> StatsBy(const StatsByArgs& args) {
  KVGATE_TRY(const int64_t span_us, ParseSpan(args.since.empty() ? kUsualSpan : args.since));
  KVGATE_TRY(const LedgerSource source, LedgerSource::Open(args.config, args.target));
  KVGATE_TRY(const std::string body, Sums(source, args.by, WallClock::NowUs() - span_us));
  Json sums = Json::parse(body, nullptr, false);
  if (!sums.is_object() || !sums.contains("data")) {
    return MakeError(ErrorCode::kUnavailable, "cli", "the answer has no sums");
  }
  if (args.by != "day") Sort(sums["data"]);
  if (args.json) {
    fmt::print("{}\n", sums.dump());
  } else if (sums["data"].empty()) {
    fmt::print("no requests yet\n");
  } else if (args.by == "break") {
    PrintBreaks(sums["data"]);
  } else {
    PrintRows(sums["data"], args.by);
  }
  return 0;
}

Result<int> ExportRecords(const ExportArgs& args) {
  int64_t since_us = 0;
  if (!args.since.empty()) {
    KVGATE_TRY(const int64_t span_us, ParseSpan(args.since));
    since_us = WallClock::NowUs() - span_us;
  }
  KVGATE_TRY(const LedgerSource source, LedgerSource::Open(args.config, args.target));
  if (args.csv) fmt::print("{}\n", CsvHead());
  KVGATE_TRY_VOID(ForEachRecord(source, since_us, [&](const Json& record) {
    fmt::print("{}\n", args.csv ? CsvLine(record) : record.dump());
    return std::ferror(stdout) == 0;  // a reader that has enough closes the pipe
  }));
  return 0;
}

}  // namespace kvgate::cli
