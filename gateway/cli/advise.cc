// `kvgate advise`: what the requests of the last day advise to change, and what that would save.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "gateway/advice/day_advice.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/ledger_source.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/cli/terminal/figures.h"
#include "gateway/cli/terminal/json_field.h"
#include "gateway/ledger/ledger.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

constexpr size_t kTextColumns = 1000;

struct AdviseFlags {
  ConfigFlags config;
  server::TargetFlags target;
  bool json = false;
};

// A text of the server's, whole; names in it were chosen by clients.
std::string Said(const Json& object, const char* name) {
  return terminal::Shown(terminal::TextOf(object, name), kTextColumns);
}

void Print(const Json& advice) {
  if (advice.empty()) {
    fmt::print("nothing to advise: the requests of the last day show none of the known patterns\n");
    return;
  }
  for (const Json& item : advice) {
    const Json where = terminal::FieldOf(item, "where");
    fmt::print("{} ({}, {}{}{})\n", Said(item, "title"), Said(where, "model"),
               Said(where, "upstream"), where.contains("path") ? ", " : "",
               where.contains("path") ? Said(where, "path") : "");
    fmt::print("  {} and {} tokens a day\n",
               terminal::Dollars(terminal::CountOf(item, "nanodollars_per_day")),
               terminal::CountOf(item, "tokens_per_day"));
    fmt::print("  {}\n  {}\n", Said(item, "what"), Said(item, "fix"));
    if (const Json setting = terminal::FieldOf(item, "setting"); setting.is_object()) {
      fmt::print("  setting: {} = \"{}\"\n", Said(setting, "key"), Said(setting, "value"));
    }
    for (const Json& id : terminal::FieldOf(item, "evidence")) {
      if (id.is_string()) fmt::print("  request {}\n", terminal::Shown(id.get<std::string>(), 64));
    }
  }
}

Result<int> Advise(const AdviseFlags& flags) {
  KVGATE_TRY(const LedgerSource source, LedgerSource::Open(flags.config, flags.target));
  KVGATE_TRY(const std::string body, source.Get("/kvgate/v1/advice", [](ledger::Ledger& ledger) {
    return advice::AdviseDay(ledger);
  }));
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
