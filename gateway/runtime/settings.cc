#include "gateway/runtime/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/regular_file.h"
#include "gateway/runtime/local_embeddings.h"
#include "gateway/upstream/body_scan.h"

namespace kvgate::runtime {
namespace {

// Warns if there are keys but none with the admin role, because no client could then do admin work.
void WarnOfKeys(const config::Config& config) {
  const bool has_admin = std::any_of(config.keys.begin(), config.keys.end(),
                                     [](const auto& key) { return key.role == "admin"; });
  if (config.keys.empty() || has_admin) return;
  KVGATE_LOG(kWarning, "runtime",
             "none of the {} keys has role = \"admin\": only this machine's own commands see all "
             "records, remove others' prefixes, import and reach /metrics",
             config.keys.size());
}

}  // namespace

bool HasLocalModel(const config::Config& config) {
  if (config.engine.is_embedding_only) return false;
  return config.upstreams.empty() || !config.engine.model.empty();
}

Result<config::HostPort> ListenAddress(const config::Config& config) {
  KVGATE_TRY(config::HostPort listen, config::ParseHostPort(config.server.listen));
  if (!listen.is_loopback() && config.keys.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "runtime",
                     fmt::format("listening on {} needs a [[key]] in the configuration; without "
                                 "one listen on 127.0.0.1",
                                 listen.host));
  }
  WarnOfKeys(config);
  return listen;
}

proxy::request::TargetOptions ToTargetOptions(const config::Config& config) {
  return {.upstreams = config.upstreams,
          .serves_known_providers = config.server.known_providers,
          .routes = config.routes,
          .keys = config.keys,
          .tenant_budgets = config.budgets.tenant,
          .budget_thresholds = config.budgets.thresholds,
          .engine = config.engine,
          .metrics = config.metrics};
}

http::socket::ListenerTls::Options ToTlsOptions(const config::Config& config) {
  return {.cert_file = config.server.tls_cert,
          .key_file = config.server.tls_key,
          .min_version = config.server.tls_min_version};
}

http::ServerOptions ToServerOptions(const config::Config& config, const config::HostPort& listen) {
  const config::LimitsConfig& limits = config.limits;
  return {.address = listen.host,
          .port = listen.port,
          .tls = ToTlsOptions(config),
          .allowed_hosts = config.server.allowed_hosts,
          .import_bytes_max = limits.import_bytes,
          .header_bytes_max = limits.header_bytes,
          .connections_max = limits.connections,
          .header_timeout = std::chrono::seconds(limits.header_timeout_seconds),
          .body_timeout = std::chrono::seconds(limits.body_timeout_seconds),
          .body_bytes_per_second_min = static_cast<uint64_t>(limits.body_bytes_per_second_min),
          .idle_timeout = std::chrono::seconds(limits.idle_timeout_seconds),
          .write_timeout = std::chrono::seconds(limits.write_timeout_seconds)};
}

proxy::host::HostOptions ToHostOptions(const config::Config& config,
                                       const std::string& admin_token) {
  return {.threads = config.server.threads,
          .pools = {.store_timeout = std::chrono::seconds(config.store.timeout_seconds)},
          .bodies_bytes_max = config.limits.bodies_bytes,
          .tenant_bodies_share = config.limits.tenant_bodies_share,
          .requests = {.admin_token = admin_token, .body_bytes_max = config.limits.body_bytes},
          .targets = ToTargetOptions(config)};
}

Result<session::summary::SummaryPrompt> ReadSummaryPrompt(const config::Config& config) {
  if (config.sessions.summary_prompt.empty()) return session::summary::SummaryPrompt();
  return session::summary::SummaryPrompt::Load(config.sessions.summary_prompt);
}

Result<std::vector<session::prompts::PromptVersion>> ReadPrompts(const config::Config& config) {
  std::vector<session::prompts::PromptVersion> versions;
  for (const config::PromptConfig& prompt : config.prompts) {
    const auto unusable = [&](std::string_view why) {
      return MakeError(ErrorCode::kInvalidArgument, "config",
                       fmt::format("prompt.file: {}@{}: {}: {}", prompt.name, prompt.version,
                                   prompt.file.string(), why));
    };
    const Result<std::string> text =
        ReadRegularFile(prompt.file, {.bytes_max = session::prompts::kTextBytesMax + 2});
    if (!text) return unusable(text.error().detail);
    Result<session::prompts::PromptVersion> version = session::prompts::MakeVersion(
        {.name = prompt.name, .version = prompt.version}, *text, prompt.share);
    if (!version) return unusable(version.error().detail);
    versions.push_back(*std::move(version));
  }
  return versions;
}

