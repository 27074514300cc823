// `kvgate cache ls|stats|verify|repair|pin|unpin|export|import|rm`: works through the server that
// holds the data directory, else on the directory itself.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/pin_flags.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/cli/terminal/figures.h"
#include "gateway/cli/terminal/json_field.h"
#include "gateway/cli/terminal/progress.h"
#include "gateway/local/prefix_service.h"
#include "gateway/runtime/data_tier.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {

using terminal::Progress;

namespace {

using Json = nlohmann::json;

// Exit status of repair if it lost data that could not be kept.
constexpr int kExitLosses = 3;
constexpr size_t kErrorColumns = 200;

// Answers have the service's JSON form, from a server or from the service in this process.
Result<Json> ParseJson(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_object()) return json;
  return MakeError(ErrorCode::kUnavailable, "cli",
                   "the answer is not in JSON; is that a kvgate server?");
}

std::string Size(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string PinText(const Json& prefix) {
  if (!prefix.value("pinned", false)) return "";
  std::string text = fmt::format("pinned, priority {}", prefix.value("priority", 0));
  for (const char* key : {"name", "version"}) {
    if (prefix.contains(key)) text += fmt::format(", {} {}", key, prefix.value(key, ""));
  }
  if (prefix.contains("expires_at") && prefix["expires_at"].is_number()) {
    text += fmt::format(", until {:%Y-%m-%d %H:%M:%S}",
                        fmt::localtime(static_cast<std::time_t>(prefix.value("expires_at", 0LL))));
  }
  return text;
}

std::string LastUse(int64_t unix_seconds) {
  if (unix_seconds == 0) return "no KV";
  const int64_t age_us = WallClock::NowUs() - unix_seconds * 1'000'000;
  return age_us < 1'000'000 ? "now" : terminal::Duration(age_us);
}

// Prints two lines of at most 80 columns for each prefix: its numbers, then its description.
void PrintPrefixes(const Json& list) {
  const Json prefixes = list.value("data", Json::array());
  if (prefixes.empty()) {
    fmt::print("nothing is stored\n");
    return;
  }
  fmt::print("{:<32} {:>6} {:>9} {:<6} {:>5} {:>6}  {}\n", "ID", "TOKENS", "SIZE", "TIER", "HITS",
             "SAVED", "USED AGO");
  for (const Json& prefix : prefixes) {
    const std::string tier = terminal::TextOf(prefix, "tier");
    // Only a server with an engine counts hits.
    const bool is_counted = prefix.contains("hits");
    const auto shown = [&](const char* name) {
      return is_counted ? terminal::Tokens(terminal::CountOf(prefix, name)) : "-";
    };
    fmt::print("{:<32} {:>6} {:>9} {:<6} {:>5} {:>6}  {}\n", prefix.value("id", ""),
               terminal::Tokens(terminal::CountOf(prefix, "tokens")),
               Size(prefix.value("bytes", uint64_t{0})), tier.empty() ? "-" : tier, shown("hits"),
               shown("saved_tokens"), LastUse(prefix.value("last_used", int64_t{0})));
    const std::string pin = PinText(prefix);
    if (!pin.empty()) fmt::print("  {}\n", pin);
    const std::string model = prefix.value("model", "");
    const std::string preview = prefix.value("preview", "");
    if (!model.empty()) {
      fmt::print("  {}{}{}\n", model, preview.empty() ? "" : ": ", preview);
    }
  }
}

void PrintReport(const Json& report) {
  fmt::print("checked {} records: {} damaged and dropped, {} orphans dropped\n",
             report.value("checked", uint64_t{0}), report.value("dropped", uint64_t{0}),
             report.value("orphans", uint64_t{0}));
}

void PrintRemoved(const Json& report) {
  fmt::print("removed {} records\n", report.value("removed", uint64_t{0}));
}

void PrintPin(const Json& prefix) {
  const std::string text = PinText(prefix);
  fmt::print("{} {}\n", prefix.value("id", ""), text.empty() ? "not pinned" : text);
}

void PrintImport(const Json& report) {
  fmt::print("{} of {} blocks imported, {} dropped\n", report.value("imported", uint64_t{0}),
             report.value("blocks", uint64_t{0}), report.value("dropped", uint64_t{0}));
  if (report["id"].is_string()) fmt::print("{}\n", report["id"].get<std::string>());
  if (report["reason"].is_string()) {
    fmt::print(stderr, "kvgate: {}\n", report["reason"].get<std::string>());
  }
}

struct CacheFlags {
  ConfigFlags config;
  std::string id;
  std::string file;
  bool all = false;
  bool force = false;
  bool any = false;  // import: accept any model's prefixes
  bool json = false;
  PinFlags pin;
  server::TargetFlags target;
};

// --- on a server, or on the directory itself ---------------------------------------------------

struct Target {
  store::ServerAddress server;                // the server, if there is one; else:
  store::DataDirectory* directory = nullptr;  // opened by this process
  local::PrefixService* prefixes = nullptr;
  std::string authorization = {};  // the client's authorization; it determines the tenant
  // On the directory itself, anyone who can open it acts as its admin.
  access::Caller caller() const {
    return {.role = access::CallerRole::kAdmin, .credential = authorization};
  }
};

// Asks the server, or calls the service in this process.
Result<Json> Ask(const Target& target, server::HttpRequest request,
                 const std::function<Result<std::string>()>& here) {
  if (target.prefixes != nullptr) {
    KVGATE_TRY(const std::string body, here());
    return ParseJson(body);
  }
  request.authorization = target.authorization;
  KVGATE_TRY(const std::string body,
             server::FetchOk(server::RequestTo(target.server, std::move(request))));
  return ParseJson(body);
}

Result<int> List(const Target& target, const CacheFlags& flags) {
  KVGATE_TRY(const Json json, Ask(target, {.url = "/kvgate/v1/prefixes"},
                                  [&] { return target.prefixes->List(target.caller()); }));
  if (flags.json) {
    fmt::print("{}\n", json.dump());
  } else {
    PrintPrefixes(json);
  }
  return 0;
}

// Asks the server, or reads the store's statistics that are available without one.
Result<Json> StatsOf(const Target& target) {
  if (target.directory != nullptr) {
    const store::kv::KvStoreStats stats = target.directory->kv().Stats();
    Json store = {{"records", stats.num_records},       {"payload_bytes", stats.payload_bytes},
                  {"disk_bytes", stats.disk_bytes},     {"capacity_bytes", stats.capacity_bytes},
                  {"pinned_bytes", stats.pinned_bytes}, {"pins", target.directory->pins().size()}};
    if (!stats.error.empty()) store["error"] = stats.error;
    return Json{{"store", store}};
  }
  KVGATE_TRY(
      const std::string body,
      server::FetchOk(server::RequestTo(
          target.server, {.url = "/kvgate/v1/stats", .authorization = target.authorization})));
  KVGATE_TRY(const Json json, ParseJson(body));
  if (!json.contains("engine")) {
    return MakeError(ErrorCode::kPermissionDenied, "cli",
                     "what is stored is shown to admins: give --key-env a key of that role");
  }
  Json parts = Json::object();
  for (const char* part : {"config", "engine", "store", "shared", "write_budget"}) {
    if (json.contains(part)) parts[part] = json[part];
  }
  return parts;
}

std::string Share(uint64_t part, uint64_t whole) {
  if (whole == 0) return "";
  return fmt::format(" ({:.1f} %)", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

void PrintStore(const Json& store) {
  const auto count = [&](const char* name) { return store.value(name, uint64_t{0}); };
  fmt::print("on disk      {} of {}{} in {} records\n", Size(count("disk_bytes")),
             Size(count("capacity_bytes")), Share(count("disk_bytes"), count("capacity_bytes")),
             count("records"));
  fmt::print("pinned       {}\n", Size(count("pinned_bytes")));
  const std::string error = store.value("error", "");
  if (!error.empty()) fmt::print("error        {}\n", error);
  if (!store.contains("writes")) return;
  fmt::print("since start  {} written, {} read, {} not found, {} evicted, {} damaged\n",
             count("writes"), count("hits"), count("misses"), count("evicted"), count("dropped"));
  if (count("write_errors") > 0) fmt::print("not written  {} records\n", count("write_errors"));
}

void PrintEngine(const Json& engine) {
  const auto count = [&](const char* name) { return engine.value(name, uint64_t{0}); };
  const uint64_t block = count("kv_block_bytes");
  const uint64_t kept = count("blocks_cached") + count("blocks_used");
  fmt::print("KV memory    {} of {}{}, {} in use\n", Size(kept * block),
             Size(count("kv_blocks") * block), Share(kept, count("kv_blocks")),
             Size(count("blocks_used") * block));
  if (count("host_blocks_max") > 0) {
    fmt::print("host memory  {} of {}\n", Size(count("host_blocks") * block),
               Size(count("host_blocks_max") * block));
  }
  const uint64_t hits =
      count("device_tokens") + count("host_tokens") + count("disk_tokens") + count("shared_tokens");
  const uint64_t shared = count("shared_tokens");
  fmt::print("hit rate     {} of {} prompt tokens{}: KV memory {}, host {}, disk {}{}\n", hits,
             count("prompt_tokens"), Share(hits, count("prompt_tokens")), count("device_tokens"),
             count("host_tokens"), count("disk_tokens"),
             shared > 0 ? fmt::format(", shared {}", shared) : "");
}

void PrintShared(const Json& shared) {
  const auto count = [&](const char* name) { return shared.value(name, uint64_t{0}); };
  const std::string error = shared.value("error", "");
  fmt::print("shared       {}{}: {} blocks read ({}), {} written ({}), {} found of {} asked for\n",
             shared.value("endpoint", ""), error.empty() ? "" : " (not reachable: " + error + ")",
             count("reads"), Size(count("read_bytes")), count("writes"),
             Size(count("written_bytes")), count("found"), count("looked_up"));
}

void PrintConfig(const Json& config) {
  fmt::print("config       version {} since {}\n", config.value("version", ""),
             config.value("loaded_at", ""));
  const Json error = config.value("error", Json());
  if (error.is_string()) {
    fmt::print("             the last reload failed: {}\n",
               terminal::Shown(error.get<std::string>(), kErrorColumns));
  }
  const std::string waits = config.value("needs_start", "");
  if (!waits.empty()) fmt::print("             its file differs in {}: start anew\n", waits);
}

Result<int> Stats(const Target& target, const CacheFlags& flags) {
  KVGATE_TRY(const Json parts, StatsOf(target));
  if (flags.json) {
    fmt::print("{}\n", parts.dump());
    return 0;
  }
  if (parts.contains("config") && parts["config"].is_object()) PrintConfig(parts["config"]);
  if (parts.contains("engine") && parts["engine"].is_object()) PrintEngine(parts["engine"]);
  if (parts.contains("store") && parts["store"].is_object()) PrintStore(parts["store"]);
  if (parts.contains("shared") && parts["shared"].is_object()) PrintShared(parts["shared"]);
  const Json budget = parts.value("write_budget", Json::object());
  if (budget.is_object() && budget.value("bytes_per_day", uint64_t{0}) > 0) {
    fmt::print(
        "write budget {} left of {} a day\n",
        Size(static_cast<uint64_t>(std::max<int64_t>(0, budget.value("left_bytes", int64_t{0})))),
        Size(budget.value("bytes_per_day", uint64_t{0})));
  }
  return 0;
}

Result<int> Verify(const Target& target) {
  Progress progress("verifying", target.prefixes != nullptr ? "records" : "");
  KVGATE_TRY(
      const Json json,
      Ask(target, {.method = "POST", .url = "/kvgate/v1/prefixes/verify", .body = "{}"}, [&] {
        return target.prefixes->Verify(
            [&](uint64_t done, uint64_t total) { progress.Set(done, total); });
      }));
  PrintReport(json);
  return 0;
}

Result<int> Remove(const Target& target, const CacheFlags& flags) {
  std::string path = flags.id.empty() ? "/kvgate/v1/prefixes" : "/kvgate/v1/prefixes/" + flags.id;
  if (flags.force) path += "?force=1";
  const auto here = [&] {
    return flags.id.empty() ? target.prefixes->RemoveAll(flags.force)
                            : target.prefixes->Remove(target.caller(), flags.id, flags.force);
  };
  KVGATE_TRY(const Json json, Ask(target, {.method = "DELETE", .url = path}, here));
  PrintRemoved(json);
  return 0;
}

Result<int> Pin(const Target& target, const CacheFlags& flags) {
  Json options = ToJson(flags.pin);
  options["pin"] = true;
  const std::string body = options.dump();
  const auto here = [&] { return target.prefixes->Pin(target.caller(), flags.id, body); };
  const Progress progress("pinning");
  KVGATE_TRY(
      const Json json,
      Ask(target,
          {.method = "POST", .url = "/kvgate/v1/prefixes/" + flags.id + "/pin", .body = body},
          here));
  PrintPin(json);
  return 0;
}

Result<int> Unpin(const Target& target, const CacheFlags& flags) {
  KVGATE_TRY(const Json json,
             Ask(target, {.method = "DELETE", .url = "/kvgate/v1/prefixes/" + flags.id + "/pin"},
                 [&] { return target.prefixes->Unpin(target.caller(), flags.id); }));
  PrintPin(json);
  return 0;
}

Result<void> ExportHere(const Target& target, const CacheFlags& flags,
                        const std::function<void(std::string_view)>& write) {
  KVGATE_TRY(const auto exporter, target.prefixes->StartExport(target.caller(), flags.id));
  std::string piece;
  bool more = true;
  while (more) {
    KVGATE_TRY(more, exporter->Next(piece));
    write(piece);
  }
  return {};
}

Result<int> Export(const Target& target, const CacheFlags& flags) {
  // Writes under a temporary name until the file is complete.
  const std::filesystem::path partial = flags.file + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  std::filesystem::permissions(
      partial, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  uint64_t bytes = 0;
  Progress progress("exporting", "bytes");
  const auto write = [&](std::string_view piece) {
    file.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    bytes += piece.size();
    progress.Set(bytes, 0);
  };
  Result<void> done;
  if (target.prefixes != nullptr) {
    done = ExportHere(target, flags, write);
  } else {
    const auto fetched = server::FetchOk(
        server::RequestTo(target.server, {.url = "/kvgate/v1/prefixes/" + flags.id + "/export",
                                          .authorization = target.authorization,
                                          .on_data = write}));
    if (!fetched) done = fetched.error();
  }
  file.close();
  std::error_code code;
  if (done && file.good()) {
    std::filesystem::rename(partial, flags.file, code);
    if (!code) {
      fmt::print("{} bytes in {}\n", bytes, flags.file);
      return 0;
    }
  }
  std::filesystem::remove(partial, code);
  if (!done) return done.error();
  return MakeError(ErrorCode::kIo, "cli", fmt::format("{} cannot be written", flags.file));
}

Result<std::string> ImportHere(local::PrefixService& prefixes, const CacheFlags& flags,
                               Progress& progress) {
  const std::string& path = flags.file;
  std::error_code code;
  const uint64_t total = std::filesystem::file_size(path, code);
  std::ifstream file(path, std::ios::binary);
  if (code || !file) {
    return MakeError(ErrorCode::kIo, "cli", fmt::format("{} cannot be read", path));
  }
  KVGATE_TRY(const auto importer, prefixes.StartImport(flags.any));
  std::vector<char> piece(size_t{1} << 20);
  uint64_t done = 0;
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    const auto size = static_cast<size_t>(file.gcount());
    KVGATE_TRY_VOID(importer->Feed({piece.data(), size}));
    done += size;
    progress.Set(done, total);
  }
  KVGATE_TRY(const tier::ImportReport report, importer->Finish());
  return local::PrefixService::Describe(report);
}

Result<int> Import(const Target& target, const CacheFlags& flags) {
  Progress progress("importing", "bytes");
  KVGATE_TRY(
      const Json json,
      Ask(target,
          {.method = "POST",
           .url = flags.any ? "/kvgate/v1/prefixes/import?any=1" : "/kvgate/v1/prefixes/import",
           .body_file = flags.file,
           .on_sent = [&](uint64_t done, uint64_t total) { progress.Set(done, total); }},
          [&] { return ImportHere(*target.prefixes, flags, progress); }));
  PrintImport(json);
  return json.value("imported", uint64_t{0}) > 0 ? 0 : 1;
}

using Command = Result<int> (*)(const Target& target, const CacheFlags& flags);

// Runs the command on the server that holds the directory, else on the directory.
Result<int> RunEither(const CacheFlags& flags, Command command, bool read_only) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  KVGATE_TRY(const std::string authorization, server::AuthorizationOf(flags.target));
  const std::filesystem::path directory = runtime::DataDirOf(config);
  const store::ServerAddress server = server::FindServer(flags.target, directory);
  if (!server.url.empty()) {
    return command({.server = server, .authorization = authorization}, flags);
  }
  KVGATE_TRY_VOID(CheckDataDir(directory));
  KVGATE_TRY(const auto opened,
             store::DataDirectory::Open({.directory = directory,
                                         .kv_bytes_max = config.store.disk_cache_bytes,
                                         .read_only = read_only,
                                         .secret_env = config.store.secret_env}));
  local::PrefixService prefixes({.kv = &opened->kv(),
                                 .pins = &opened->pins(),
                                 .hash_seed = opened->hash_seed(),
                                 .keyring = &opened->keyring()});
  return command({.server = {},
                  .directory = opened.get(),
                  .prefixes = &prefixes,
                  .authorization = authorization},
                 flags);
}

void PrintRepair(const store::RepairReport& report) {
  const store::meta::MetaRepairReport& meta = report.meta;
  uint64_t num_rows = 0;
  for (const uint64_t rows : meta.num_rows) num_rows += rows;
  if (meta.was_healthy) {
    fmt::print("meta/: {} rows, all of them readable; nothing changed\n", num_rows);
  } else if (!meta.set_aside.empty()) {
    fmt::print("meta/: made anew of {} rows\n", num_rows);
    for (size_t i = 0; i < meta.num_rows.size(); ++i) {
      fmt::print("  {}: {}\n", store::meta::MetaTableName(static_cast<store::meta::MetaTable>(i)),
                 meta.num_rows[i]);
    }
    fmt::print(
        "  lost: {} tables, {} ranges of rows that cannot be read, {} rows of the log, "
        "{} bytes of the log that could not be read\n",
        meta.num_tables, meta.num_gaps, meta.num_log_rows, meta.num_log_bytes);
    fmt::print("  the damaged one is kept as {}\n", meta.set_aside.string());
  }
  fmt::print("kv/: checked {} records: {} damaged and dropped, {} orphans dropped\n",
             report.kv.num_checked, report.kv.num_dropped, report.kv.num_orphans);
  if (report.kv_began_anew) fmt::print("  it could not be opened: set aside, begun anew\n");
}

// Works on the directory itself only, because a server keeps its files open.
Result<int> Repair(const CacheFlags& flags) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  const std::filesystem::path directory = runtime::DataDirOf(config);
  std::error_code code;
  if (!std::filesystem::exists(directory / "lock", code)) {
    return MakeError(
        ErrorCode::kNotFound, "cli",
        fmt::format("{} is no data directory; name one with --data-dir", directory.string()));
  }
  if (const auto server = store::DataDirectory::FindServer(directory)) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     fmt::format("the server at {} holds {}: stop it, then repair", server->url,
                                 directory.string()));
  }
  const Progress progress("repairing");
  KVGATE_TRY(const store::RepairReport report,
             store::DataDirectory::Repair({.directory = directory,
                                           .kv_bytes_max = config.store.disk_cache_bytes,
                                           .secret_env = config.store.secret_env}));
  PrintRepair(report);
  const bool lossless = (report.meta.was_healthy || report.meta.complete()) &&
                        report.kv.num_dropped == 0 && !report.kv_began_anew;
  return lossless ? 0 : kExitLosses;
}

}  // namespace

