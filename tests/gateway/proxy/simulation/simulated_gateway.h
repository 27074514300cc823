// SimulatedGateway is gateway/proxy with all that it needs and without a socket: upstreams on a
// simulated network, keys, routes, accounts and worker threads. Requests are answered to simulated
// clients.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <boost/asio/co_spawn.hpp>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/metrics/gateway_metrics.h"
#include "gateway/proxy/handler/router.h"
#include "gateway/proxy/request/environment.h"
#include "gateway/proxy/request/request_context.h"
#include "gateway/service/prompts.h"
#include "tests/gateway/proxy/simulation/simulated_client.h"
#include "tests/gateway/proxy/simulation/simulated_ledger.h"
#include "tests/gateway/proxy/simulation/simulated_network.h"
#include "tests/gateway/proxy/simulation/simulated_time.h"

namespace kvgate::test {

// The operator's key for an upstream, which no client may see.
inline constexpr const char* kSimulatedOperatorKey = "sk-operator-5d1f0a77c2";

struct SimulatedRequest {
  using Duration = SimulatedTime::Duration;
  SimulatedRequest(SimulatedTime& time, SimulatedClient::Manners manners)
      : client(time, manners), reading(manners.reading) {}

  int number = 0;
  std::string id;
  std::string tenant;
  std::string method = "POST";
  std::string path;
  std::string model;
  AskedReply::Form form = AskedReply::Form::kChat;
  bool is_stream = false;
  bool is_encoded = false;
  bool is_damaged = false;
  bool explains = false;
  std::string marker;
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields;

  SimulatedClient client;
  const Duration reading;
  SimulatedTime::Time began_at{};
  SimulatedTime::Time ended_at{};
  bool is_done = false;
  bool is_cancelled = false;  // the server gave it up
};

class SimulatedGateway {
 public:
  struct Setup {
    proxy::request::TargetOptions targets = {};
    proxy::work::BodyBudget::Options bodies = {};
  };
  SimulatedGateway(SimulatedTime& time, Setup setup)
      : time_(time),
        bodies_(setup.bodies),
        ledger(prompts_),
        targets_(Open(setup.targets, nullptr)),
        environment_{.options = {.exchange_log = &ledger, .prompts = &prompts_},
                     .service = service_,
                     .pools = pools_,
                     .bodies = bodies_,
                     .targets = targets_,
                     .model_lists = lists_} {
    time_.settle = [this] { Settle(); };
  }
  ~SimulatedGateway() {
    time_.settle = [] {};
  }

  // `request` must live until it is done.
  void Begin(SimulatedRequest& request) {
    request.began_at = time_.now();
    boost::asio::co_spawn(time_.io(), Serve(request), [](std::exception_ptr failure) {
      EXPECT_FALSE(failure) << "a request threw";
    });
  }
  void Reload(const proxy::request::TargetOptions& options) {
    const auto before = targets_.Get();
    targets_.Set(Open(options, before.get()));
  }

  std::shared_ptr<const proxy::request::Targets> targets() const { return targets_.Get(); }
  // Nothing of any request is left.
  void ExpectIdle() const {
    for (const auto& upstream : targets_.Get()->upstreams->all()) {
      EXPECT_EQ(upstream->num_in_use(), 0) << upstream->name();
    }
    EXPECT_EQ(bodies_.bytes(), 0u);
    EXPECT_EQ(environment_.shared_body_bytes->load(), 0u);
    EXPECT_EQ(num_running_, 0);
  }
  // Requests of this status that were counted, of any route; 0: of any status.
  uint64_t NumCounted(int status = 0) const {
    const std::string text = registry_.Text();
    constexpr std::string_view kName = "\nkvgate_http_requests_total{";
    uint64_t sum = 0;
    for (size_t at = text.find(kName); at != std::string::npos; at = text.find(kName, at + 1)) {
      const size_t end = text.find('\n', at + 1);
      const std::string line = text.substr(at, end - at);
      const std::string wanted = fmt::format("\"{}\"}}", status);
      if (status != 0 && line.find(wanted) == std::string::npos) continue;
      sum += std::stoull(line.substr(line.rfind(' ') + 1));
    }
    return sum;
  }
  uint64_t num_disconnects() const { return metrics_.client_disconnects.value(); }

 private:
  static std::shared_ptr<const proxy::request::Targets> Open(
      const proxy::request::TargetOptions& options, const proxy::request::Targets* previous) {
    auto opened = proxy::request::Targets::Open(options, /*has_local=*/false, previous);
    EXPECT_TRUE(opened) << opened.error().ToString();
    return *opened;
  }

  void Settle() const {
    const auto is_working = [](const service::WorkQueue* pool) {
      const service::WorkQueue::Stats stats = pool->stats();
      return stats.num_queued + stats.num_running > 0;
    };
    for (const service::WorkQueue* pool : pools_.all()) {
      while (is_working(pool)) std::this_thread::yield();
    }
  }

  static proxy::request::RequestHead HeadOf(const SimulatedRequest& request) {
    proxy::request::RequestHead head{.request_id = request.id,
                                     .method = request.method,
                                     .target = request.path,
                                     .fields = {},
                                     .received_at = SimulatedTime::now()};
    for (const auto& [name, value] : request.fields) {
      head.fields.push_back({.name = name, .value = value});
    }
    return head;
  }

  upstream::wire::Task<void> Serve(SimulatedRequest& request) {
    ++num_running_;
    const proxy::handler::RouteResult found =
        proxy::handler::FindRoute(request.method, request.path);
    {
      proxy::request::RequestContext context(environment_, request.client, HeadOf(request),
                                             targets_.Get());
      context.place() = found.match->place;
      context.body().bytes() = request.body;
      const Result<void> fits = context.body().lease().GrowTo(request.body.size());
      if (fits) {
        co_await found.match->handler->Serve(context);
      } else {
        Error error = fits.error();
        co_await context.Refuse(std::move(error));
      }
    }
    request.client.is_served = request.is_done = true;
    request.ended_at = time_.now();
    --num_running_;
  }

  SimulatedTime& time_;
  metrics::Registry registry_;
  metrics::GatewayMetrics metrics_{registry_};
  service::Prompts prompts_{{}};
  service::Service service_{{.registry = registry_,
                             .metrics = metrics_,
                             .prompts = &prompts_,
                             .no_disk_reason = "switched off",
                             .system_fingerprint = "kvgate-test",
                             .has_local = false}};
  // One thread, so that work has one order.
  service::WorkPools pools_{
      {.request_threads = 1, .compile_threads = 1, .store_threads = 1, .bulk_threads = 1}};
  proxy::work::BodyBudget bodies_;

 public:
  SimulatedLedger ledger;

 private:
  proxy::request::CurrentTargets targets_;
  upstream::ModelListCache lists_;
  proxy::request::Environment environment_;
  int num_running_ = 0;
};

}  // namespace kvgate::test
