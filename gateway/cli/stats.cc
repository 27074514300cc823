// `kvgate stats`: requests, cached tokens and cost, from the server that holds the data directory
// or from the directory itself.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/cli/stats_by.h"
#include "gateway/ledger/ledger.h"
#include "gateway/runtime/data_tier.h"
#include "store/rocks_data_directory.h"

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
};

// Latencies come from this many newest requests, so that they show the present state.
constexpr int64_t kLatencyRecords = 500;

int64_t Count(const Json& sum, const char* name) { return sum.value(name, int64_t{0}); }

// Six decimals show a single request's cost, and are too many for large sums.
std::string Dollars(const Json& sum, const char* name) {
  const double dollars = static_cast<double>(Count(sum, name)) / 1e9;
  return fmt::format("${:.{}f}", dollars, dollars < 10 ? 6 : dollars < 1000 ? 4 : 2);
}

// "61.4 %"; a dash if `whole` is 0.
std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

int64_t InputTokens(const Json& sum) {
  return Count(sum, "uncached_tokens") + Count(sum, "cache_read_tokens") +
         Count(sum, "cache_write_tokens");
}

std::string HitRate(const Json& sum) {
  return Percent(static_cast<double>(Count(sum, "cache_read_tokens")),
                 static_cast<double>(InputTokens(sum)));
}

// The saving as a share of the cost without a cache.
std::string Saving(const Json& sum) {
  const auto without = static_cast<double>(Count(sum, "uncached_nanodollars"));
  return Percent(without - static_cast<double>(Count(sum, "nanodollars")), without);
}

std::string Shortened(const std::string& name, size_t size) {
  if (name.empty()) return "-";
  return name.size() <= size ? name : name.substr(0, size - 2) + "..";
}

void PrintSums(const char* title, const Json& sums) {
  if (sums.empty()) return;
  constexpr size_t kNameSize = 17;
  fmt::print("\n{:<17} {:>8} {:>6} {:>7} {:>10} {:>8} {:>10} {:>7}\n", title, "REQUESTS", "FAILED",
             "HIT", "INPUT", "OUTPUT", "COST", "SAVED");
  for (const auto& [name, sum] : sums.items()) {
    fmt::print("{:<17} {:>8} {:>6} {:>7} {:>10} {:>8} {:>10} {:>7}\n", Shortened(name, kNameSize),
               Count(sum, "requests"), Count(sum, "failed"), HitRate(sum), InputTokens(sum),
               Count(sum, "output_tokens"), Dollars(sum, "nanodollars"), Saving(sum));
  }
}

void PrintSources(const Json& sums) {
  if (sums.empty()) return;
  fmt::print("\n{:<18} {:>14} {:>14} {:>14} {:>14}\n", "SOURCE", "CACHED", "WRITTEN", "UNCACHED",
             "COST");
  for (const auto& [name, sum] : sums.items()) {
    fmt::print("{:<18} {:>14} {:>14} {:>14} {:>14}\n", Shortened(name, 18),
               Count(sum, "cached_tokens"), Count(sum, "written_tokens"),
               Count(sum, "uncached_tokens"), Dollars(sum, "nanodollars"));
  }
}

void PrintBreaks(const Json& sums) {
  if (sums.empty()) return;
  fmt::print("\n{:<32} {:>9} {:>14} {:>14}\n", "WHY A PREFIX ENDED", "REQUESTS", "TOKENS LOST",
             "LOST");
  for (const auto& [name, sum] : sums.items()) {
    fmt::print("{:<32} {:>9} {:>14} {:>14}\n", Shortened(name, 32), Count(sum, "breaks"),
               Count(sum, "lost_tokens"), Dollars(sum, "lost_nanodollars"));
  }
}

