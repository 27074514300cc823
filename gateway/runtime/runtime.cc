#include "gateway/runtime/runtime.h"

#include <algorithm>
#include <future>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/ids.h"
#include "base/log.h"
#include "gateway/access/access.h"
#include "gateway/http/server.h"
#include "gateway/ledger/ledger.h"
#include "gateway/ledger/prices.h"
#include "gateway/local/embeddings/published_provider.h"
#include "gateway/local/maintenance.h"
#include "gateway/metrics/gateway_metrics.h"
#include "gateway/metrics/prompt_metrics.h"
#include "gateway/proxy/host/host.h"
#include "gateway/runtime/config_status.h"
#include "gateway/runtime/config_version.h"
#include "gateway/runtime/data_tier.h"
#include "gateway/runtime/limits/shared_limits.h"
#include "gateway/runtime/local_embeddings.h"
#include "gateway/runtime/local_engine.h"
#include "gateway/runtime/machine/device.h"
#include "gateway/runtime/machine/start_failure.h"
#include "gateway/runtime/settings.h"
#include "gateway/runtime/shared_tier.h"
#include "gateway/runtime/sharing/engine_pins.h"
#include "gateway/runtime/sharing/sharing_thread.h"
#include "gateway/service/branches/branch_store.h"
#include "gateway/service/prompt_store.h"
#include "gateway/service/prompts.h"
#include "gateway/service/service.h"
#include "gateway/service/template_store.h"
#include "gateway/session/prompts/named_prompts.h"
#include "gateway/session/sessions.h"
#include "gateway/telemetry/budget_alerts.h"
#include "gateway/telemetry/otlp/exporter.h"
#include "gateway/telemetry/record_feed.h"
#include "gateway/telemetry/record_metrics.h"
#include "store/file/secret_file.h"
#include "store/meta/turn_store.h"

namespace kvgate::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kSource = "runtime";
// How often whoever opens a runtime is called while a model loads.
constexpr milliseconds kLoadingInterval{20};
// How often a drain looks at the connections that are left.
constexpr milliseconds kDrainInterval{50};
// Time for clients to read that their answers have been ended.
constexpr std::chrono::seconds kEndGrace{2};
// Time for the last KV blocks to reach the disk after the last answer.
constexpr std::chrono::seconds kFlushGrace{10};

// The built-in prices, with the user's file taking precedence.
Result<ledger::Prices> ReadPrices(const config::Config& config) {
  if (config.ledger.prices.empty()) return ledger::Prices::Builtin();
  return ledger::Prices::Load(config.ledger.prices);
}

// A wrong secret stops the start, because continuing would leave sealed data unreadable.
Result<void> CheckSecret(const config::Config& config) {
  if (!config.store.disk) return {};
  return store::file::CheckSecretEnvironment(config.store.secret_env);
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
  KVGATE_LOG(kWarning, kSource, "serving WITHOUT stored turns: {}", opened.error().ToString());
  return nullptr;
}

// Returns null without a data directory; a failure is logged and serving goes on.
std::unique_ptr<session::memory::MemoryBook> OpenMemory(const DataTier& tier, SharedTier* shared,
                                                        store::meta::TurnStore* turns) {
  using session::memory::MemoryBook;
  if (tier.meta() == nullptr) return nullptr;
  std::function<bool(const MemoryBook::Place&)> has_session;
  if (turns != nullptr) {
    has_session = [turns](const MemoryBook::Place& place) {
      const session::log::SessionLog log(turns);
      const auto root = log.Find({.tenant = place.tenant, .key = place.session});
      return root || root.error().code != ErrorCode::kNotFound;
    };
  }
  auto opened = MemoryBook::Open({.meta = *tier.meta(),
                                  .shared = shared != nullptr ? &shared->memories() : nullptr,
                                  .has_session = std::move(has_session)});
  if (opened) return *std::move(opened);
  KVGATE_LOG(kWarning, kSource, "serving WITHOUT the memory of sessions: {}",
             opened.error().ToString());
  return nullptr;
}

// Returns null without a data directory; a failure is logged and serving goes on.
std::unique_ptr<session::retrieval::VectorBook> OpenVectors(const config::Config& config,
                                                            const DataTier& tier,
                                                            store::meta::TurnStore* turns) {
  if (tier.meta() == nullptr || turns == nullptr) return nullptr;
  auto opened = session::OpenVectorBook(*tier.meta(), *turns, config.sessions.retrieval_model);
  if (opened) return *std::move(opened);
  KVGATE_LOG(kWarning, kSource, "sessions are searched by words alone: {}",
             opened.error().ToString());
  return nullptr;
}

