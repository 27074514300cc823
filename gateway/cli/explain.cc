// `kvgate explain REQUEST.json`: what would be done to a request on its way to an upstream: by the
// server that holds the data directory, which knows its conversation, else by the configuration
// alone, as to a first request.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "gateway/cli/commands.h"
#include "gateway/cli/http_client.h"
#include "gateway/cli/local_engine.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server_target.h"
#include "gateway/service/prompts.h"
#include "gateway/upstream/upstreams.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ExplainFlags {
  ConfigFlags config;
  std::string request;
  std::string endpoint;
  std::string upstream;
  std::string mode;
  TargetFlags target;
  bool json = false;
};

Result<std::string> ReadRequest(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return MakeError(ErrorCode::kInvalidArgument, "cli", fmt::format("{} cannot be read", path));
  }
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Which dialect a body is in, where nobody says.
std::string GuessEndpoint(const Json& body) {
  if (body.contains("input")) return "responses";
  const bool claude = body.value("model", Json()).is_string() &&
                      body["model"].get<std::string>().find("claude") != std::string::npos;
  return body.contains("system") || claude ? "messages" : "chat_completions";
}

// By the configuration: its upstream for the model, else one that has only its dialect.
Result<std::string> ExplainHere(const config::Config& config, const ExplainFlags& flags,
                                const std::string& body, const std::string& model) {
  const auto endpoint = service::PromptEndpoint(flags.endpoint);
  const bool messages = endpoint == upstream::Endpoint::kMessages;
  const upstream::Dialect dialect =
      messages ? upstream::Dialect::kAnthropic : upstream::Dialect::kOpenAi;
  config::UpstreamConfig chosen;
  chosen.name = upstream::DialectName(dialect);
  std::string provider(upstream::DialectName(dialect));
  if (!config.upstreams.empty()) {
    KVGATE_TRY(const auto upstreams,
               upstream::Upstreams::Open(config.upstreams, upstream::ProcessEnvironment));
    KVGATE_TRY(const upstream::Upstream* found,
               upstreams->Choose({.dialect = dialect, .name = flags.upstream, .model = model}));
    chosen = found->config();
    provider = found->provider();
  }
  if (!flags.mode.empty()) chosen.mode = flags.mode;
  const service::Prompts prompts({.keep_text = true});
  return prompts.Explain({.body = body,
                          .endpoint = *endpoint,
                          .tenant = "",
                          .upstream = chosen,
                          .provider = provider,
                          .fields = {},
                          .credential = ""});
}

void Print(const Json& found) {
  fmt::print("mode {}, upstream {} ({})\n", found.value("mode", ""), found.value("upstream", ""),
             found.value("provider", ""));
  if (found["unreadable"].is_string()) {
    fmt::print("forwarded as it came: {}\n", found["unreadable"].get<std::string>());
  }
  const Json& conversation = found["conversation"];
  fmt::print("conversation {} by {}{}\n", conversation.value("id", ""),
             conversation.value("origin", ""),
             conversation.value("first", true) ? ", its first request" : "");
  for (const Json& edit : found["edits"]) {
    fmt::print("edit {:<18} {}: {} bytes become {}\n", edit.value("rule", ""),
               edit.value("path", ""), edit.value("bytes_removed", uint64_t{0}),
               edit.value("bytes_added", uint64_t{0}));
    fmt::print("  - {}\n  + {}\n", edit["before"].dump(), edit["after"].dump());
  }
  if (found["edits"].empty()) fmt::print("no edits: the bytes go out as they came\n");
  for (const Json& header : found["headers"]) {
    fmt::print("header {}: {}\n", header.value("name", ""), header.value("value", ""));
  }
  const Json& plan = found["plan"];
  fmt::print("plan: {}; {} markers, expected reuse {:.2f}\n", plan.value("reason", ""),
             plan.value("markers", uint64_t{0}), plan.value("expected_reuse", 0.0));
  for (const Json& rule : found["rules"]) {
    fmt::print("rule {:<18} {}\n", rule.value("name", ""), rule.value("on", true) ? "on" : "off");
  }
  for (const Json& note : found["notes"]) fmt::print("note: {}\n", note.get<std::string>());
}

Result<int> Explain(ExplainFlags flags) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  KVGATE_TRY(const std::string body, ReadRequest(flags.request));
  const Json request = Json::parse(body, nullptr, false);
  if (!request.is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("{} is not a request in JSON", flags.request));
  }
  if (flags.endpoint.empty()) flags.endpoint = GuessEndpoint(request);
  if (!service::PromptEndpoint(flags.endpoint)) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     "--endpoint must be chat_completions, responses or messages");
  }
  const Json model = request.value("model", Json());
  KVGATE_TRY(const std::string authorization, AuthorizationOf(flags.target));
  store::ServerAddress server;
  if (!flags.target.url.empty() || flags.mode.empty()) {
    server = FindServer(flags.target, DataDirOf(config));
  }
  Result<std::string> found;
  if (server.url.empty()) {
    found = ExplainHere(config, flags, body, model.is_string() ? model.get<std::string>() : "");
  } else {
    found =
        FetchOk(RequestTo(server, {.method = "POST",
                                   .url = fmt::format("/kvgate/v1/explain?endpoint={}&upstream={}",
                                                      flags.endpoint, flags.upstream),
                                   .body = body,
                                   .authorization = authorization}));
  }
  KVGATE_TRY(const std::string text, std::move(found));
  const Json explanation = Json::parse(text, nullptr, false);
  if (!explanation.is_object()) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     "the answer is not in JSON; is that a kvgate server?");
  }
  if (flags.json) {
    fmt::print("{}\n", explanation.dump(2));
  } else {
    Print(explanation);
  }
  return 0;
}

}  // namespace

void AddExplain(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* command = app.add_subcommand(
      "explain", "Show what would be done to a request on its way to an upstream");
  AddEngineFlags(*command, flags->config);
  command
      ->add_option("request", flags->request,
                   "a request in JSON, as a client sends it; - reads stdin")
      ->required();
  command->add_option("--endpoint", flags->endpoint,
                      "chat_completions, responses or messages; guessed from the body");
  command->add_option("--upstream", flags->upstream, "its name; by default the model's");
  command
      ->add_option("--mode", flags->mode,
                   "as if it were the upstream's, for a first request; asks no server")
      ->check(CLI::IsMember({"observe", "pin", "stabilize"}));
  AddTargetFlags(*command, flags->target);
  command->add_flag("--json", flags->json, "as JSON");
  command->callback([flags, &chosen] { chosen = [flags] { return Explain(*flags); }; });
}

}  // namespace kvgate::cli
