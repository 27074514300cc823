#include "sdk/src/transport/embedded.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "gateway/metrics/registry.h"
#include "gateway/proxy/host/host.h"
#include "gateway/proxy/work/background.h"
#include "gateway/runtime/runtime.h"
#include "sdk/src/transport/in_process_job.h"

namespace kvgate::sdk::transport {
namespace {

using std::chrono::milliseconds;

// Sleeps until this much time is over.
runtime::Pause PauseFor(milliseconds time) {
  return [end = std::chrono::steady_clock::now() + time](milliseconds step) {
    std::this_thread::sleep_for(step);
    return std::chrono::steady_clock::now() < end;
  };
}

class Embedded final : public Transport {
 public:
  explicit Embedded(std::string api_key)
      : authorization_(api_key.empty() ? "" : "Bearer " + api_key) {}

  Result<void> Open(config::Config config, const EmbeddedOptions& options) {
    KVGATE_TRY(runtime_, runtime::Runtime::Open({.config = std::move(config),
                                                 .registry = registry_,
                                                 .listens = false,
                                                 .needs_disk = options.needs_disk,
                                                 .while_loading = options.while_loading}));
    return {};
  }

  ~Embedded() override {
    if (runtime_ == nullptr) return;
    requests_.EndAll();
    runtime_->host()->Flush();  // of what the requests have left to run
    runtime_->Stop(PauseFor(milliseconds(0)));
  }

  std::shared_ptr<Channel> Start(Request request) override {
    if (!authorization_.empty()) request.headers.emplace_back("authorization", authorization_);
    const AnswerJob::Executor executor = runtime_->host()->NextLoop().get_executor();
    const auto job = std::make_shared<InProcessJob>(
        executor, *runtime_->host(), authorization_.empty() ? runtime_->admin_token() : "",
        std::move(request));
    return Begin(job, requests_);
  }

  Result<std::string> Listen(const std::string& address) override {
    if (!runtime_->url().empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "sdk",
                       fmt::format("it listens on {} already", runtime_->url()));
    }
    KVGATE_TRY_VOID(runtime_->Listen(address));
    return runtime_->url();
  }

  void StopListening(milliseconds drain) override { runtime_->StopListening(PauseFor(drain)); }

 private:
  const std::string authorization_;  // the header's value; empty: the caller is an admin
  metrics::Registry registry_;
  std::unique_ptr<runtime::Runtime> runtime_;
  proxy::work::Background requests_{kRequestsMax};
};

}  // namespace

Result<config::Config> ReadConfig(const EmbeddedOptions& options) {
  config::Config config;
  if (!options.config_file.empty() && !options.config_toml.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "sdk",
                     "a configuration comes as a file or as a text, not as both", "config_toml");
  }
  if (!options.config_file.empty() || !options.config_toml.empty()) {
    auto read = options.config_file.empty()
                    ? config::ParseConfig(options.config_toml, "config_toml")
                    : config::LoadConfig(options.config_file);
    if (!read) {
      return MakeError(ErrorCode::kInvalidArgument, "config",
                       fmt::format("{}", fmt::join(read.error().messages, "\n")));
    }
    config = std::move(*read);
  }
  if (!options.model.empty()) config.engine.model = options.model;
  if (!options.data_dir.empty()) config.store.data_dir = options.data_dir;
  if (const auto conflict = config::FindConflict(config)) {
    return MakeError(ErrorCode::kInvalidArgument, "config", *conflict);
  }
  return config;
}

Result<std::unique_ptr<Transport>> OpenEmbedded(const EmbeddedOptions& options) {
  KVGATE_TRY(config::Config config, ReadConfig(options));
  auto embedded = std::make_unique<Embedded>(options.api_key);
  KVGATE_TRY_VOID(embedded->Open(std::move(config), options));
  return embedded;
}

}  // namespace kvgate::sdk::transport