session::Sessions::Options ToSessionOptions(const config::Config& config,
                                            const SessionStores& stores,
                                            session::summary::SummaryPrompt prompt) {
  const config::SessionsConfig& sessions = config.sessions;
  using session::window::Mode;
  return {.turns = stores.turns,
          .shared = stores.shared,
          .window = {.mode = sessions.mode == "off"       ? Mode::kOff
                             : sessions.mode == "summary" ? Mode::kSummary
                                                          : Mode::kHard,
                     .high = sessions.window_high,
                     .low = sessions.window_low,
                     .hard = sessions.window_hard,
                     .summary_tokens_max = sessions.summary_tokens_max,
                     .keep_system = sessions.keep_system,
                     .keep_first_turns = static_cast<int>(sessions.keep_first_turns)},
          .wait_seconds_max = static_cast<int>(sessions.wait_seconds_max),
          .prompt = std::move(prompt),
          .summary_model = sessions.summary_model,
          .summary_wait_seconds = static_cast<int>(sessions.summary_wait_seconds),
          .folds_idle = sessions.idle_compact == "auto",
          .lends_callers_key = sessions.summary_api_key == "caller",
          .memory = {.book = stores.memory,
                     .vectors = stores.vectors,
                     .retrieves = sessions.retrieval,
                     .retrieval_tokens = sessions.retrieval_tokens},
          .results = {.stubs = sessions.tool_results == "stub",
                      .bytes_max = static_cast<size_t>(sessions.tool_result_tokens) * 4}};
}

std::string MissingRetrievalModel(const config::Config& config, const ServesEmbeddings& serves) {
  const std::string& model = config.sessions.retrieval_model;
  if (model.empty()) return "";
  const std::vector<std::string> names =
      serves ? std::vector<std::string>() : NamesOfEmbeddingModel(config.engine);
  const bool is_local =
      serves ? serves(model) : std::find(names.begin(), names.end(), model) != names.end();
  if (is_local) return "";
  for (const config::UpstreamConfig& upstream : config.upstreams) {
    if (upstream.dialect != "openai") continue;
    for (const std::string& glob : upstream.models) {
      if (upstream::GlobMatches(glob, model)) return "";
    }
  }
  return fmt::format(
      "nobody serves the model '{}' at /v1/embeddings, so that sessions are searched "
      "by words alone",
      model);
}

Result<config::Config> Reloadable(const config::Config& running, config::Config next) {
  next.server = running.server;
  if (next.upstreams.empty() != running.upstreams.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "config",
                     "with its first [[upstream]], or without its last one, a server has to be "
                     "started anew: that decides whether it has an engine of its own");
  }
  KVGATE_TRY_VOID(ListenAddress(next));
  return next;
}

config::Config InForce(config::Config start, const config::Config& next) {
  start.server.log_level = next.server.log_level;
  start.server.log_format = next.server.log_format;
  start.engine.mode = next.engine.mode;
  start.engine.rules_off = next.engine.rules_off;
  start.metrics.key_env = next.metrics.key_env;
  start.metrics.sha256 = next.metrics.sha256;
  start.budgets = next.budgets;
  start.upstreams = next.upstreams;
  start.routes = next.routes;
  start.keys = next.keys;
  start.prompts = next.prompts;
  return start;
}

std::string UnreadTables(const config::Config& running, config::Config next) {
  next.server.log_level = running.server.log_level;  // applied by a reload
  next.server.log_format = running.server.log_format;
  next.engine.mode = running.engine.mode;
  next.engine.rules_off = running.engine.rules_off;
  std::vector<std::string_view> tables;
  if (!(next.server == running.server)) tables.push_back("[server]");
  if (!(next.engine == running.engine)) tables.push_back("[engine]");
  if (!(next.cache == running.cache)) tables.push_back("[cache]");
  if (!(next.store == running.store)) tables.push_back("[store]");
  if (!(next.sessions == running.sessions)) tables.push_back("[sessions]");
  if (!(next.ledger == running.ledger)) tables.push_back("[ledger]");
  if (next.metrics.compat != running.metrics.compat) tables.push_back("[metrics] compat");
  if (!(next.telemetry == running.telemetry)) tables.push_back("[telemetry]");
  if (!(next.limits == running.limits)) tables.push_back("[limits]");
  return fmt::format("{}", fmt::join(tables, ", "));
}

}  // namespace kvgate::runtime
