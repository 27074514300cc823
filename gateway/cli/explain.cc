// `kvgate explain REQUEST.json`: shows what would be done to a request on its way to an upstream.
// The server that holds the data directory answers, since it knows the conversation; without one
// the configuration alone decides, as for a first request.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/route/route_table.h"
#include "gateway/runtime/data_tier.h"
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
  std::string key_header;  // empty: the one that the dialect's clients use
  server::TargetFlags target;
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

// Guesses the dialect of a body if no endpoint is given.
std::string GuessEndpoint(const Json& body) {
  if (body.contains("input")) return "responses";
  const bool claude = body.value("model", Json()).is_string() &&
                      body["model"].get<std::string>().find("claude") != std::string::npos;
  return body.contains("system") || claude ? "messages" : "chat_completions";
}

// Returns the upstream that the first matching route asks first; empty if no route matches.
Result<std::string> RoutedTo(const config::Config& config, const std::string& model) {
  std::vector<std::string> names;
  for (const config::UpstreamConfig& upstream : config.upstreams) names.push_back(upstream.name);
  KVGATE_TRY(const auto routes, route::RouteTable::Open(config.routes, names, true));
  const route::Route* const route = routes->Find(model);
  if (route == nullptr) return std::string();
  const std::string& first = route->config().targets.front();
  return first.substr(0, first.find('/'));
}

struct Answering {
  config::UpstreamConfig upstream;
  std::string provider;
};

// Returns the upstream that would answer by the configuration. With --mode and no upstream
// configured, it has only a dialect.
Result<Answering> WhoAnswers(const config::Config& config, const ExplainFlags& flags,
                             dialect::form::Api dialect, const std::string& model) {
  KVGATE_TRY(const std::string routed, RoutedTo(config, model));
  const std::string name = flags.upstream.empty() ? routed : flags.upstream;
  const bool is_local = name == route::Target::kLocal || (name.empty() && model == "local");
  if (is_local || (name.empty() && config.upstreams.empty() && flags.mode.empty())) {
    config::EngineConfig engine = config.engine;
    if (!flags.mode.empty()) engine.mode = flags.mode;
    return Answering{service::LocalUpstream(engine), std::string(route::Target::kLocal)};
  }
  Answering answering;
  if (config.upstreams.empty() && flags.upstream.empty()) {
    answering.provider = dialect::form::ApiName(dialect);
    answering.upstream.name = fmt::format("none is configured; as of {}", answering.provider);
  } else {
    KVGATE_TRY(const auto upstreams,
               upstream::Upstreams::Open(config.upstreams, upstream::wire::ProcessEnvironment));
    KVGATE_TRY(const upstream::Upstream* found,
               upstreams->Choose({.dialect = dialect, .name = name, .model = model}));
    answering = {.upstream = found->config(), .provider = std::string(found->provider())};
  }
  if (!flags.mode.empty()) answering.upstream.mode = flags.mode;
  return answering;
}

Result<std::string> ExplainHere(const config::Config& config, const ExplainFlags& flags,
                                const std::string& body, const std::string& model) {
  const auto endpoint = service::PromptEndpoint(flags.endpoint);
  const bool messages = endpoint == dialect::form::Endpoint::kMessages;
  KVGATE_TRY(
      const Answering answering,
      WhoAnswers(config, flags,
                 messages ? dialect::form::Api::kAnthropic : dialect::form::Api::kOpenAi, model));
  const service::Prompts prompts({.keep_text = true});
  return prompts.Explain({.body = body,
                          .endpoint = *endpoint,
                          .tenant = "",
                          .upstream = answering.upstream,
                          .provider = answering.provider,
                          .fields = {},
                          .credential = ""});
}

// Prints the names, wrapped into lines of 80 columns.
void PrintList(const char* title, const std::vector<std::string>& names) {
  constexpr size_t kColumns = 80;
  std::string line = fmt::format("{:<13}", title);
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = names[i] + (i + 1 < names.size() ? "," : "");
    if (line.size() + 1 + name.size() > kColumns) {
      fmt::print("{}\n", line);
      line = std::string(13, ' ');
    }
    line += (line.ends_with(' ') ? "" : " ") + name;
  }
  fmt::print("{}\n", line);
}

