// `kvgate serve`: opens the data directory, server and model, then waits for signals.
#include "gateway/cli/serve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "gateway/access/access.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/local_engine.h"
#include "gateway/cli/machine/device.h"
#include "gateway/cli/machine/start_failure.h"
#include "gateway/cli/machine/watchdog.h"
#include "gateway/cli/options.h"
#include "gateway/http/server.h"
#include "gateway/local/maintenance.h"
#include "gateway/service/prompt_store.h"
#include "gateway/service/prompts.h"
#include "store/file/secret_file.h"
#include "store/meta/turn_store.h"

namespace kvgate::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Time for clients to read that their answers have been ended.
constexpr std::chrono::seconds kEndGrace{2};
// Time for the last KV blocks to reach the disk after the last answer.
constexpr std::chrono::seconds kFlushGrace{10};

sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Blocks the end signals and SIGHUP, and returns the former. It must be called before any thread
// starts, so that all threads inherit the mask and only sigwait receives the signals.
sigset_t BlockSignals() {
  sigset_t blocked = EndSignals();
  sigaddset(&blocked, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  return EndSignals();
}

// Returns true if one of the signals arrives within the timeout.
bool SignalWithin(const sigset_t& signals, std::chrono::milliseconds timeout) {
  const timespec wait{.tv_sec = timeout.count() / 1000,
                      .tv_nsec = (timeout.count() % 1000) * 1'000'000};
  return sigtimedwait(&signals, nullptr, &wait) > 0;
}

// Waits for one of the end signals or SIGHUP.
int WaitForSignal(sigset_t signals) {
  sigaddset(&signals, SIGHUP);
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  return signal;
}

// Waits until all requests are answered or the time is over; returns false if a signal came.
bool WaitForConnections(const http::Server& server, std::chrono::seconds time,
                        const sigset_t& signals) {
  const Clock::time_point deadline = Clock::now() + time;
  while (server.num_connections() > 0 && Clock::now() < deadline) {
    if (SignalWithin(signals, std::chrono::milliseconds(50))) return false;
  }
  return true;
}

// Gives requests their grace period, then tells the clients of the rest that no more will come.
void Drain(http::Server& server, std::chrono::seconds grace, const sigset_t& signals) {
  KVGATE_LOG(kInfo, "cli", "stopping: {} connections open, waiting up to {} s (again to stop now)",
             server.num_connections(), grace.count());
  if (!WaitForConnections(server, grace, signals) || server.num_connections() == 0) return;
  KVGATE_LOG(kWarning, "cli", "ending the requests of {} connections", server.num_connections());
  server.EndAnswers();
  WaitForConnections(server, kEndGrace, signals);
}

http::TargetOptions ToTargetOptions(const config::Config& config) {
  return {.tls = {.cert_file = config.server.tls_cert,
                  .key_file = config.server.tls_key,
                  .min_version = config.server.tls_min_version},
          .proxy = {.upstreams = config.upstreams,
                    .routes = config.routes,
                    .keys = config.keys,
                    .metrics = config.metrics}};
}

http::ServerOptions ToServerOptions(const config::Config& config, const config::HostPort& listen,
                                    const std::string& admin_token) {
  const config::LimitsConfig& limits = config.limits;
  return {.admin_token = admin_token,
          .address = listen.host,
          .port = listen.port,
          .threads = config.server.threads,
          .pools = {.store_timeout = std::chrono::seconds(config.store.timeout_seconds)},
          .targets = ToTargetOptions(config),
          .allowed_hosts = config.server.allowed_hosts,
          .body_bytes_max = limits.body_bytes,
          .bodies_bytes_max = limits.bodies_bytes,
          .tenant_bodies_share = limits.tenant_bodies_share,
          .import_bytes_max = limits.import_bytes,
          .header_bytes_max = limits.header_bytes,
          .connections_max = limits.connections,
          .header_timeout = std::chrono::seconds(limits.header_timeout_seconds),
          .body_timeout = std::chrono::seconds(limits.body_timeout_seconds),
          .body_bytes_per_second_min = static_cast<uint64_t>(limits.body_bytes_per_second_min),
          .idle_timeout = std::chrono::seconds(limits.idle_timeout_seconds),
          .write_timeout = std::chrono::seconds(limits.write_timeout_seconds)};
}

// Warns if there are keys but none with the admin role, because no client could then do admin work.
void WarnOfKeys(const config::Config& config) {
  const bool has_admin = std::any_of(config.keys.begin(), config.keys.end(),
                                     [](const auto& key) { return key.role == "admin"; });
  if (config.keys.empty() || has_admin) return;
  KVGATE_LOG(kWarning, "cli",
             "none of the {} keys has role = \"admin\": only this machine's own commands see all "
             "records, remove others' prefixes, import and reach /metrics",
             config.keys.size());
}

// Refuses a public address without keys, since only keys can tell whom to let in.
Result<config::HostPort> ListenAddress(const config::Config& config) {
  KVGATE_TRY(config::HostPort listen, config::ParseHostPort(config.server.listen));
  if (!listen.is_loopback() && config.keys.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("listening on {} needs a [[key]] in the configuration; without "
                                 "one listen on 127.0.0.1",
                                 listen.host));
  }
  WarnOfKeys(config);
  return listen;
}

