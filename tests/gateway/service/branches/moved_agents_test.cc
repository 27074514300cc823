// The agents that the rules were not made for, whose requests each go to any of three gateways that
// share a store. Each request extends the one before all the same, nothing is missing or taken
// back, and a provider that binds thinking refuses nothing. Now and then a gateway's process is
// killed.
//
//   KVGATE_AGENT_SEED=17      runs another seed alone
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gateway/service/branches/kept_branches.h"
#include "tests/gateway/prompt/traffic_run.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/shared/memory_client.h"

namespace kvgate::service::branches {
namespace {

using dialect::form::Endpoint;
using prompt::Mode;
using prompt::OptimizeArgs;
using prompt::Optimizer;
using prompt::Prepared;

constexpr unsigned kPercentKilled = 5;  // of the requests, before their answers

// One of the gateways. Its disk outlives its process.
class Gateway {
 public:
  Gateway(store::shared::MemoryServer& server, const Keyring& ring)
      : client_(server), rows_({}, client_, ring) {
    Start();
  }
  ~Gateway() { End(); }
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  Prepared Prepare(const OptimizeArgs& args) {
    Prepared prepared = optimizer_->Prepare(args);
    if (!prepared.recall.empty()) {
      const KeptBranches::Asked asked{
          .tenant = args.tenant, .keys = prepared.recall, .known = prepared.known};
      kept_->Recall(asked, [&](const Recalled& found) {
        optimizer_->Restore(
            {.tenant = args.tenant, .keys = found.keys, .branches = found.branches});
        ++num_heard;
      });
      OptimizeArgs again = args;
      again.is_recalled = true;
      prepared = optimizer_->Prepare(again);
    }
    const auto write = kept_->Keep(args.tenant, prepared);
    shared_->Flush();  // it is told long before its answer has ended
    if (!write) return prepared;
    branches_->Commit(*write);
    branches_->GoOut(*write);
    return prepared;
  }
  Optimizer& optimizer() { return *optimizer_; }
  void Restart() {
    End();
    Start();
  }

  size_t num_heard = 0;

 private:
  void Start() {
    branches_ = std::make_unique<BranchStore>(
        BranchStore::Options{.meta = meta_, .interval = std::chrono::hours(1)});
    shared_ = std::make_unique<SharedBranches>(
        SharedBranches::Options{.here = *branches_, .shared = rows_});
    kept_ = std::make_unique<KeptBranches>(branches_.get(), shared_.get());
    optimizer_ = std::make_unique<Optimizer>(Optimizer::Options{.past = kept_->past()});
  }
  void End() {
    optimizer_ = nullptr;
    shared_ = nullptr;
    branches_ = nullptr;
  }

  store::shared::MemoryClient client_;
  store::shared::SharedRows rows_;
  store::MemoryMetaStore meta_;
  std::unique_ptr<BranchStore> branches_;
  std::unique_ptr<SharedBranches> shared_;
  std::unique_ptr<KeptBranches> kept_;
  std::unique_ptr<Optimizer> optimizer_;
};

class Gateways final : public prompt::traffic::TrafficGateway {
 public:
  explicit Gateways(uint32_t seed) : random_(seed) {
    for (auto& gateway : gateways_) gateway = std::make_unique<Gateway>(server_, *ring_);
  }

  Prepared Prepare(const OptimizeArgs& args) override {
    const size_t which = random_() % gateways_.size();
    Prepared prepared = gateways_[which]->Prepare(args);
    taken_[prepared.state.get()] = which;
    return prepared;
  }
  void Finish(const Prepared& prepared, const Optimizer::FinishArgs& args) override {
    const size_t which = taken_.at(prepared.state.get());
    if (random_() % 100 < kPercentKilled) return gateways_[which]->Restart();
    gateways_[which]->optimizer().Finish(prepared, args);
  }
  void Abandon(const Prepared& prepared) override {
    gateways_[taken_.at(prepared.state.get())]->optimizer().Abandon(prepared);
  }

  size_t num_heard() const {
    size_t sum = 0;
    for (const auto& gateway : gateways_) sum += gateway->num_heard;
    return sum;
  }

 private:
  std::minstd_rand random_;
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  store::shared::MemoryServer server_;
  std::array<std::unique_ptr<Gateway>, 3> gateways_;
  std::map<const void*, size_t> taken_;
};

struct Kind {
  Endpoint endpoint = Endpoint::kMessages;
  bool binds_thinking = false;
};

class MovedAgents : public ::testing::TestWithParam<Kind> {};

std::vector<uint32_t> Seeds() {
  const char* one = std::getenv("KVGATE_AGENT_SEED");
  if (one != nullptr) return {static_cast<uint32_t>(std::atoi(one))};
  return {1, 69, 311};
}

TEST_P(MovedAgents, WhatIsSentExtendsWhatWasSent) {
  for (const uint32_t seed : Seeds()) {
    size_t num_heard = 0;
    const prompt::traffic::AgentTraffic traffic =
        prompt::traffic::AgentGenerator(seed, GetParam().endpoint,
                                        {.binds_thinking = GetParam().binds_thinking})
            .Generate();
    prompt::traffic::TrafficRun run(traffic);
    for (const Mode mode : {Mode::kPin, Mode::kStabilize}) {
      Gateways gateways(seed);
      const prompt::traffic::TrafficResult sent = run.Through(mode, gateways);
      num_heard += gateways.num_heard();
      const std::string replay = "seed " + std::to_string(seed);
      EXPECT_TRUE(sent.faults.empty())
          << replay << ", of " << sent.faults.size() << ": " << sent.faults.front();
      EXPECT_TRUE(sent.refusals.empty()) << replay << ": " << sent.refusals.front();
    }
    EXPECT_GT(num_heard, 0U) << "no request went elsewhere";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MovedAgents,
    ::testing::Values(Kind{Endpoint::kMessages}, Kind{Endpoint::kMessages, true},
                      Kind{Endpoint::kChatCompletions}, Kind{Endpoint::kResponses}),
    [](const auto& test) {
      const Kind& kind = test.param;
      if (kind.binds_thinking) return std::string("binding");
      return std::string(kind.endpoint == Endpoint::kMessages          ? "messages"
                         : kind.endpoint == Endpoint::kChatCompletions ? "chat"
                                                                       : "responses");
    });

}  // namespace
}  // namespace kvgate::service::branches
