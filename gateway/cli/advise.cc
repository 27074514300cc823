// `kvgate advise`: what the requests of the last day advise to change, and what that would save.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "gateway/advice/day_advice.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/ledger/ledger.h"
#include "gateway/runtime/data_tier.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

struct AdviseFlags {
  ConfigFlags config;
  server::TargetFlags target;
  bool json = false;
};

Result<std::string> FromDirectory(const config::Config& config,
                                  const std::filesystem::path& directory) {
  KVGATE_TRY_VOID(CheckDataDir(directory));
  KVGATE_TRY(const auto opened,
             store::DataDirectory::Open({.directory = directory,
                                         .kv_bytes_max = config.store.disk_cache_bytes,
                                         .read_only = true,
                                         .secret_env = config.store.secret_env}));
  ledger::Ledger ledger({.meta = &opened->meta()});
  return advice::AdviseDay(ledger);
}

void Print(const Json& advice) {
  if (advice.empty()) {
    fmt::print("nothing to advise: the requests of the last day show none of the known patterns\n");
    return;
  }
  for (const Json& item : advice) {
    const Json where = item.value("where", Json::object());
    const double dollars = static_cast<double>(item.value("nanodollars_per_day", int64_t{0})) / 1e9;
    fmt::print("{} ({}, {}{}{})\n", item.value("title", ""), where.value("model", ""),
               where.value("upstream", ""), where.contains("path") ? ", " : "",
               where.value("path", ""));
    fmt::print("  ${:.2f} and {} tokens a day\n", dollars,
               item.value("tokens_per_day", int64_t{0}));
    fmt::print("  {}\n  {}\n", item.value("what", ""), item.value("fix", ""));
    if (const Json setting = item.value("setting", Json()); setting.is_object()) {
      fmt::print("  setting: {} = \"{}\"\n", setting.value("key", ""), setting.value("value", ""));
    }
    for (const Json& id : item.value("evidence", Json::array())) {
      fmt::print("  request {}\n", id.get<std::string>());
    }
  }
}

Result<int> Advise(const AdviseFlags& flags) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  const std::filesystem::path directory = runtime::DataDirOf(config);
  KVGATE_TRY(const std::string authorization, server::AuthorizationOf(flags.target));
  const store::ServerAddress server = server::FindServer(flags.target, directory);
  KVGATE_TRY(const std::string body,
             server.url.empty()
                 ? FromDirectory(config, directory)
                 : server::FetchOk(server::RequestTo(
                       server, {.url = "/kvgate/v1/advice", .authorization = authorization})));
  const Json advice = Json::parse(body, nullptr, false);
  if (!advice.is_object() || !advice.contains("data")) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     "the answer has no advice; is that a kvgate server?");
  }
  if (flags.json) {
    fmt::print("{}\n", advice.dump());
  } else {
    Print(advice["data"]);
  }
  return 0;
}

}  // namespace

void AddAdvise(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<AdviseFlags>();
  CLI::App* command =
      app.add_subcommand("advise", "What to change in prompts, and what that would save");
  AddDataDirFlag(*command, flags->config);
  server::AddTargetFlags(*command, flags->target);
  command->add_flag("--json", flags->json, "as the server gives it");
  command->callback([flags, &chosen] { chosen = [flags] { return Advise(*flags); }; });
}

}  // namespace kvgate::cli
