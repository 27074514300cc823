// `kvgate stats`: what was asked, cached and paid, from the server that holds the data directory or
// from the directory itself.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "gateway/cli/commands.h"
#include "gateway/cli/http_client.h"
#include "gateway/cli/local_engine.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server_target.h"
#include "gateway/ledger/ledger.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

struct StatsFlags {
  ConfigFlags config;
  TargetFlags target;
  bool json = false;
};

int64_t Count(const Json& sum, const char* name) { return sum.value(name, int64_t{0}); }

// Millionths are enough to see one request.
std::string Dollars(const Json& sum, const char* name) {
  return fmt::format("${:.6f}", static_cast<double>(Count(sum, name)) / 1e9);
}

void PrintSums(const char* title, const Json& sums) {
  if (sums.empty()) return;
  fmt::print("\n{:<32} {:>9} {:>7} {:>12} {:>12} {:>12} {:>12} {:>14} {:>14}\n", title, "REQUESTS",
             "FAILED", "UNCACHED", "CACHE READ", "CACHE WRITE", "OUTPUT", "COST", "WITHOUT CACHE");
  for (const auto& [name, sum] : sums.items()) {
    fmt::print("{:<32} {:>9} {:>7} {:>12} {:>12} {:>12} {:>12} {:>14} {:>14}\n",
               name.empty() ? "-" : name.substr(0, 32), Count(sum, "requests"),
               Count(sum, "failed"), Count(sum, "uncached_tokens"), Count(sum, "cache_read_tokens"),
               Count(sum, "cache_write_tokens"), Count(sum, "output_tokens"),
               Dollars(sum, "nanodollars"), Dollars(sum, "uncached_nanodollars"));
  }
}

void PrintSources(const Json& sums) {
  if (sums.empty()) return;
  fmt::print("\n{:<32} {:>12} {:>12} {:>12} {:>14}\n", "SOURCE", "CACHED", "WRITTEN", "UNCACHED",
             "COST");
  for (const auto& [name, sum] : sums.items()) {
    fmt::print("{:<32} {:>12} {:>12} {:>12} {:>14}\n", name.substr(0, 32),
               Count(sum, "cached_tokens"), Count(sum, "written_tokens"),
               Count(sum, "uncached_tokens"), Dollars(sum, "nanodollars"));
  }
}

void PrintBreaks(const Json& sums) {
  if (sums.empty()) return;
  fmt::print("\n{:<32} {:>9} {:>12} {:>14}\n", "WHY A PREFIX ENDED", "REQUESTS", "TOKENS LOST",
             "LOST");
  for (const auto& [name, sum] : sums.items()) {
    fmt::print("{:<32} {:>9} {:>12} {:>14}\n", name.substr(0, 32), Count(sum, "breaks"),
               Count(sum, "lost_tokens"), Dollars(sum, "lost_nanodollars"));
  }
}

void Print(const Json& ledger) {
  const Json totals = ledger.value("totals", Json::object());
  const int64_t since = Count(totals, "since_us");
  if (since == 0) {
    fmt::print("no requests yet\n");
    return;
  }
  fmt::print("{} requests since {:%Y-%m-%d %H:%M:%S}, {} failed\n", Count(totals, "requests"),
             fmt::localtime(static_cast<std::time_t>(since / 1'000'000)), Count(totals, "failed"));
  fmt::print("tokens: {} uncached, {} cache read, {} cache write, {} output\n",
             Count(totals, "uncached_tokens"), Count(totals, "cache_read_tokens"),
             Count(totals, "cache_write_tokens"), Count(totals, "output_tokens"));
  fmt::print("cost: {}, without the cache {} (prices of {})\n", Dollars(totals, "nanodollars"),
             Dollars(totals, "uncached_nanodollars"), ledger.value("price_date", ""));
  fmt::print("not in it: {} answers whose tokens are not known, {} without a known price\n",
             Count(totals, "unknown_usage"), Count(totals, "unknown_cost"));
  PrintSums("UPSTREAM", totals.value("by_upstream", Json::object()));
  PrintSums("MODEL", totals.value("by_model", Json::object()));
  PrintSums("TENANT", totals.value("by_tenant", Json::object()));
  PrintSources(totals.value("by_source", Json::object()));
  PrintBreaks(totals.value("breaks", Json::object()));
}

Result<Json> FromDirectory(const config::Config& config, const std::filesystem::path& directory) {
  std::error_code code;
  if (!std::filesystem::exists(directory, code)) {
    return MakeError(
        ErrorCode::kNotFound, "cli",
        fmt::format("there is no data directory {}; name one with --data-dir", directory.string()));
  }
  KVGATE_TRY(const auto opened,
             store::DataDirectory::Open({.directory = directory,
                                         .kv_bytes_max = config.store.disk_cache_bytes,
                                         .read_only = true,
                                         .secret_env = config.store.secret_env}));
  const ledger::Ledger ledger({.meta = &opened->meta()});
  std::string text;
  protocol::JsonWriter json(text);
  ledger.WriteStats(json);
  return Json::parse(text, nullptr, false);
}

Result<int> Stats(const StatsFlags& flags) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  const std::filesystem::path directory = DataDirOf(config);
  KVGATE_TRY(const std::string authorization, AuthorizationOf(flags.target));
  const store::ServerAddress server = FindServer(flags.target, directory);
  Json ledger;
  if (server.url.empty()) {
    KVGATE_TRY(ledger, FromDirectory(config, directory));
  } else {
    KVGATE_TRY(
        const std::string body,
        FetchOk(RequestTo(server, {.url = "/kvgate/v1/stats", .authorization = authorization})));
    const Json stats = Json::parse(body, nullptr, false);
    if (!stats.is_object() || !stats.contains("ledger")) {
      return MakeError(ErrorCode::kUnavailable, "cli",
                       "the answer has no ledger; is that a kvgate server?");
    }
    ledger = stats["ledger"];
  }
  if (flags.json) {
    fmt::print("{}\n", ledger.dump());
  } else {
    Print(ledger);
  }
  return 0;
}

}  // namespace

void AddStats(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<StatsFlags>();
  CLI::App* command = app.add_subcommand("stats", "Requests, cached tokens and cost so far");
  AddDataDirFlag(*command, flags->config);
  AddTargetFlags(*command, flags->target);
  command->add_flag("--json", flags->json, "as the server gives it");
  command->callback([flags, &chosen] { chosen = [flags] { return Stats(*flags); }; });
}

}  // namespace kvgate::cli