// Returns null if prompts are not stored. It must be destroyed before the objects it borrows.
std::unique_ptr<service::PromptStore> OpenPrompts(const config::Config& config,
                                                  const DataTier& tier, SharedTier* shared,
                                                  service::Prompts& prompts) {
  if (tier.meta() == nullptr) return nullptr;
  if (!config.store.prompts) {
    const auto purged = service::PromptStore::Purge(*tier.meta());
    if (!purged) {
      KVGATE_LOG(kWarning, kSource, "stored prompts cannot be deleted: {}",
                 purged.error().ToString());
    }
    return nullptr;
  }
  return std::make_unique<service::PromptStore>(service::PromptStore::Options{
      .meta = *tier.meta(),
      .tenants = prompts.tenants(),
      .shared = shared != nullptr ? &shared->prompts() : nullptr,
      .retention = std::chrono::seconds(config.store.prompts_retention_seconds),
      .bytes_max = config.store.prompts_bytes / 4});
}

// Returns null if prompts are not stored, because what is learnt of them holds their words. It must
// be destroyed before the objects it borrows.
std::unique_ptr<service::TemplateStore> OpenTemplates(const config::Config& config,
                                                      const DataTier& tier, SharedTier* shared,
                                                      service::Prompts& prompts) {
  if (tier.meta() == nullptr) return nullptr;
  if (!config.store.prompts) {
    const auto purged = service::TemplateStore::Purge(*tier.meta());
    if (!purged) {
      KVGATE_LOG(kWarning, kSource, "what was learnt of prompts cannot be deleted: {}",
                 purged.error().ToString());
    }
    return nullptr;
  }
  return std::make_unique<service::TemplateStore>(service::TemplateStore::Options{
      .meta = *tier.meta(),
      .templates = prompts.templates(),
      .shared = shared != nullptr ? &shared->templates() : nullptr,
      .retention = std::chrono::seconds(config.store.prompts_retention_seconds)});
}

// Returns null without a data directory. With store.prompts = false it keeps nothing, and knows
// that conversations may go on whose state was deleted.
std::unique_ptr<service::branches::BranchStore> OpenBranches(const config::Config& config,
                                                             const DataTier& tier) {
  if (tier.meta() == nullptr) return nullptr;
  return std::make_unique<service::branches::BranchStore>(service::branches::BranchStore::Options{
      .meta = *tier.meta(),
      .enabled = config.store.prompts,
      .retention = std::chrono::seconds(config.store.prompts_retention_seconds),
      .bytes_max = config.store.prompts_bytes / 4 * 3,
      .tenant_share = config.store.tenant_share});
}

// Null where nobody shares them.
std::unique_ptr<session::log::SharedTurns> OpenSharedTurns(store::meta::TurnStore* turns,
                                                           SharedTier* shared) {
  if (turns == nullptr || shared == nullptr) return nullptr;
  return std::make_unique<session::log::SharedTurns>(*turns, shared->logs(), &shared->sessions());
}

// Begins to exchange with other gateways in the background. Memories go first: pins can take long.
std::unique_ptr<sharing::SharingThread> OpenSharing(session::memory::MemoryBook* memory,
                                                    sharing::SharedPins* pins) {
  std::vector<sharing::SharingThread::Exchange> exchanges;
  if (memory != nullptr) {
    exchanges.push_back({.what = "sharing memories", .run = [memory] { memory->Exchange(); }});
  }
  if (pins != nullptr) {
    exchanges.push_back({.what = "sharing pins", .run = [pins] { pins->Exchange(); }});
  }
  if (exchanges.empty()) return nullptr;
  return std::make_unique<sharing::SharingThread>(sharing::SharingThread::Options{},
                                                  std::move(exchanges));
}

// Returns null where nothing is shared, or nothing of prompts may be kept.
std::unique_ptr<service::branches::SharedBranches> OpenSharedBranches(
    const config::Config& config, service::branches::BranchStore* here, SharedTier* shared) {
  if (here == nullptr || shared == nullptr || !config.store.prompts) return nullptr;
  return std::make_unique<service::branches::SharedBranches>(
      service::branches::SharedBranches::Options{.here = *here, .shared = shared->conversations()});
}

