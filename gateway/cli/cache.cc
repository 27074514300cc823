// `kvgate cache ls|stats|verify|rm`: through the server that holds the data directory, else on the
// directory itself.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/cli/commands.h"
#include "gateway/cli/http_client.h"
#include "gateway/cli/local_engine.h"
#include "gateway/cli/options.h"
#include "kernels/backend.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

struct PrefixRow {
  std::string id;
  uint64_t tokens = 0;
  uint64_t bytes = 0;
  int64_t last_used_unix = 0;
};

void PrintPrefixes(const std::vector<PrefixRow>& rows) {
  fmt::print("{:<32} {:>9} {:>12}  {}\n", "ID", "TOKENS", "BYTES", "LAST USED");
  for (const PrefixRow& row : rows) {
    fmt::print("{:<32} {:>9} {:>12}  {:%Y-%m-%d %H:%M:%S}\n", row.id, row.tokens, row.bytes,
               fmt::localtime(static_cast<std::time_t>(row.last_used_unix)));
  }
}

void PrintReport(const store::KvVerifyReport& report) {
  fmt::print("checked {} records: {} damaged and dropped, {} orphans dropped\n", report.num_checked,
             report.num_dropped, report.num_orphans);
}

// --- through a server -------------------------------------------------------------------------

Result<Json> FetchJson(HttpRequest request) {
  KVGATE_TRY(const std::string body, FetchOk(request));
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     fmt::format("{} did not answer in JSON; is it a kvgate server?", request.url));
  }
  return json;
}

Result<int> ListByServer(const std::string& url) {
  KVGATE_TRY(const Json json, FetchJson({.url = url + "/kvgate/v1/prefixes"}));
  std::vector<PrefixRow> rows;
  for (const Json& prefix : json.value("data", Json::array())) {
    rows.push_back({.id = prefix.value("id", ""),
                    .tokens = prefix.value("tokens", uint64_t{0}),
                    .bytes = prefix.value("bytes", uint64_t{0}),
                    .last_used_unix = prefix.value("last_used", int64_t{0})});
  }
  PrintPrefixes(rows);
  return 0;
}

