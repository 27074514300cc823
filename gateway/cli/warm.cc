// `kvgate warm REQUEST.json`: computes the prefix of a request in advance, and pins it if asked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "gateway/cli/commands.h"
#include "gateway/cli/local_engine.h"
#include "gateway/cli/machine/device.h"
#include "gateway/cli/options.h"
#include "gateway/cli/pin_flags.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/cli/terminal/progress.h"
#include "gateway/local/maintenance.h"
#include "gateway/service/service.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kFlushGrace{10};

struct WarmFlags {
  ConfigFlags config;
  std::string request;
  server::TargetFlags target;
  bool pin = false;
  PinFlags how;
};

// Returns the request as a client would send it, with the pin options of the flags.
Result<std::string> ReadBody(const WarmFlags& flags) {
  std::string text;
  if (flags.request == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  } else {
    std::ifstream file(flags.request, std::ios::binary);
    if (!file) {
      return MakeError(ErrorCode::kInvalidArgument, "cli",
                       fmt::format("{} cannot be read", flags.request));
    }
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  Json body = Json::parse(text, nullptr, false);
  if (!body.is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("{} is not a request in JSON", flags.request));
  }
  if (!body.contains("model")) body["model"] = "local";
  Json options = ToJson(flags.how);
  if (flags.pin) options["pin"] = true;
  if (!options.empty()) body["kvgate"].update(options);
  return body.dump();
}

// Uses an engine in this process on the data directory, which no other process may hold.
Result<std::string> WarmHere(config::Config config, const std::string& body,
                             const std::string& authorization) {
  KVGATE_TRY_VOID(machine::ResolveDevice(config));
  const DataTier tier = OpenDataTier(config);
  if (tier.directory == nullptr) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     fmt::format("nothing can be kept: {}", tier.reason));
  }
  KVGATE_TRY(const auto local, LocalEngine::Open(config, tier));
  KVGATE_TRY(auto provider, local->MakeProvider(config, nullptr));
  metrics::Registry registry;
  metrics::GatewayMetrics metrics(registry);
  service::Service service({.registry = registry,
                            .metrics = metrics,
                            .kv = tier.kv(),
                            .pins = tier.pins(),
                            .hash_seed = tier.hash_seed(),
                            .keyring = tier.keyring(),
                            .limits = {.json_depth_max = config.limits.json_depth}});
  service.SetLocal(std::move(provider));
  Result<std::string> done;
  {
    KVGATE_TRY(const auto job, service.StartWarm({.body = body, .credential = authorization}));
    while (!job->Poll()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    done = job->Finish();
  }
  local->engine().Drain(kFlushGrace);
  local::SaveWriteBudget(*tier.meta(), tier.write_admission->state());
  return done;
}

Result<int> Warm(const WarmFlags& flags) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  KVGATE_TRY(const std::string body, ReadBody(flags));
  KVGATE_TRY(const std::string authorization, server::AuthorizationOf(flags.target));
  // Chooses as `chat` does: the server named, else the one that holds the directory, else an engine
  // in this process.
  store::ServerAddress server;
  if (!flags.target.url.empty() || config.engine.model.empty()) {
    server = server::FindServer(flags.target, DataDirOf(config));
  }
  Result<std::string> reply;
  {
    const terminal::Progress progress("warming");
    if (server.url.empty()) {
      reply = WarmHere(config, body, authorization);
    } else {
      reply = server::FetchOk(server::RequestTo(server, {.method = "POST",
                                                         .url = "/kvgate/v1/prefixes/warm",
                                                         .body = body,
                                                         .authorization = authorization}));
    }
  }
  KVGATE_TRY(const std::string text, std::move(reply));
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     "the answer is not in JSON; is that a kvgate server?");
  }
  fmt::print("{} {} tokens, {} were cached, {}{}\n", json.value("id", ""),
             json.value("tokens", uint64_t{0}), json.value("cached_tokens", uint64_t{0}),
             json.value("stored", false) ? "on disk" : "in memory only",
             json.value("pinned", false) ? ", pinned" : "");
  return 0;
}

}  // namespace

void AddWarm(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<WarmFlags>();
  CLI::App* command = app.add_subcommand(
      "warm", "Compute and keep the prefix that requests like this one begin with");
  AddEngineFlags(*command, flags->config);
  command
      ->add_option("request", flags->request,
                   "a chat or completions request in JSON, as a client sends it; - reads stdin")
      ->required();
  server::AddTargetFlags(*command, flags->target);
  command->add_flag("--pin", flags->pin, "keep it from being evicted (as naming it does)");
  AddPinFlags(*command, flags->how);
  command->callback([flags, &chosen] { chosen = [flags] { return Warm(*flags); }; });
}

}  // namespace kvgate::cli