bool HasEngine(const Runtime::Options& options) {
  return options.needs_engine || HasLocalModel(options.config);
}

// What can fail before any part is made.
struct Beginning {
  ledger::Prices prices;
  DataTier tier;
  std::unique_ptr<SharedTier> shared;
  std::string admin_token;
  session::summary::SummaryPrompt summary_prompt;
  std::unique_ptr<session::prompts::NamedPrompts> named_prompts;
  std::unique_ptr<telemetry::otlp::Exporter> exporter = nullptr;  // null: nothing is sent
  std::unique_ptr<telemetry::BudgetAlerts> budget_alerts = nullptr;
  std::unique_ptr<ConfigStatus> config_status = nullptr;
};

Result<Beginning> Begin(Runtime::Options& options) {
  config::Config& config = options.config;
  config::Config as_read = config;  // below, defaults are filled in
  KVGATE_TRY_VOID(CheckSecret(config));
  if (options.listens) KVGATE_TRY_VOID(ListenAddress(config));
  KVGATE_TRY(std::string admin_token, access::MakeAdminToken());
  KVGATE_TRY(ledger::Prices prices, ReadPrices(config));
  KVGATE_TRY(session::summary::SummaryPrompt summary_prompt, ReadSummaryPrompt(config));
  // Whoever needs an engine hears from it that such a model generates nothing.
  if (!options.needs_engine) KVGATE_TRY_VOID(SortModels(config.engine));
  if (HasEngine(options)) KVGATE_TRY_VOID(machine::ResolveDevice(config));
  DataTier tier = OpenDataTier(config);
  if (options.needs_disk && tier.directory == nullptr) {
    return MakeError(ErrorCode::kUnavailable, kSource, "nothing can be kept: " + tier.reason);
  }
  std::unique_ptr<telemetry::otlp::Exporter> exporter;
  if (!config.telemetry.endpoint.empty()) {
    KVGATE_TRY(exporter, telemetry::otlp::Exporter::Open(config.telemetry));
  }
  KVGATE_TRY(std::unique_ptr<SharedTier> shared, SharedTier::Open(config, tier.keyring()));
  KVGATE_TRY(auto configured, ReadPrompts(config));
  std::string version = VersionOf(as_read, configured);
  KVGATE_TRY(auto named_prompts,
             session::prompts::NamedPrompts::Open(tier.meta(), std::move(configured)));
  auto budget_alerts = std::make_unique<telemetry::BudgetAlerts>(
      telemetry::BudgetAlerts::Options{.waits = options.takes_requests && shared != nullptr});
  KVGATE_TRY(auto budgets, budget_alerts->Read(config.keys, config.budgets));
  budget_alerts->Take(std::move(budgets));
  return Beginning{
      .prices = std::move(prices),
      .tier = std::move(tier),
      .shared = std::move(shared),
      .admin_token = std::move(admin_token),
      .summary_prompt = std::move(summary_prompt),
      .named_prompts = std::move(named_prompts),
      .exporter = std::move(exporter),
      .budget_alerts = std::move(budget_alerts),
      .config_status = std::make_unique<ConfigStatus>(std::move(as_read), std::move(version))};
}