Result<int> StatsByServer(const std::string& url) {
  KVGATE_TRY(const Json json, FetchJson({.url = url + "/kvgate/v1/stats"}));
  for (const char* part : {"engine", "store"}) {
    const Json fields = json.value(part, Json::object());
    for (const auto& [name, value] : fields.items()) {
      fmt::print("{}.{} {}\n", part, name,
                 value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return 0;
}

Result<int> VerifyByServer(const std::string& url) {
  fmt::print(stderr, "the server at {} is verifying its records ...\n", url);
  KVGATE_TRY(
      const Json json,
      FetchJson({.method = "POST", .url = url + "/kvgate/v1/prefixes/verify", .body = "{}"}));
  PrintReport({.num_checked = json.value("checked", uint64_t{0}),
               .num_dropped = json.value("dropped", uint64_t{0}),
               .num_orphans = json.value("orphans", uint64_t{0})});
  return 0;
}

Result<int> RemoveByServer(const std::string& url, const std::string& id) {
  const std::string path = id.empty() ? "/kvgate/v1/prefixes" : "/kvgate/v1/prefixes/" + id;
  KVGATE_TRY(const Json json, FetchJson({.method = "DELETE", .url = url + path, .body = {}}));
  fmt::print("removed {} records\n", json.value("removed", uint64_t{0}));
  return 0;
}

// --- on the directory -------------------------------------------------------------------------

int ListByStore(store::KvStore& kv) {
  std::vector<PrefixRow> rows;
  for (const store::KvPrefix& prefix : kv.ListPrefixes()) {
    rows.push_back({.id = ToHex(prefix.leaf.hash),
                    .tokens = uint64_t{prefix.num_blocks} * kernels::kKvBlockTokens,
                    .bytes = prefix.payload_bytes,
                    .last_used_unix = prefix.last_used_unix});
  }
  PrintPrefixes(rows);
  return 0;
}

int StatsByStore(const store::KvStore& kv) {
  const store::KvStoreStats stats = kv.Stats();
  fmt::print(
      "store.records {}\nstore.payload_bytes {}\nstore.disk_bytes {}\n"
      "store.capacity_bytes {}\n",
      stats.num_records, stats.payload_bytes, stats.disk_bytes, stats.capacity_bytes);
  if (!stats.error.empty()) fmt::print("store.error {}\n", stats.error);
  return 0;
}

Result<int> VerifyByStore(store::KvStore& kv) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = Clock::now();
  const auto progress = [&last](uint64_t done, uint64_t total) {
    if (Clock::now() - last < std::chrono::seconds(2)) return;
    last = Clock::now();
    fmt::print(stderr, "verified {} of {} records\n", done, total);
  };
  KVGATE_TRY(const store::KvVerifyReport report, kv.Verify(progress));
  PrintReport(report);
  return 0;
}

Result<int> RemoveByStore(store::KvStore& kv, const std::string& id) {
  uint64_t num_removed = 0;
  if (id.empty()) {
    KVGATE_TRY(num_removed, kv.RemoveAll());
  } else {
    const Result<BlockHash> leaf = ParseBlockHash(id);
    if (!leaf) {
      return MakeError(ErrorCode::kInvalidArgument, "cli",
                       fmt::format("'{}' is no prefix id; `kvgate cache ls` lists them", id));
    }
    KVGATE_TRY(num_removed, kv.RemovePrefix(*leaf));
    if (num_removed == 0) {
      return MakeError(ErrorCode::kNotFound, "cli",
                       fmt::format("no prefix has the id {}; `kvgate cache ls` lists them", id));
    }
  }
  fmt::print("removed {} records\n", num_removed);
  return 0;
}

// --- both -------------------------------------------------------------------------------------

struct Ways {
  std::function<Result<int>(const std::string& url)> by_server;
  std::function<Result<int>(store::KvStore& kv)> by_store;
  bool read_only = false;
};

Result<int> RunEither(const ConfigFlags& flags, const Ways& ways) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags));
  const std::filesystem::path directory = DataDirOf(config);
  std::error_code code;
  if (!std::filesystem::exists(directory, code)) {
    return MakeError(
        ErrorCode::kNotFound, "cli",
        fmt::format("there is no data directory {}; name one with --data-dir", directory.string()));
  }
  if (const Result<std::string> url = store::DataDirectory::FindServer(directory)) {
    return ways.by_server(*url);
  }
  KVGATE_TRY(const auto opened,
             store::DataDirectory::Open({.directory = directory,
                                         .kv_bytes_max = config.store.disk_cache_bytes,
                                         .read_only = ways.read_only}));
  return ways.by_store(opened->kv());
}

}  // namespace

void AddCache(CLI::App& app, Run& chosen) {
  struct Flags {
    ConfigFlags config;
    std::string id;
    bool all = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* cache = app.add_subcommand("cache", "Look at, check and clear the stored KV");
  cache->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, Ways ways) {
    CLI::App* command = cache->add_subcommand(name, help);
    AddDataDirFlag(*command, flags->config);
    command->callback([flags, ways, &chosen] {
      chosen = [flags, ways] { return RunEither(flags->config, ways); };
    });
    return command;
  };
  add("ls", "The stored prefixes", {ListByServer, ListByStore, true});
  add("stats", "What is stored", {StatsByServer, StatsByStore, true});
  add("verify", "Read every record and drop what is damaged", {VerifyByServer, VerifyByStore});
  CLI::App* remove = cache->add_subcommand("rm", "Remove a prefix, or all");
  AddDataDirFlag(*remove, flags->config);
  CLI::Option* id = remove->add_option("id", flags->id, "as `kvgate cache ls` prints it");
  CLI::Option* all = remove->add_flag("--all", flags->all, "every prefix");
  id->excludes(all);
  remove->callback([flags, &chosen] {
    chosen = [flags]() -> Result<int> {
      if (flags->id.empty() && !flags->all) {
        return MakeError(ErrorCode::kInvalidArgument, "cli", "give a prefix id, or --all");
      }
      return RunEither(flags->config,
                       {[&](const std::string& url) { return RemoveByServer(url, flags->id); },
                        [&](store::KvStore& kv) { return RemoveByStore(kv, flags->id); }});
    };
  });
}

}  // namespace kvgate::cli
