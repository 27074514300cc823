// `kvgate stats`: requests, cached tokens and cost, from the server that holds the data directory
// or from the directory itself; budgets, from a server.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/ledger_source.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/cli/stats_by.h"
#include "gateway/cli/terminal/budget_table.h"
#include "gateway/cli/terminal/figures.h"
#include "gateway/cli/terminal/json_field.h"
#include "gateway/ledger/ledger.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

struct StatsFlags {
  ConfigFlags config;
  server::TargetFlags target;
  std::string by;
  std::string since;
  bool csv = false;
  bool jsonl = false;
  bool json = false;
  bool budgets = false;
};

// Latencies come from this many newest requests, so that they show the present state.
constexpr int64_t kLatencyRecords = 500;

std::string Dollars(const Json& sum, const char* name) {
  return terminal::Dollars(terminal::CountOf(sum, name));
}

int64_t InputTokens(const Json& sum) {
  return terminal::CountOf(sum, "uncached_tokens") + terminal::CountOf(sum, "cache_read_tokens") +
         terminal::CountOf(sum, "cache_write_tokens");
}

std::string HitRate(const Json& sum) {
  return terminal::Percent(static_cast<double>(terminal::CountOf(sum, "cache_read_tokens")),
                           static_cast<double>(InputTokens(sum)));
}

// The saving as a share of the cost without a cache.
std::string Saving(const Json& sum) {
  const auto without = static_cast<double>(terminal::CountOf(sum, "uncached_nanodollars"));
  return terminal::Percent(without - static_cast<double>(terminal::CountOf(sum, "nanodollars")),
                           without);
}

void PrintSums(const char* title, const Json& sums) {
  if (sums.empty()) return;
  constexpr size_t kNameSize = 17;
  fmt::print("\n{:<17} {:>8} {:>6} {:>7} {:>10} {:>8} {:>10} {:>7}\n", title, "REQUESTS", "FAILED",
             "HIT", "INPUT", "OUTPUT", "COST", "SAVED");
  for (const auto& [name, sum] : sums.items()) {
    fmt::print("{} {:>8} {:>6} {:>7} {:>10} {:>8} {:>10} {:>7}\n",
               terminal::Padded(name, kNameSize), terminal::CountOf(sum, "requests"),
               terminal::CountOf(sum, "failed"), HitRate(sum), InputTokens(sum),
               terminal::CountOf(sum, "output_tokens"), Dollars(sum, "nanodollars"), Saving(sum));
  }
}

void PrintSources(const Json& sums) {
  if (sums.empty()) return;
  fmt::print("\n{:<18} {:>14} {:>14} {:>14} {:>14}\n", "SOURCE", "CACHED", "WRITTEN", "UNCACHED",
             "COST");
  for (const auto& [name, sum] : sums.items()) {
    fmt::print("{} {:>14} {:>14} {:>14} {:>14}\n", terminal::Padded(name, 18),
               terminal::CountOf(sum, "cached_tokens"), terminal::CountOf(sum, "written_tokens"),
               terminal::CountOf(sum, "uncached_tokens"), Dollars(sum, "nanodollars"));
  }
}

void PrintBreaks(const Json& sums) {
  if (sums.empty()) return;
  fmt::print("\n{:<32} {:>9} {:>14} {:>14}\n", "WHY A PREFIX ENDED", "REQUESTS", "TOKENS LOST",
             "LOST");
  for (const auto& [name, sum] : sums.items()) {
    fmt::print("{} {:>9} {:>14} {:>14}\n", terminal::Padded(name, 32),
               terminal::CountOf(sum, "breaks"), terminal::CountOf(sum, "lost_tokens"),
               Dollars(sum, "lost_nanodollars"));
  }
}

// "p50 310 ms, p95 2.1 s"; empty if no record has that time.
std::string Latency(const Json& records, const char* time) {
  std::vector<int64_t> times;
  for (const Json& record : records) {
    const Json timings = record.value("timings", Json::object());
    const bool answered = record.value("outcome", "") == "complete";
    if (answered && timings.value(time, Json()).is_number()) {
      times.push_back(timings[time].get<int64_t>());
    }
  }
  if (times.empty()) return "";
  std::sort(times.begin(), times.end());
  // The nearest-rank percentile: the least value that `percent` of the values do not exceed.
  const auto at = [&](size_t percent) { return times[(times.size() * percent + 99) / 100 - 1]; };
  return fmt::format("p50 {}, p95 {}", terminal::Duration(at(50)), terminal::Duration(at(95)));
}