std::string Duration(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

// "p50 310 ms, p95 2.1 s"; empty if no record has that time.
std::string Latency(const Json& records, const char* time) {
  std::vector<double> seconds;
  for (const Json& record : records) {
    const Json timings = record.value("timings", Json::object());
    const bool answered = record.value("outcome", "") == "complete";
    if (answered && timings.value(time, Json()).is_number()) {
      seconds.push_back(timings[time].get<double>() / 1e6);
    }
  }
  if (seconds.empty()) return "";
  std::sort(seconds.begin(), seconds.end());
  // The nearest-rank percentile: the least value that `percent` of the values do not exceed.
  const auto at = [&](size_t percent) {
    return seconds[(seconds.size() * percent + 99) / 100 - 1];
  };
  return fmt::format("p50 {}, p95 {}", Duration(at(50)), Duration(at(95)));
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
  if (Count(savings, "tokens") == 0) return;
  constexpr size_t kLinesMax = 10;
  fmt::print("\nmode stabilize would have saved {} tokens ({}) in {} requests since {:%F %T}\n",
             Count(savings, "tokens"), Dollars(savings, "nanodollars"), Count(savings, "requests"),
             fmt::localtime(static_cast<std::time_t>(Count(savings, "since_us") / 1'000'000)));
  fmt::print("{:<11} {:<46} {:>8} {:>12} {:>10}\n", "PLACE", "A LINE THAT CHANGES", "REQUESTS",
             "TOKENS", "COST");
  const Json slots = savings.value("slots", Json::array());
  for (size_t i = 0; i < slots.size() && i < kLinesMax; ++i) {
    const Json& slot = slots[i];
    const Json line = slot.value("line", Json());
    // A line is forgotten with its conversation; its place is not.
    const std::string shown =
        line.is_string() ? line.get<std::string>() : "(" + slot.value("path", "") + ")";
    fmt::print("{:<11} {:<46} {:>8} {:>12} {:>10}\n", slot.value("place", ""), Shortened(shown, 46),
               Count(slot, "requests"), Count(slot, "tokens"), Dollars(slot, "nanodollars"));
  }
}

void Print(const Json& ledger, const Json& records) {
  const Json totals = ledger.value("totals", Json::object());
  const int64_t since = Count(totals, "since_us");
  if (since == 0) {
    fmt::print("no requests yet\n");
    return;
  }
  fmt::print("{} requests since {:%Y-%m-%d %H:%M:%S}, {} failed\n", Count(totals, "requests"),
             fmt::localtime(static_cast<std::time_t>(since / 1'000'000)), Count(totals, "failed"));
  fmt::print("hit rate     {}: {} of {} input tokens read from a cache, {} written\n",
             HitRate(totals), Count(totals, "cache_read_tokens"), InputTokens(totals),
             Count(totals, "cache_write_tokens"));
  fmt::print("output       {} tokens\n", Count(totals, "output_tokens"));
  if (Count(totals, "uncached_nanodollars") > 0) {
    fmt::print("cost         {}; without the cache {}: {} saved\n", Dollars(totals, "nanodollars"),
               Dollars(totals, "uncached_nanodollars"), Saving(totals));
  }
  PrintLatency(records);
  if (Count(totals, "unknown_usage") + Count(totals, "unknown_cost") > 0) {
    fmt::print("not in it    {} answers of unknown tokens, {} without a price (of {})\n",
               Count(totals, "unknown_usage"), Count(totals, "unknown_cost"),
               ledger.value("price_date", ""));
  }
  PrintSums("UPSTREAM", totals.value("by_upstream", Json::object()));
  PrintSums("MODEL", totals.value("by_model", Json::object()));
  PrintSums("TENANT", totals.value("by_tenant", Json::object()));
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

Result<Found> FromDirectory(const config::Config& config, const std::filesystem::path& directory) {
  KVGATE_TRY_VOID(CheckDataDir(directory));
  KVGATE_TRY(const auto opened,
             store::DataDirectory::Open({.directory = directory,
                                         .kv_bytes_max = config.store.disk_cache_bytes,
                                         .read_only = true,
                                         .secret_env = config.store.secret_env}));
  ledger::Ledger ledger({.meta = &opened->meta()});
  std::string text;
  protocol::form::JsonWriter json(text);
  ledger.WriteStats(json);
  return Found{.ledger = Json::parse(text, nullptr, false),
               .records = RecordsOf(ledger.List({.limit = kLatencyRecords})),
               .savings = Json::object()};
}

Result<Found> FromServer(const store::ServerAddress& server, const std::string& authorization) {
  KVGATE_TRY(const std::string body,
             server::FetchOk(server::RequestTo(
                 server, {.url = "/kvgate/v1/stats", .authorization = authorization})));
  const Json stats = Json::parse(body, nullptr, false);
  if (!stats.is_object() || !stats.contains("ledger")) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     "the answer has no ledger; is that a kvgate server?");
  }
  const std::string path = fmt::format("/kvgate/v1/requests?limit={}", kLatencyRecords);
  return Found{.ledger = stats["ledger"],
               .records = RecordsOf(server::FetchOk(
                   server::RequestTo(server, {.url = path, .authorization = authorization}))),
               .savings = stats.value("stabilize_would_save", Json::object())};
}

Result<int> Stats(const StatsFlags& flags) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  const std::filesystem::path directory = runtime::DataDirOf(config);
  KVGATE_TRY(const std::string authorization, server::AuthorizationOf(flags.target));
  const store::ServerAddress server = server::FindServer(flags.target, directory);
  KVGATE_TRY(Found found, server.url.empty() ? FromDirectory(config, directory)
                                             : FromServer(server, authorization));
  if (flags.json) {
    if (!found.savings.empty()) found.ledger["stabilize_would_save"] = found.savings;
    fmt::print("{}\n", found.ledger.dump());
  } else {
    Print(found.ledger, found.records);
    PrintSavings(found.savings);
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
                      "sums by day, source, model, upstream, tenant, key, session, prompt, break, "
                      "tool or server");
  command->add_option("--since", flags->since, "7d, 36h, 90m: with --by, by default 30d");
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