// Lists changed tables that are read only at start: "[engine], [limits]"; empty if there are none.
std::string UnreadTables(const config::Config& running, config::Config next) {
  next.server.log_level = running.server.log_level;  // applied by a reload
  next.server.log_format = running.server.log_format;
  std::vector<std::string_view> tables;
  if (!(next.server == running.server)) tables.push_back("[server]");
  if (!(next.engine == running.engine)) tables.push_back("[engine]");
  if (!(next.cache == running.cache)) tables.push_back("[cache]");
  if (!(next.store == running.store)) tables.push_back("[store]");
  if (!(next.ledger == running.ledger)) tables.push_back("[ledger]");
  if (!(next.limits == running.limits)) tables.push_back("[limits]");
  return fmt::format("{}", fmt::join(tables, ", "));
}

// Applies the file's upstreams, routes, keys, certificate and log level.
Result<void> Reload(const ConfigFlags& flags, const config::Config& running, http::Server& server) {
  KVGATE_TRY(config::Config next, ReadConfig(flags));
  const std::string unread = UnreadTables(running, next);
  next.server = running.server;  // the address and the certificate's file names stay
  if (next.upstreams.empty() != running.upstreams.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "config",
                     "with its first [[upstream]], or without its last one, a server has to be "
                     "started anew: that decides whether it has an engine of its own");
  }
  KVGATE_TRY_VOID(ListenAddress(next));
  KVGATE_TRY_VOID(server.Reload(ToTargetOptions(next)));
  KVGATE_LOG(kInfo, "cli", "configuration read again: {} upstreams, {} routes, {} keys{}",
             next.upstreams.size(), next.routes.size(), next.keys.size(),
             unread.empty() ? "" : "; what changed in " + unread + " is read at the next start");
  return {};
}

// The built-in prices, with the user's file taking precedence.
Result<ledger::Prices> ReadPrices(const config::Config& config) {
  if (config.ledger.prices.empty()) return ledger::Prices::Builtin();
  return ledger::Prices::Load(config.ledger.prices);
}

// Returns null without a data directory; a failure is logged and serving goes on.
std::unique_ptr<store::meta::TurnStore> OpenTurns(const config::Config& config,
                                                  const DataTier& tier) {
  if (tier.meta() == nullptr) return nullptr;
  auto opened = store::meta::TurnStore::Open(
      {.meta = *tier.meta(),
       .enabled = config.store.turns,
       .retention = std::chrono::seconds(config.store.turns_retention_seconds),
       .bytes_max = config.store.turns_bytes,
       .tenant_share = config.store.tenant_share});
  if (opened) return std::move(*opened);
  KVGATE_LOG(kWarning, "cli", "serving WITHOUT stored turns: {}", opened.error().ToString());
  return nullptr;
}

// Returns null if prompts are not stored. It must be destroyed before the objects it borrows.
std::unique_ptr<service::PromptStore> OpenPrompts(const config::Config& config,
                                                  const DataTier& tier, service::Prompts& prompts) {
  if (tier.meta() == nullptr) return nullptr;
  if (!config.store.prompts) {
    const auto purged = service::PromptStore::Purge(*tier.meta());
    if (!purged) {
      KVGATE_LOG(kWarning, "cli", "stored prompts cannot be deleted: {}",
                 purged.error().ToString());
    }
    return nullptr;
  }
  if (config.upstreams.empty()) return nullptr;
  return std::make_unique<service::PromptStore>(service::PromptStore::Options{
      .meta = *tier.meta(),
      .tenants = prompts.tenants(),
      .retention = std::chrono::seconds(config.store.prompts_retention_seconds),
      .bytes_max = config.store.prompts_bytes});
}

