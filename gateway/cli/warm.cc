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
#include <utility>

#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/pin_flags.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/cli/terminal/progress.h"
#include "gateway/metrics/registry.h"
#include "gateway/runtime/data_tier.h"
#include "gateway/runtime/runtime.h"
#include "gateway/service/prompts.h"
#include "gateway/service/service.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

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
  metrics::Registry registry;
  const config::UpstreamConfig engine = service::LocalUpstream(config.engine);
  const upstream::wire::HeaderFields fields;
  KVGATE_TRY(const auto gateway, runtime::Runtime::Open({.config = std::move(config),
                                                         .registry = registry,
                                                         .takes_requests = false,
                                                         .needs_disk = true,
                                                         .needs_engine = true}));
  Result<std::string> done;
  {
    KVGATE_TRY(const auto job,
               gateway->service().StartWarm(
                   {.body = body,
                    .credential = authorization,
                    .prompt = service::Service::PromptArgs{.engine = engine, .fields = fields}}));
    while (!job->Poll()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    done = job->Finish();
  }
  gateway->Stop([](std::chrono::milliseconds) { return false; });
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
    server = server::FindServer(flags.target, runtime::DataDirOf(config));
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