void AddCache(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<CacheFlags>();
  CLI::App* cache = app.add_subcommand("cache", "Look at, keep, move, check and clear stored KV");
  cache->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, Command run, bool read_only = false) {
    CLI::App* command = cache->add_subcommand(name, help);
    AddDataDirFlag(*command, flags->config);
    server::AddTargetFlags(*command, flags->target);
    command->callback([flags, run, read_only, &chosen] {
      chosen = [flags, run, read_only] { return RunEither(*flags, run, read_only); };
    });
    return command;
  };
  const auto add_id = [&](CLI::App* command) {
    return command->add_option("id", flags->id, "as `kvgate cache ls` prints it");
  };
  add("ls", "The stored prefixes", List, true)
      ->add_flag("--json", flags->json, "as the server gives them");
  add("stats", "What is stored", Stats, true)
      ->add_flag("--json", flags->json, "all numbers, as the server gives them");
  add("verify", "Read every record and drop what is damaged",
      [](const auto& on, const auto&) { return Verify(on); });
  CLI::App* repair = cache->add_subcommand(
      "repair", "Make what is damaged anew of what can be read; needs no server on the directory");
  AddDataDirFlag(*repair, flags->config);
  repair->callback([flags, &chosen] { chosen = [flags] { return Repair(*flags); }; });
  CLI::App* pin = add("pin", "Keep a stored prefix from being evicted", Pin);
  add_id(pin)->required();
  AddPinFlags(*pin, flags->pin);
  add_id(add("unpin", "Let a pinned prefix go", Unpin))->required();
  CLI::App* move_out = add("export", "Write a stored prefix into a file", Export);
  add_id(move_out)->required();
  move_out->add_option("file", flags->file)->required();
  CLI::App* move_in = add("import", "Store a prefix from a file that `export` wrote", Import);
  move_in->add_option("file", flags->file)->required();
  move_in->add_flag("--any", flags->any, "another model's, too, which is never served here");
  CLI::App* remove = add("rm", "Remove a prefix, or all", [](const auto& on, const auto& given) {
    if (given.id.empty() && !given.all) {
      return Result<int>(
          MakeError(ErrorCode::kInvalidArgument, "cli", "give a prefix id, or --all"));
    }
    return Remove(on, given);
  });
  CLI::Option* id = add_id(remove);
  id->excludes(remove->add_flag("--all", flags->all, "every prefix"));
  remove->add_flag("--force", flags->force, "what is pinned, too");
}

}  // namespace kvgate::cli
