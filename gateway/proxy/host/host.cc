#include "gateway/proxy/host/host.h"

#include <utility>

#include "gateway/proxy/host/loops.h"

namespace kvgate::proxy::host {

using request::CurrentTargets;
using request::Targets;
using work::BodyBudget;

namespace {

namespace asio = boost::asio;

class LoopHost final : public Host {
 public:
  LoopHost(const HostOptions& options, service::Service& service,
           std::shared_ptr<const Targets> targets)
      : service_(service),
        loops_(options.threads, "the handlers of requests"),
        targets_(std::move(targets)),
        // A body may be held in its encoded and its decoded form at the same time.
        bodies_(std::make_shared<BodyBudget>(
            BodyBudget::Options{.bytes_max = options.bodies_bytes_max,
                                .tenant_share = options.tenant_bodies_share,
                                .body_bytes_max = 2 * options.requests.body_bytes_max})),
        pools_(std::make_shared<service::WorkPools>(options.pools)),
        environment_{.options = options.requests,
                     .service = service,
                     .pools = *pools_,
                     .bodies = *bodies_,
                     .targets = targets_,
                     .model_lists = model_lists_} {}

  void Start() {
    service_.AddCollector([weak = std::weak_ptr<const service::WorkPools>(pools_)](auto& writer) {
      if (const auto pools = weak.lock()) pools->Collect(writer);
    });
    service_.AddCollector([weak = std::weak_ptr<const BodyBudget>(bodies_)](auto& writer) {
      if (const auto bodies = weak.lock()) bodies->Collect(writer);
    });
    loops_.Start();
  }

  ~LoopHost() override {
    environment_.background->EndAll();
    environment_.waiting->EndAll();
    pools_.reset();  // waits for running work
    loops_.Stop();
  }

  request::Environment& environment() override { return environment_; }
  size_t num_loops() const override { return loops_.size(); }
  asio::io_context& loop(size_t index) override { return loops_.at(index); }
  asio::io_context& NextLoop() override { return loops_.Next(); }

  Result<void> Reload(const request::TargetOptions& options) override {
    const std::shared_ptr<const Targets> before = targets_.Get();
    KVGATE_TRY(auto targets, Targets::Open(options, service_.has_local(), before.get()));
    targets_.Set(std::move(targets));
    return {};
  }

  void BeginDrain() override {
    environment_.background->Close();
    environment_.waiting->Close();
  }

  void Flush() override { loops_.Flush(); }

 private:
  service::Service& service_;
  // Kept upstream connections belong to the targets and must be destroyed before their loops.
  Loops loops_;
  CurrentTargets targets_;
  upstream::ModelListCache model_lists_;
  std::shared_ptr<BodyBudget> bodies_;
  std::shared_ptr<service::WorkPools> pools_;  // metrics are collected while it lives
  request::Environment environment_;
};

}  // namespace

Result<std::unique_ptr<Host>> Host::Open(const HostOptions& options, service::Service& service) {
  KVGATE_TRY(auto targets, Targets::Open(options.targets, service.has_local(), nullptr));
  auto host = std::make_unique<LoopHost>(options, service, std::move(targets));
  host->Start();
  return host;
}

}  // namespace kvgate::proxy::host