class OpenRuntime final : public Runtime {
 public:
  OpenRuntime(const Options& options, Beginning beginning)
      : options_(options),
        config_(options_.config),
        admin_token_(std::move(beginning.admin_token)),
        prices_(std::move(beginning.prices)),
        tier_(std::move(beginning.tier)),
        shared_(std::move(beginning.shared)),
        prompt_metrics_(options_.registry),
        metrics_(options_.registry),
        exporter_(std::move(beginning.exporter)),
        budget_alerts_(std::move(beginning.budget_alerts)),
        config_status_(std::move(beginning.config_status)),
        branches_(OpenBranches(config_, tier_)),
        shared_branches_(OpenSharedBranches(config_, branches_.get(), shared_.get())),
        prompts_({.prices = prices_,
                  .memory_bytes = config_.cache.prompt_memory_bytes,
                  .keep_text = config_.ledger.excerpts},
                 {.branches = branches_.get(),
                  .shared = shared_branches_.get(),
                  .metrics = &prompt_metrics_,
                  .must_keep = true}),
        ledger_({.meta = tier_.meta(),
                 .prices = prices_,
                 .elsewhere = shared_ ? &elsewhere_ : nullptr,
                 .records_max = config_.ledger.records,
                 .retention_days = config_.ledger.retention_days,
                 .segments_max = config_.ledger.segments,
                 .complete =
                     [this](auto& record, const auto& facts, auto& preparation) {
                       prompts_.Complete(record, facts, preparation);
                     },
                 .on_record = [this](const auto& record) { OnRecord(record); },
                 .on_use = [this](auto tenant,
                                  const auto& use) { budget_alerts_->OnUse(tenant, use); }}),
        turns_(OpenTurns(config_, tier_)),
        memory_(OpenMemory(tier_, shared_.get(), turns_.get())),
        vectors_(OpenVectors(config_, tier_, turns_.get())),
        named_prompts_(std::move(beginning.named_prompts)),
        shared_turns_(OpenSharedTurns(turns_.get(), shared_.get())),
        sessions_(ToSessionOptions(config_,
                                   {.turns = turns_.get(),
                                    .shared = shared_turns_.get(),
                                    .memory = memory_.get(),
                                    .vectors = vectors_.get()},
                                   std::move(beginning.summary_prompt))),
        prompt_store_(OpenPrompts(config_, tier_, shared_.get(), prompts_)),
        template_store_(OpenTemplates(config_, tier_, shared_.get(), prompts_)),
        service_({.registry = options_.registry,
                  .metrics = metrics_,
                  .kv = tier_.kv(),
                  .pins = tier_.pins(),
                  .hash_seed = tier_.hash_seed(),
                  .keyring = tier_.keyring(),
                  .write_admission = tier_.write_admission,
                  .shared = shared_ ? &shared_->blocks() : nullptr,
                  .ledger = &ledger_,
                  .turns = turns_.get(),
                  .sessions = &sessions_,
                  .meta = tier_.meta(),
                  .prompts = &prompts_,
                  .no_disk_reason = tier_.reason,
                  .limits = {.json_depth_max = config_.limits.json_depth},
                  .system_fingerprint = "kvgate-" KVGATE_VERSION,
                  .has_vllm_names = !config_.metrics.compat.empty(),  // there are no others
                  .embeddings = HasEmbeddings() ? &embeddings_ : nullptr,
                  .write_config = [this](auto& json) { config_status_->WriteStats(json); },
                  .has_local = HasEngine(options_)}) {}

  Result<void> Start() {
    if (branches_) {
      service_.AddCollector([this](auto& writer) { branches_->Collect(writer); });
    }
    if (shared_branches_) {
      service_.AddCollector([this](auto& writer) { shared_branches_->Collect(writer); });
    }
    service_.AddCollector([this](auto& writer) { sessions_.Collect(writer); });
    service_.AddCollector([this](auto& writer) {
      feed_.Collect(writer);
      budget_alerts_->Collect(writer);
      if (exporter_) exporter_->Collect(writer);
      embeddings_.Collect(writer);
      config_status_->Collect(writer);
    });
    if (options_.wrap_log) wrapped_log_ = options_.wrap_log(ledger_);
    if (options_.takes_requests) KVGATE_TRY_VOID(OpenHost());
    if (options_.takes_requests && options_.listens) {
      KVGATE_TRY_VOID(OpenServer(config_.server.listen));
    }
    if (HasEngine(options_)) KVGATE_TRY_VOID(StartEngine());
    if (HasEmbeddings()) {
      KVGATE_TRY(auto provider, Loading<std::unique_ptr<local::embeddings::EmbeddingProvider>>(
                                    [this] { return LoadEmbeddings(); }));
      embeddings_.Publish(std::move(provider));
    }
    if (shared_) sharing_ = OpenSharing(memory_.get(), shared_pins_.get());
    WarnOfRetrieval(config_);
    Publish();
    return {};
  }

  service::Service& service() override { return service_; }
  const local::LocalProvider* provider() const override { return provider_; }
  proxy::host::Host* host() override { return host_.get(); }
  const std::string& admin_token() const override { return admin_token_; }
  std::string url() const override { return server_ ? server_->url() : ""; }

  Result<void> Listen(const std::string& address) override {
    KVGATE_CHECK(host_ != nullptr && server_ == nullptr, "it takes no requests, or listens");
    config::Config listening = config_;
    listening.server.listen = address;
    KVGATE_TRY_VOID(ListenAddress(listening));
    KVGATE_TRY_VOID(OpenServer(address));
    Publish();
    return {};
  }