void PrintLatency(const Json& records) {
  const std::string whole = Latency(records, "total_us");
  if (whole.empty()) return;
  const std::string first = Latency(records, "ttft_us");
  if (!first.empty()) fmt::print("first token  {} (newest {} requests)\n", first, records.size());
  fmt::print("answer       {}\n", whole);
}

// What the mode stabilize would have saved, by line; the values of a line are marks.
void PrintSavings(const Json& savings) {
  if (terminal::CountOf(savings, "tokens") == 0) return;
  constexpr size_t kLinesMax = 10;
  fmt::print(
      "\nmode stabilize would have saved {} tokens ({}) in {} requests since {:%F %T}\n",
      terminal::CountOf(savings, "tokens"), Dollars(savings, "nanodollars"),
      terminal::CountOf(savings, "requests"),
      fmt::localtime(static_cast<std::time_t>(terminal::CountOf(savings, "since_us") / 1'000'000)));
  fmt::print("{:<11} {:<46} {:>8} {:>12} {:>10}\n", "PLACE", "A LINE THAT CHANGES", "REQUESTS",
             "TOKENS", "COST");
  const Json slots = savings.value("slots", Json::array());
  for (size_t i = 0; i < slots.size() && i < kLinesMax; ++i) {
    const Json& slot = slots[i];
    const Json line = slot.value("line", Json());
    // A line is forgotten with its conversation; its place is not.
    const std::string shown =
        line.is_string() ? line.get<std::string>() : "(" + slot.value("path", "") + ")";
    fmt::print("{} {} {:>8} {:>12} {:>10}\n", terminal::Padded(slot.value("place", ""), 11),
               terminal::Padded(shown, 46), terminal::CountOf(slot, "requests"),
               terminal::CountOf(slot, "tokens"), Dollars(slot, "nanodollars"));
  }
}

void Print(const Json& ledger, const Json& records) {
  const Json totals = ledger.value("totals", Json::object());
  const int64_t since = terminal::CountOf(totals, "since_us");
  if (since == 0) {
    fmt::print("no requests yet\n");
    return;
  }
  fmt::print("{} requests since {:%Y-%m-%d %H:%M:%S}, {} failed\n",
             terminal::CountOf(totals, "requests"),
             fmt::localtime(static_cast<std::time_t>(since / 1'000'000)),
             terminal::CountOf(totals, "failed"));
  fmt::print("hit rate     {}: {} of {} input tokens read from a cache, {} written\n",
             HitRate(totals), terminal::CountOf(totals, "cache_read_tokens"), InputTokens(totals),
             terminal::CountOf(totals, "cache_write_tokens"));
  fmt::print("output       {} tokens\n", terminal::CountOf(totals, "output_tokens"));
  if (terminal::CountOf(totals, "uncached_nanodollars") > 0) {
    fmt::print("cost         {}; without the cache {}: {} saved\n", Dollars(totals, "nanodollars"),
               Dollars(totals, "uncached_nanodollars"), Saving(totals));
    if (totals.contains("direct_nanodollars")) {
      fmt::print("directly     {}, by estimate: as callers wrote their requests\n",
                 Dollars(totals, "direct_nanodollars"));
    }
  }
  PrintLatency(records);
  if (terminal::CountOf(totals, "unknown_usage") + terminal::CountOf(totals, "unknown_cost") > 0) {
    fmt::print("not in it    {} answers of unknown tokens, {} without a price (of {})\n",
               terminal::CountOf(totals, "unknown_usage"),
               terminal::CountOf(totals, "unknown_cost"), ledger.value("price_date", ""));
  }
  PrintSums("UPSTREAM", totals.value("by_upstream", Json::object()));
  PrintSums("MODEL", totals.value("by_model", Json::object()));
  PrintSums("TENANT", totals.value("by_tenant", Json::object()));
  PrintSums("PROMPT", totals.value("by_prompt_version", Json::object()));
  PrintSources(totals.value("by_source", Json::object()));
  PrintBreaks(totals.value("breaks", Json::object()));
}

struct Found {
  Json ledger;
  Json records = Json::array();   // the newest ones
  Json savings = Json::object();  // of the server's process; empty without one
};