// Loading a large model takes minutes. A signal during that ends the process at once, since no
// request has been served and the store survives worse.
Result<std::unique_ptr<LocalEngine>> LoadUnlessStopped(const config::Config& config,
                                                       const DataTier& tier,
                                                       const sigset_t& signals) {
  auto loading = std::async(std::launch::async, [&]() -> Result<std::unique_ptr<LocalEngine>> {
    auto opened = LocalEngine::Open(config, tier);
    // An error from a part of the engine says how much memory it wanted, but not which setting
    // reduces it.
    const bool is_part = !opened && opened.error().source != "engine";
    if (!is_part || opened.error().code != ErrorCode::kOverloaded) return opened;
    return machine::StartFailure(config, machine::ReadProcessLimits(),
                                 fmt::format("memory ({})", opened.error().detail));
  });
  while (loading.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (!SignalWithin(signals, std::chrono::milliseconds(20))) continue;
    KVGATE_LOG(kInfo, "cli", "stopped while loading");
    std::_Exit(0);
  }
  return loading.get();
}

std::unique_ptr<local::Maintenance> StartMaintenance(LocalEngine& local, const DataTier& tier,
                                                     service::Service& service) {
  return std::make_unique<local::Maintenance>(
      local::Maintenance::Parts{.engine = local.engine(),
                                .prefixes = service.prefixes(),
                                .meta = tier.meta(),
                                .write_admission = tier.write_admission.get()});
}

// Publishes the address by which commands find the server.
void Publish(const DataTier& tier, const http::Server& server, const std::string& admin_token) {
  if (!tier.directory) return;
  if (const auto published =
          tier.directory->PublishAddress({.url = server.url(),
                                          .certificate_sha256 = server.certificate_sha256(),
                                          .admin_token = admin_token});
      !published) {
    KVGATE_LOG(kWarning, "cli", "`kvgate cache` will not find this server: {}",
               published.error().ToString());
  }
}

// Objects that live as long as the server runs.
struct Serving {
  const ConfigFlags& flags;
  const config::Config& config;
  const DataTier& tier;
  http::Server& server;
  const std::string& admin_token;
};

// Serves until a signal asks for the end.
void ServeUntilEnd(const Serving& serving, const sigset_t& signals) {
  while (WaitForSignal(signals) == SIGHUP) {
    if (const auto reloaded = Reload(serving.flags, serving.config, serving.server); !reloaded) {
      KVGATE_LOG(kError, "cli", "the configuration stays as it was: {}",
                 reloaded.error().ToString());
    }
    Publish(serving.tier, serving.server, serving.admin_token);
  }
}

// `prices` and `prompts` must outlive the ledger.
ledger::Ledger::Options LedgerOptions(const config::Config& config, const DataTier& tier,
                                      const ledger::Prices& prices, service::Prompts& prompts) {
  return {.meta = tier.meta(),
          .prices = prices,
          .records_max = config.ledger.records,
          .retention_days = config.ledger.retention_days,
          .complete = [&prompts](auto& record, const auto& facts, auto& preparation) {
            prompts.Complete(record, facts, preparation);
          }};
}

// A wrong secret stops the start, because continuing would leave sealed data unreadable.
Result<config::Config> ReadServeConfig(const ConfigFlags& flags) {
  KVGATE_TRY(config::Config config, ReadConfig(flags));
  if (config.store.disk)
    KVGATE_TRY_VOID(store::file::CheckSecretEnvironment(config.store.secret_env));
  return config;
}