  void StopListening(const Pause& pause) override {
    if (!server_) return;
    feed_.EndAll();
    server_->BeginDrain();
    DrainServer(pause);
    server_.reset();
    Publish();
  }

  Result<void> Reload(Result<config::Config> next) override {
    KVGATE_CHECK(host_ != nullptr, "no requests are taken");
    const Result<void> taken = next ? Take(*std::move(next)) : next.error();
    if (!taken) config_status_->OnFailedReload(taken.error());
    Publish();
    return taken;
  }

  void Stop(const Pause& pause) override {
    ServeUnready(pause);
    sharing_.reset();
    maintenance_.reset();
    service_.BeginDrain();
    embeddings_.BeginDrain();
    feed_.Close();
    if (host_) host_->BeginDrain();
    if (server_) {
      server_->BeginDrain();
      DrainServer(pause);
      server_.reset();
    }
    if (shared_limits_) shared_limits_->Stop();
    host_.reset();
    if (local_ && !local_->engine().Drain(kFlushGrace)) {
      KVGATE_LOG(kWarning, kSource, "not all KV reached the disk within {} s", kFlushGrace.count());
    }
  }

 private:
  // Called for every record, on the thread that adds it.
  void OnRecord(const ledger::RequestRecord& record) {
    telemetry::CountRecord(record, metrics_);
    feed_.Publish(record);
    if (exporter_) exporter_->Add(record);
  }

  Result<void> OpenHost() {
    proxy::host::HostOptions options = ToHostOptions(config_, admin_token_);
    options.requests.exchange_log = wrapped_log_ ? wrapped_log_.get() : &ledger_;
    options.requests.prompts = &prompts_;
    options.requests.sessions = &sessions_;
    options.requests.named_prompts = named_prompts_.get();
    options.requests.embeddings = HasEmbeddings() ? &embeddings_ : nullptr;
    options.requests.keyring = tier_.keyring();
    if (options.requests.keyring == nullptr) {
      own_keyring_ = Keyring::Generate();
      options.requests.keyring = own_keyring_.get();
    }
    options.requests.prices = &prices_;
    options.requests.feed = &feed_;
    options.requests.has_spans = exporter_ != nullptr && config_.telemetry.spans;
    KVGATE_TRY(host_, proxy::host::Host::Open(options, service_));
    if (shared_) ShareLimits();
    return {};
  }

  // The sums of a ledger stay with its directory; without one they begin with this process.
  void ShareLimits() {
    shared_limits_ = std::make_unique<limits::SharedLimits>(
        limits::SharedLimits::Options{},
        limits::SharedBudgets::Parts{.sums = shared_->sums(),
                                     .ledger = ledger_,
                                     .elsewhere = elsewhere_,
                                     .alerts = budget_alerts_.get(),
                                     .gateway = tier_.meta() != nullptr
                                                    ? ToHex(tier_.hash_seed(), 0)
                                                    : ledger::MakeRequestId()},
        [&targets = host_->environment().targets] {
          const std::shared_ptr<const proxy::request::Targets> now = targets.Get();
          return limits::SharedLimits::Current{
              .keys = std::shared_ptr<const access::GatewayKeys>(now, now->keys.get()),
              .budgets = std::shared_ptr<const access::BudgetTable>(now, &now->budgets)};
        });
    service_.AddCollector([this](auto& writer) { shared_limits_->Collect(writer); });
    shared_limits_->Start();
  }

  Result<void> OpenServer(const std::string& listen) {
    KVGATE_TRY(const config::HostPort address, config::ParseHostPort(listen));
    KVGATE_TRY(server_, http::Server::Open(ToServerOptions(config_, address), *host_));
    return {};
  }

  bool HasEmbeddings() const { return !config_.engine.embedding_model.empty(); }

  void WarnOfRetrieval(const config::Config& config) const {
    const std::string missing = MissingRetrievalModel(
        config, [this](std::string_view model) { return embeddings_.Serves(model); });
    if (!missing.empty()) KVGATE_LOG(kWarning, kSource, "sessions.retrieval_model: {}", missing);
  }

  // Calls `load` on another thread if the caller wants to hear of it.
  template <typename Loaded>
  Result<Loaded> Loading(const std::function<Result<Loaded>()>& load) const {
    if (!options_.while_loading) return load();
    auto loading = std::async(std::launch::async, load);
    do {
      options_.while_loading();
    } while (loading.wait_for(kLoadingInterval) != std::future_status::ready);
    return loading.get();
  }

