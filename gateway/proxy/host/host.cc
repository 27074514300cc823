#include "gateway/proxy/host/host.h"

#include <string_view>
#include <utility>

#include "base/clock.h"
#include "gateway/metrics/registry.h"
#include "gateway/proxy/host/loops.h"
#include "gateway/upstream/upstream_report.h"

namespace kvgate::proxy::host {

using request::CurrentTargets;
using request::Targets;
using work::BodyBudget;

namespace {

namespace asio = boost::asio;

// How the upstreams are now; what their requests were is the ledger's.
void CollectUpstreams(const upstream::Upstreams& upstreams, metrics::TextWriter& writer) {
  const auto write = [&](std::string_view name, std::string_view type, std::string_view help,
                         auto value) {
    writer.Family(name, type, help);
    for (const auto& upstream : upstreams.all()) {
      writer.Sample(name, {{"upstream", upstream->name()}},
                    static_cast<uint64_t>(value(*upstream)));
    }
  };
  write("kvgate_upstream_requests_active", "gauge", "Requests that an upstream is answering.",
        [](upstream::Upstream& upstream) { return upstream.meter()->numbers().active; });
  write("kvgate_upstream_failed_total", "counter",
        "Requests to an upstream that were cut, or whose answer was an error.",
        [](upstream::Upstream& upstream) { return upstream.meter()->numbers().failed; });
  write("kvgate_upstream_breaker_open", "gauge",
        "1 while requests to an upstream that failed are held back.",
        [](upstream::Upstream& upstream) {
          return upstream.breaker().IsOpen(SteadyClock::now()) ? 1 : 0;
        });
}

class LoopHost final : public Host {
 public:
  LoopHost(const HostOptions& options, service::Service& service,
           std::shared_ptr<const Targets> targets)
      : service_(service),
        loops_(options.threads, "the handlers of requests"),
        targets_(std::make_shared<CurrentTargets>(std::move(targets))),
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
                     .targets = *targets_,
                     .model_lists = model_lists_} {}

  void Start() {
    service_.AddCollector([weak = std::weak_ptr<const service::WorkPools>(pools_)](auto& writer) {
      if (const auto pools = weak.lock()) pools->Collect(writer);
    });
    service_.AddCollector([weak = std::weak_ptr<const BodyBudget>(bodies_)](auto& writer) {
      if (const auto bodies = weak.lock()) bodies->Collect(writer);
    });
    service_.AddCollector([weak = std::weak_ptr<const CurrentTargets>(targets_)](auto& writer) {
      if (const auto targets = weak.lock()) CollectUpstreams(*targets->Get()->upstreams, writer);
    });
    service_.ReportUpstreams([weak = std::weak_ptr<const CurrentTargets>(targets_)](auto& json) {
      const auto targets = weak.lock();
      if (targets) {
        upstream::WriteUpstreams(*targets->Get()->upstreams, json);
      } else {
        json.BeginArray().EndArray();
      }
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
    const std::shared_ptr<const Targets> before = targets_->Get();
    KVGATE_TRY(auto targets, Targets::Open(options, service_.has_local(), before.get()));
    targets_->Set(std::move(targets));
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
  const std::shared_ptr<CurrentTargets> targets_;  // numbers are collected while it lives
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
