// `kvgate requests ls|tail` and `kvgate context ID`: the ledger's records, from a server.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/event_stream.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/query.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/cli/terminal/record_text.h"
#include "gateway/cli/terminal/screen.h"
#include "gateway/runtime/data_tier.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

struct RequestFlags {
  ConfigFlags config;
  server::TargetFlags target;
  server::Query filters;  // as the server takes them
  int64_t limit = 20;
  std::string id;
  bool json = false;
};

struct Reached {
  store::ServerAddress server;
  std::string authorization;
};

Result<Reached> Reach(const RequestFlags& flags) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  KVGATE_TRY(std::string authorization, server::AuthorizationOf(flags.target));
  KVGATE_TRY(store::ServerAddress found,
             server::RequireServer(flags.target, runtime::DataDirOf(config)));
  return Reached{std::move(found), std::move(authorization)};
}

terminal::TextArgs TextArgsNow() {
  const bool is_styled = terminal::OutputTakesStyles();
  return {.columns = is_styled ? terminal::Screen::Size().columns : 100, .is_styled = is_styled};
}

Result<std::string> Get(const Reached& reached, const std::string& path) {
  return server::FetchOk(
      server::RequestTo(reached.server, {.url = path, .authorization = reached.authorization}));
}

Result<Json> ParseObject(const std::string& body) {
  Json json = Json::parse(body, nullptr, false);
  if (json.is_object()) return json;
  return MakeError(ErrorCode::kUnavailable, "cli",
                   "the answer is no JSON object; is that a kvgate server?");
}

// The newest ones, the newest last, as a log shows them.
Result<int> ListRequests(const RequestFlags& flags) {
  KVGATE_TRY(const Reached reached, Reach(flags));
  server::Query query = flags.filters;
  query.Add("limit", std::to_string(flags.limit));
  KVGATE_TRY(const std::string body, Get(reached, query.On("/kvgate/v1/requests")));
  KVGATE_TRY(const Json list, ParseObject(body));
  Json records = list.value("data", Json::array());
  std::reverse(records.begin(), records.end());
  const terminal::TextArgs args = TextArgsNow();
  if (!flags.json) fmt::print("{}\n", terminal::RecordHeading(args));
  for (const Json& record : records) {
    fmt::print("{}\n", flags.json ? record.dump() : terminal::RecordLine(record, args));
  }
  return 0;
}

// Prints each record as its request ends, until the server or the user ends it.
Result<int> TailRequests(const RequestFlags& flags) {
  KVGATE_TRY(const Reached reached, Reach(flags));
  const terminal::TextArgs args = TextArgsNow();
  if (!flags.json) fmt::print("{}\n", terminal::RecordHeading(args));
  std::fflush(stdout);
  const auto print = [&](std::string_view name, std::string_view data) {
    const Json json = Json::parse(data, nullptr, false);
    if (!json.is_object()) return;
    if (name == "dropped") {
      fmt::print(stderr, "{} requests are not shown: they came faster than they were read\n",
                 json.value("count", int64_t{0}));
    } else if (name == "request") {
      fmt::print("{}\n", flags.json ? json.dump() : terminal::RecordLine(json, args));
      std::fflush(stdout);
    }
  };
  server::EventStream events;
  KVGATE_TRY_VOID(server::FetchOk(server::RequestTo(
      reached.server, {.url = flags.filters.On("/kvgate/v1/events"),
                       .authorization = reached.authorization,
                       .on_data = [&](std::string_view piece) { events.Push(piece, print); }})));
  return 0;
}

Result<int> ShowContext(const RequestFlags& flags) {
  KVGATE_TRY(const Reached reached, Reach(flags));
  KVGATE_TRY(const std::string body,
             Get(reached, "/kvgate/v1/requests/" + server::Escaped(flags.id)));
  KVGATE_TRY(const Json record, ParseObject(body));
  if (flags.json) {
    fmt::print("{}\n", record.dump());
    return 0;
  }
  for (const std::string& line : terminal::ContextLines(record, TextArgsNow())) {
    fmt::print("{}\n", line);
  }
  return 0;
}

void AddFilters(CLI::App& command, const std::shared_ptr<RequestFlags>& flags) {
  const auto add = [&](const char* option, const char* field, const char* help) {
    command.add_option_function<std::string>(
        option, [flags, field](const std::string& value) { flags->filters.Add(field, value); },
        help);
  };
  add("--upstream", "upstream", "of this upstream; \"local\" is the engine");
  add("--model", "model", "of this model");
  add("--tenant", "tenant", "of this tenant (admins)");
  add("--key", "key", "with the key of this name");
  add("--session", "session", "of this session");
  add("--break", "break", "whose cached prefix ended for this cause; \"any\": early at all");
  add("--status", "status", "with this HTTP status, or \"failed\"");
}

using Act = Result<int> (*)(const RequestFlags& flags);

CLI::App* AddOne(CLI::App& app, const char* name, const char* help,
                 const std::shared_ptr<RequestFlags>& flags, Act act, Run& chosen) {
  CLI::App* const command = app.add_subcommand(name, help);
  AddDataDirFlag(*command, flags->config);
  server::AddTargetFlags(*command, flags->target);
  command->add_flag("--json", flags->json, "records as the server gives them, one a line");
  command->callback([flags, act, &chosen] { chosen = [flags, act] { return act(*flags); }; });
  return command;
}

}  // namespace

void AddRequests(CLI::App& app, Run& chosen) {
  CLI::App* const group = app.add_subcommand("requests", "What was asked, one line a request");
  group->require_subcommand(1);
  const auto list = std::make_shared<RequestFlags>();
  CLI::App* const ls = AddOne(*group, "ls", "The newest requests", list, &ListRequests, chosen);
  ls->add_option("-n,--limit", list->limit, "how many")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddFilters(*ls, list);
  const auto tail = std::make_shared<RequestFlags>();
  AddFilters(
      *AddOne(*group, "tail", "Each request as it ends, until Ctrl-C", tail, &TailRequests, chosen),
      tail);
}

void AddContext(CLI::App& app, Run& chosen) {
  const auto flags = std::make_shared<RequestFlags>();
  CLI::App* const command =
      AddOne(app, "context", "One request: its prompt by source, and what the cache did with it",
             flags, &ShowContext, chosen);
  command->add_option("id", flags->id, "the request's id, as x-kvgate-request-id gave it")
      ->required();
}

}  // namespace kvgate::cli