  Result<std::unique_ptr<local::embeddings::EmbeddingProvider>> LoadEmbeddings() const {
    auto opened = OpenEmbeddings(config_.engine, HasEngine(options_));
    if (opened || opened.error().code != ErrorCode::kOverloaded) return opened;
    return machine::StartFailure(config_, machine::ReadProcessLimits(),
                                 "memory (" + opened.error().detail + ")");
  }

  Result<std::unique_ptr<LocalEngine>> LoadNow() {
    auto opened = LocalEngine::Open(config_, tier_, shared_.get());
    // An error from a part of the engine says how much memory it wanted, but not which setting
    // reduces it.
    const bool is_part = !opened && opened.error().source != "engine";
    if (!is_part || opened.error().code != ErrorCode::kOverloaded) return opened;
    return machine::StartFailure(config_, machine::ReadProcessLimits(),
                                 "memory (" + opened.error().detail + ")");
  }

  Result<void> StartEngine() {
    KVGATE_TRY(local_, Loading<std::unique_ptr<LocalEngine>>([this] { return LoadNow(); }));
    KVGATE_TRY(auto provider, local_->MakeProvider(config_, &metrics_));
    provider_ = provider.get();
    sessions_.SetLocalModel({.context_tokens = provider->prompt_tokens_max(),
                             .output_tokens = config_.engine.default_max_tokens});
    service_.SetLocal(std::move(provider));
    maintenance_ = std::make_unique<local::Maintenance>(
        local::Maintenance::Parts{.engine = local_->engine(),
                                  .prefixes = service_.prefixes(),
                                  .meta = tier_.meta(),
                                  .write_admission = tier_.write_admission.get()});
    if (shared_ && tier_.pins() != nullptr) {
      shared_pins_ = sharing::OpenSharedPins({.map = shared_->pins(),
                                              .engine = local_->engine(),
                                              .prefixes = service_.prefixes(),
                                              .maintenance = *maintenance_});
      service_.AddCollector([this](auto& writer) { shared_pins_->Collect(writer); });
    }
    return {};
  }

  // Leaves the address where commands on the same data directory find it, or that there is none.
  void Publish() {
    if (!tier_.directory || !options_.takes_requests) return;
    store::ServerAddress address;
    if (server_) {
      address = {.url = server_->url(),
                 .certificate_sha256 = server_->certificate_sha256(),
                 .admin_token = admin_token_};
    }
    if (const auto published = tier_.directory->PublishAddress(address); !published) {
      KVGATE_LOG(kWarning, kSource, "`kvgate cache` will not find this server: {}",
                 published.error().ToString());
    }
  }

  Result<void> Take(config::Config next) {
    const config::Config& start = config_status_->as_read();
    const std::string unread = UnreadTables(start, next);
    const config::Config in_force = InForce(start, next);
    KVGATE_TRY(next, Reloadable(config_, std::move(next)));
    // A certificate that cannot be used must be found before anything has changed.
    if (server_) KVGATE_TRY_VOID(http::socket::ListenerTls::Open(ToTlsOptions(next)));
    KVGATE_TRY(auto budgets, budget_alerts_->Read(next.keys, next.budgets));
    KVGATE_TRY(auto configured, ReadPrompts(next));
    KVGATE_TRY_VOID(named_prompts_->Check(configured));
    std::string version = VersionOf(in_force, configured);
    KVGATE_TRY_VOID(host_->Reload(ToTargetOptions(next)));
    budget_alerts_->Take(std::move(budgets));
    KVGATE_TRY_VOID(named_prompts_->Configure(std::move(configured)));
    if (server_) KVGATE_TRY_VOID(server_->Reload(ToTlsOptions(next)));
    // The model is that of the start.
    next.sessions = config_.sessions;
    WarnOfRetrieval(next);
    config_status_->OnReload(std::move(version), unread);
    KVGATE_LOG(kInfo, kSource,
               "configuration read again: {} upstreams, {} routes, {} keys, {} "
               "prompts{}",
               next.upstreams.size(), next.routes.size(), next.keys.size(), next.prompts.size(),
               unread.empty() ? "" : "; what changed in " + unread + " is read at the next start");
    return {};
  }