void Print(const Json& found) {
  fmt::print("upstream     {} ({})\nmode         {}\n", found.value("upstream", ""),
             found.value("provider", ""), found.value("mode", ""));
  if (found["unreadable"].is_string()) {
    fmt::print("forwarded as it came: {}\n", found["unreadable"].get<std::string>());
  }
  const Json& conversation = found["conversation"];
  fmt::print("conversation {} by {}{}\n", conversation.value("id", ""),
             conversation.value("origin", ""),
             conversation.value("first", true) ? ", its first request" : "");
  std::vector<std::string> sources;
  const Json by_source = found.value("sources", Json::object());
  for (const auto& [name, tokens] : by_source.items()) {
    sources.push_back(fmt::format("{} {}", name, tokens.get<int64_t>()));
  }
  if (!sources.empty()) PrintList("tokens about", sources);
  for (const Json& edit : found["edits"]) {
    fmt::print("edit         {} {}: {} bytes become {}\n", edit.value("rule", ""),
               edit.value("path", ""), edit.value("bytes_removed", uint64_t{0}),
               edit.value("bytes_added", uint64_t{0}));
    fmt::print("  - {}\n  + {}\n", edit["before"].dump(), edit["after"].dump());
  }
  if (found["edits"].empty()) fmt::print("no edits: the bytes go out as they came\n");
  for (const Json& header : found["headers"]) {
    fmt::print("header       {}: {}\n", header.value("name", ""), header.value("value", ""));
  }
  const Json& plan = found["plan"];
  if (found.value("provider", "") != route::Target::kLocal) {
    fmt::print("plan         {}; {} markers, expected reuse {:.2f}\n", plan.value("reason", ""),
               plan.value("markers", uint64_t{0}), plan.value("expected_reuse", 0.0));
  }
  std::vector<std::string> off;
  for (const Json& rule : found["rules"]) {
    if (!rule.value("on", true)) off.push_back(rule.value("name", ""));
  }
  if (off.size() == found["rules"].size()) off = {"all"};
  if (!off.empty()) PrintList("rules off", off);
  for (const Json& line : found["templates"]) {
    fmt::print("template     {}\n  {}\n", line.value("line", ""), line.value("why", ""));
  }
  if (const Json held = found.value("held_stale", Json()); held.is_object()) {
    fmt::print("held_stale   {} lines keep values of {} s ago\n", held.value("lines", uint64_t{0}),
               held.value("seconds", int64_t{0}));
  }
  for (const Json& note : found["notes"]) fmt::print("note         {}\n", note.get<std::string>());
}

// Sends the key in the header that the dialect's clients use, unless told otherwise: a server
// without keys of its own identifies the caller's conversations by header and value.
void Authorize(const std::string& authorization, const ExplainFlags& flags,
               server::HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const bool is_oauth = authorization.find("sk-ant-oat") != std::string::npos;
  const bool by_dialect = flags.key_header.empty() && flags.endpoint == "messages" && !is_oauth;
  if ((by_dialect || flags.key_header == "x-api-key") && authorization.starts_with(kScheme)) {
    request.api_key = authorization.substr(kScheme.size());
  } else {
    request.authorization = authorization;
  }
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
  KVGATE_TRY(const std::string authorization, server::AuthorizationOf(flags.target));
  store::ServerAddress server;
  if (!flags.target.url.empty() || flags.mode.empty()) {
    server = server::FindServer(flags.target, runtime::DataDirOf(config));
  }
  Result<std::string> found;
  if (server.url.empty()) {
    found = ExplainHere(config, flags, body, model.is_string() ? model.get<std::string>() : "");
  } else {
    server::HttpRequest asked = {.method = "POST",
                                 .url = fmt::format("/kvgate/v1/explain?endpoint={}&upstream={}",
                                                    flags.endpoint, flags.upstream),
                                 .body = body};
    Authorize(authorization, flags, asked);
    found = server::FetchOk(server::RequestTo(server, std::move(asked)));
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
  server::AddTargetFlags(*command, flags->target);
  command
      ->add_option("--key-header", flags->key_header,
                   "in which header your client sends its key; by default x-api-key for messages, "
                   "else authorization")
      ->check(CLI::IsMember({"authorization", "x-api-key"}));
  command->add_flag("--json", flags->json, "as JSON");
  command->callback([flags, &chosen] { chosen = [flags] { return Explain(*flags); }; });
}

}  // namespace kvgate::cli
