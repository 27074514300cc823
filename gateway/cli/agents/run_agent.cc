#include "gateway/cli/agents/run_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "gateway/cli/agents/agent_table.h"
#include "gateway/cli/agents/child.h"
#include "gateway/cli/agents/launch.h"
#include "gateway/cli/agents/overlay.h"
#include "gateway/cli/agents/relay.h"
#include "gateway/cli/agents/run_report.h"
#include "gateway/cli/agents/run_server.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/query.h"
#include "gateway/cli/terminal/json_field.h"

namespace kvgate::cli::agents {
namespace {

using Json = nlohmann::json;

constexpr int kNoSuchCommand = 127;
constexpr std::string_view kLocalModel = "local";
// What an agent that is not asked for a credential of the user's sends; anything would do.
constexpr std::string_view kLocalKey = "kvgate-local";
constexpr int64_t kPageRecords = 500;
// How far the clock of a named server may be behind this machine's.
constexpr int64_t kClockSlackUs = 600'000'000;
// A record is there a moment after its answer has ended.
constexpr int kRecordReadsMax = 20;
constexpr std::chrono::milliseconds kRecordPause{50};

struct Ledger {
  store::ServerAddress server;
  std::string authorization;
  int64_t since_us;
};

// The records of these requests, as far as there are any: not every request has one.
Result<RunReport> ReadReport(const Ledger& ledger, const std::set<std::string>& ids) {
  RunReport report;
  std::set<std::string> missing = ids;
  std::string before;
  while (!missing.empty()) {
    server::Query query;
    query.Add("limit", fmt::format("{}", kPageRecords));
    query.Add("since_us", fmt::format("{}", ledger.since_us));
    if (!before.empty()) query.Add("before", before);
    KVGATE_TRY(
        const std::string body,
        server::FetchOk(server::RequestTo(ledger.server, {.url = query.On("/kvgate/v1/requests"),
                                                          .authorization = ledger.authorization})));
    const Json page = Json::parse(body, nullptr, false);
    const Json records = terminal::FieldOf(page, "data");
    if (!records.is_array()) {
      return MakeError(ErrorCode::kUnavailable, "cli", "the server lists no requests");
    }
    for (const Json& record : records) {
      before = terminal::TextOf(record, "id");
      if (missing.erase(before) > 0) report.Add(record);
    }
    if (records.empty() || before.empty() || !page.value("has_more", false)) break;
  }
  return report;
}

Result<RunReport> AwaitReport(const Ledger& ledger, const std::set<std::string>& ids) {
  KVGATE_TRY(RunReport report, ReadReport(ledger, ids));
  for (int i = 0; i < kRecordReadsMax; ++i) {
    if (report.num_requests() == static_cast<int64_t>(ids.size())) break;
    std::this_thread::sleep_for(kRecordPause);
    KVGATE_TRY(RunReport next, ReadReport(ledger, ids));
    const bool is_same = next.num_requests() == report.num_requests();
    report = std::move(next);
    if (is_same && report.num_requests() > 0) break;
  }
  return report;
}

void PrintReport(const Ledger& ledger, const Relay& relay) {
  const std::set<std::string> ids = relay.request_ids();
  const auto print = [](const std::string& line) { fmt::print(stderr, "kvgate: {}\n", line); };
  if (const std::string failure = relay.last_failure(); !failure.empty()) {
    print(fmt::format("a connection was refused: {}", failure));
  }
  if (ids.empty()) {
    print("no request came through kvgate; has the agent a base URL of its own in its settings?");
    return;
  }
  const Result<RunReport> report = AwaitReport(ledger, ids);
  if (!report) {
    print(fmt::format("what it cost is not known: {}", report.error().detail));
    return;
  }
  for (const std::string& line : report->Lines()) print(line);
}

}  // namespace

Result<int> RunAgent(const RunArgs& args) {
  const std::string program = FindProgram(args.command.front());
  const Agent& agent = AgentOfCommand(args.command.front());
  if (program.empty()) {
    const std::string advice =
        agent.install.empty() ? "" : fmt::format("; to install it: {}", agent.install);
    fmt::print(stderr, "kvgate: there is no command {}{}\n", args.command.front(), advice);
    return kNoSuchCommand;
  }
  KVGATE_TRY(const std::string authorization, server::AuthorizationOf(args.target));
  std::string key =
      authorization.substr(std::min(authorization.find(' ') + 1, authorization.size()));
  if (key.empty() && args.is_local) key = kLocalKey;
  // From here on the signals that end this process are waited for, and the threads ignore them.
  const SignalGuard signals;
  KVGATE_TRY(const std::unique_ptr<RunServer> server,
             RunServer::Open({.target = args.target,
                              .directory = args.directory,
                              .serve_arguments = args.serve_arguments,
                              .is_quiet = args.is_quiet}));
  Result<void> found;
  signals.Interruptible([&] { found = server->Await(); });
  if (!found) return found.error();
  if (!server->is_own() && args.has_engine_flags && !args.is_quiet) {
    fmt::print(stderr, "kvgate: {} is running with options of its own, which apply\n",
               server->address().url);
  }
  KVGATE_TRY(const std::unique_ptr<Relay> relay,
             Relay::Open([&server = *server] { return server.Dial(); }));
  KVGATE_TRY(Overlay overlay, Overlay::Open());
  KVGATE_TRY(const Launch launch,
             PlanLaunch(agent, {.origin = relay->origin(),
                                .overlay = overlay.path().string(),
                                .key = key,
                                .model = std::string(args.is_local ? kLocalModel : "")}));
  for (const auto& [name, content] : launch.files) {
    KVGATE_TRY_VOID(overlay.Write(name, content));
  }
  ChildArgs child{.program = program,
                  .arguments = {args.command.front()},
                  .variables = launch.variables,
                  .removed = launch.removed};
  child.arguments.insert(child.arguments.end(), launch.arguments.begin(), launch.arguments.end());
  child.arguments.insert(child.arguments.end(), args.command.begin() + 1, args.command.end());
  const int64_t begun_us = WallClock::NowUs();
  KVGATE_TRY(const int status, RunChild(child, signals));
  if (!args.is_quiet) {
    PrintReport({.server = server->address(),
                 .authorization = authorization,
                 .since_us = begun_us - kClockSlackUs},
                *relay);
  }
  return status;
}

}  // namespace kvgate::cli::agents