// Throws if the system refuses memory (std::bad_alloc) or threads (std::system_error).
Result<int> ServeOrThrow(const ConfigFlags& flags, config::Config& config, const WrapLog& wrap) {
  KVGATE_TRY(const config::HostPort listen, ListenAddress(config));
  KVGATE_TRY(const std::string admin_token, access::MakeAdminToken());
  const sigset_t signals = BlockSignals();

  KVGATE_TRY(const ledger::Prices prices, ReadPrices(config));
  // With upstreams and without a named model the gateway only forwards and needs no engine.
  const bool has_local = config.upstreams.empty() || !config.engine.model.empty();
  if (has_local) KVGATE_TRY_VOID(machine::ResolveDevice(config));
  const DataTier tier = OpenDataTier(config);
  if (tier.pins() != nullptr) tier.pins()->LimitTenants(config.store.tenant_share);
  service::Prompts prompts({.prices = prices,
                            .memory_bytes = config.cache.prompt_memory_bytes,
                            .keep_text = config.ledger.excerpts});
  ledger::Ledger ledger(LedgerOptions(config, tier, prices, prompts));
  const std::unique_ptr<store::meta::TurnStore> turns = OpenTurns(config, tier);
  const std::unique_ptr<service::PromptStore> prompt_store = OpenPrompts(config, tier, prompts);
  std::unique_ptr<LocalEngine> local;  // outlives the service, which borrows it
  metrics::Registry registry;
  metrics::GatewayMetrics metrics(registry);
  const machine::Watchdog watchdog({}, registry);
  service::Service service({.registry = registry,
                            .metrics = metrics,
                            .kv = tier.kv(),
                            .pins = tier.pins(),
                            .hash_seed = tier.hash_seed(),
                            .keyring = tier.keyring(),
                            .write_admission = tier.write_admission,
                            .ledger = &ledger,
                            .turns = turns.get(),
                            .meta = tier.meta(),
                            .prompts = &prompts,
                            .no_disk_reason = tier.reason,
                            .limits = {.json_depth_max = config.limits.json_depth},
                            .system_fingerprint = "kvgate-" KVGATE_VERSION,
                            .has_local = has_local});
  // The port is bound before the model loads, so that a taken port is reported at once and /ready
  // can say "not yet".
  http::ServerOptions server_options = ToServerOptions(config, listen, admin_token);
  const std::unique_ptr<upstream::ExchangeLog> wrapped = wrap ? wrap(ledger) : nullptr;
  server_options.exchange_log = wrapped ? wrapped.get() : &ledger;
  server_options.prompts = &prompts;
  KVGATE_TRY(std::unique_ptr<http::Server> server, http::Server::Open(server_options, service));
  std::unique_ptr<local::Maintenance> maintenance;
  if (has_local) {
    KVGATE_TRY(local, LoadUnlessStopped(config, tier, signals));
    KVGATE_TRY(auto provider, local->MakeProvider(config, &metrics));
    service.SetLocal(std::move(provider));
    maintenance = StartMaintenance(*local, tier, service);
  }
  Publish(tier, *server, admin_token);
  fmt::print("listening on {}\n", server->url());
  std::fflush(stdout);
  ServeUntilEnd({.flags = flags,
                 .config = config,
                 .tier = tier,
                 .server = *server,
                 .admin_token = admin_token},
                signals);
  maintenance.reset();
  service.BeginDrain();
  server->BeginDrain();
  Drain(*server, std::chrono::seconds(config.server.drain_seconds), signals);
  server.reset();
  if (local && !local->engine().Drain(kFlushGrace)) {
    KVGATE_LOG(kWarning, "cli", "not all KV reached the disk within {} s", kFlushGrace.count());
  }
  KVGATE_LOG(kInfo, "cli", "stopped");
  return 0;
}

}  // namespace

// Catches the exceptions of a start; once serving, each thread catches its own.
Result<int> Serve(const ConfigFlags& flags, const WrapLog& wrap) {
  KVGATE_TRY(config::Config config, ReadServeConfig(flags));
  try {
    return ServeOrThrow(flags, config, wrap);
  } catch (const std::bad_alloc& failure) {
    return machine::StartFailure(config, failure);
  } catch (const std::system_error& failure) {
    return machine::StartFailure(config, failure);
  }
}

void AddServe(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* command = app.add_subcommand("serve", "Serve the OpenAI API with the local engine");
  AddEngineFlags(*command, *flags);
  AddServerFlags(*command, *flags);
  command->callback([flags, &chosen] { chosen = [flags] { return Serve(*flags, {}); }; });
}

}  // namespace kvgate::cli