  // Lets balancers see that no new connections are wanted while those that come are still taken.
  void ServeUnready(const Pause& pause) {
    const std::chrono::seconds time(config_.server.unready_seconds);
    if (!server_ || time.count() == 0) return;
    KVGATE_LOG(kInfo, kSource, "/ready says no; serving for {} s more", time.count());
    service_.BeginDrain(service::Service::Drain::kServes);
    server_->CloseAfterAnswers();
    const Clock::time_point deadline = Clock::now() + time;
    while (Clock::now() < deadline && pause(kDrainInterval)) {
    }
  }

  // Returns false if `pause` ended the wait.
  bool WaitForConnections(std::chrono::seconds time, const Pause& pause) const {
    const Clock::time_point deadline = Clock::now() + time;
    while (server_->num_connections() > 0 && Clock::now() < deadline) {
      if (!pause(kDrainInterval)) return false;
    }
    return true;
  }

  void DrainServer(const Pause& pause) {
    const std::chrono::seconds grace(config_.server.drain_seconds);
    KVGATE_LOG(kInfo, kSource, "stopping: {} connections open, waiting up to {} s",
               server_->num_connections(), grace.count());
    if (!WaitForConnections(grace, pause) || server_->num_connections() == 0) return;
    KVGATE_LOG(kWarning, kSource, "ending the requests of {} connections",
               server_->num_connections());
    server_->EndAnswers();
    WaitForConnections(kEndGrace, pause);
  }

  // Each part borrows only from those above it.
  const Options options_;
  const config::Config& config_;
  const std::string admin_token_;
  std::unique_ptr<Keyring> own_keyring_;  // without a data directory: for as long as this lives
  const ledger::Prices prices_;
  const DataTier tier_;
  const std::unique_ptr<SharedTier> shared_;  // null: nothing is shared
  metrics::PromptMetrics prompt_metrics_;
  metrics::GatewayMetrics metrics_;
  telemetry::RecordFeed feed_;
  const std::unique_ptr<telemetry::otlp::Exporter> exporter_;  // null: nothing is sent
  const std::unique_ptr<telemetry::BudgetAlerts> budget_alerts_;
  const std::unique_ptr<ConfigStatus> config_status_;
  const std::unique_ptr<service::branches::BranchStore> branches_;
  const std::unique_ptr<service::branches::SharedBranches> shared_branches_;  // may be null
  service::Prompts prompts_;
  ledger::SpendingElsewhere elsewhere_;
  ledger::Ledger ledger_;
  const std::unique_ptr<store::meta::TurnStore> turns_;
  const std::unique_ptr<session::memory::MemoryBook> memory_;
  const std::unique_ptr<session::retrieval::VectorBook> vectors_;
  const std::unique_ptr<session::prompts::NamedPrompts> named_prompts_;
  const std::unique_ptr<session::log::SharedTurns> shared_turns_;  // null: nobody shares them
  session::Sessions sessions_;
  const std::unique_ptr<service::PromptStore> prompt_store_;
  const std::unique_ptr<service::TemplateStore> template_store_;
  std::unique_ptr<LocalEngine> local_;
  local::embeddings::PublishedProvider embeddings_;
  service::Service service_;
  const local::LocalProvider* provider_ = nullptr;  // the service's
  std::unique_ptr<upstream::ExchangeLog> wrapped_log_;
  std::unique_ptr<proxy::host::Host> host_;
  std::unique_ptr<limits::SharedLimits> shared_limits_;  // null: nothing is shared
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<local::Maintenance> maintenance_;
  std::unique_ptr<sharing::SharedPins> shared_pins_;  // null: nobody shares them, or no engine
  std::unique_ptr<sharing::SharingThread> sharing_;   // null: nothing is shared
};

Result<std::unique_ptr<Runtime>> OpenOrThrow(Runtime::Options& options) {
  KVGATE_TRY(Beginning beginning, Begin(options));
  auto runtime = std::make_unique<OpenRuntime>(options, std::move(beginning));
  KVGATE_TRY_VOID(runtime->Start());
  return runtime;
}

}  // namespace

// The parts throw if the system refuses them memory or threads at their start; once they run, each
// thread catches its own exceptions.
Result<std::unique_ptr<Runtime>> Runtime::Open(Options options) {
  try {
    return OpenOrThrow(options);
  } catch (const std::bad_alloc& failure) {
    return machine::StartFailure(options.config, failure);
  } catch (const std::system_error& failure) {
    return machine::StartFailure(options.config, failure);
  }
}

}  // namespace kvgate::runtime