Json RecordsOf(const Result<std::string>& text) {
  const Json list = text ? Json::parse(*text, nullptr, false) : Json();
  return list.is_object() ? list.value("data", Json::array()) : Json::array();
}

Result<Found> Find(const LedgerSource& source) {
  KVGATE_TRY(const std::string body, source.Get("/kvgate/v1/stats", [](ledger::Ledger& ledger) {
    std::string text;
    dialect::form::JsonWriter json(text);
    json.BeginObject().Key("ledger");
    ledger.WriteStats(json);
    json.EndObject();
    return Result<std::string>(std::move(text));
  }));
  const Json stats = Json::parse(body, nullptr, false);
  if (!stats.is_object() || !stats.contains("ledger")) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     "the answer has no ledger; is that a kvgate server?");
  }
  return Found{.ledger = stats["ledger"],
               .records = RecordsOf(source.Get(
                   fmt::format("/kvgate/v1/requests?limit={}", kLatencyRecords),
                   [](ledger::Ledger& ledger) { return ledger.List({.limit = kLatencyRecords}); })),
               .savings = stats.value("stabilize_would_save", Json::object())};
}

Result<int> Stats(const StatsFlags& flags) {
  KVGATE_TRY(const LedgerSource source, LedgerSource::Open(flags.config, flags.target));
  KVGATE_TRY(Found found, Find(source));
  if (flags.json) {
    if (!found.savings.empty()) found.ledger["stabilize_would_save"] = found.savings;
    fmt::print("{}\n", found.ledger.dump());
  } else {
    Print(found.ledger, found.records);
    PrintSavings(found.savings);
  }
  return 0;
}

// Which budgets there are is in the server's configuration, so it takes a server.
Result<int> Budgets(const StatsFlags& flags) {
  KVGATE_TRY(const LedgerSource source, LedgerSource::Open(flags.config, flags.target));
  KVGATE_TRY(const std::string body,
             source.Get("/kvgate/v1/budgets", [](ledger::Ledger&) -> Result<std::string> {
               return MakeError(ErrorCode::kUnavailable, "cli",
                                "budgets are those of a running server: start it, or give --url");
             }));
  const Json answer = Json::parse(body, nullptr, false);
  if (!answer.is_object() || !answer.contains("data")) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     "the answer has no budgets; is that a kvgate server?");
  }
  if (flags.json) {
    fmt::print("{}\n", answer.dump());
  } else {
    fmt::print("{}", terminal::BudgetTable(answer, WallClock::NowUs()));
  }
  return 0;
}

}  // namespace

void AddStats(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<StatsFlags>();
  CLI::App* command = app.add_subcommand("stats", "Requests, cached tokens and cost so far");
  AddDataDirFlag(*command, flags->config);
  server::AddTargetFlags(*command, flags->target);
  command->add_flag("--json", flags->json, "as the server gives it");
  command->add_option("--by", flags->by,
                      "sums by day, source, model, upstream, tenant, key, session, prompt, "
                      "prompt_version, break, tool or server");
  command->add_option("--since", flags->since, "7d, 36h, 90m: with --by, by default 30d");
  command->add_flag("--budgets", flags->budgets, "what is used of budgets, and when they renew")
      ->excludes("--by");
  CLI::App* records = command->add_subcommand("export", "The records, newest first, to stdout");
  AddDataDirFlag(*records, flags->config);
  server::AddTargetFlags(*records, flags->target);
  records->add_option("--since", flags->since, "7d, 36h, 90m; by default all");
  CLI::Option* const csv = records->add_flag("--csv", flags->csv, "one line for each record");
  records->add_flag("--jsonl", flags->jsonl, "one line of JSON for each record (the default)")
      ->excludes(csv);
  records->callback([flags, &chosen] {
    chosen = [flags] {
      return ExportRecords({.config = flags->config,
                            .target = flags->target,
                            .since = flags->since,
                            .csv = flags->csv});
    };
  });
  command->callback([flags, &chosen, records] {
    if (records->parsed()) return;
    chosen = [flags]() -> Result<int> {
      if (flags->budgets) return Budgets(*flags);
      if (flags->by.empty()) return Stats(*flags);
      return StatsBy({.config = flags->config,
                      .target = flags->target,
                      .by = flags->by,
                      .since = flags->since,
                      .json = flags->json});
    };
  });
}

}  // namespace kvgate::cli
