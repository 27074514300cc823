// The agents that the rules were not made for, through a gateway whose process is killed at random
// requests: what it knows afterwards is what its BranchStore had written. Each request extends the
// one before all the same, nothing is missing or taken back, and a provider that binds thinking
// refuses nothing. Among the default seeds are helpers that go on from what their caller has sent,
// conversations without a name whose beginning changes, one with a name whose client says something
// else from the second request on (8), and a helper in its caller's session that compacts as its
// caller has (69), also behind a kill (132).
//
//   KVGATE_AGENT_SEED=17      runs another seed alone
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gateway/service/branches/branch_store.h"
#include "tests/gateway/prompt/traffic_run.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::service {
namespace {

using branches::BranchStore;
using dialect::form::Endpoint;
using prompt::Mode;
using prompt::OptimizeArgs;
using prompt::Optimizer;
using prompt::Prepared;

constexpr unsigned kPercentKilled = 15;  // of the requests, before their answers; and as many after

// What a request sends is on disk before it goes out, as in the gateway. All else that a process
// learns dies with it.
class KilledGateway final : public prompt::traffic::TrafficGateway {
 public:
  explicit KilledGateway(uint32_t seed) : random_(seed) { Start(); }
  ~KilledGateway() override { End(); }
  KilledGateway(const KilledGateway&) = delete;
  KilledGateway& operator=(const KilledGateway&) = delete;

  Prepared Prepare(const OptimizeArgs& args) override {
    Prepared prepared = optimizer_->Prepare(args);
    if (!prepared.recall.empty()) {
      for (const BranchStore::Recalled& found : branches_->Recall(prepared.recall)) {
        optimizer_->Restore(
            {.tenant = args.tenant, .keys = found.keys, .branches = found.branches});
        ++num_recalled_;
      }
      OptimizeArgs again = args;
      again.is_recalled = true;
      prepared = optimizer_->Prepare(again);
    }
    if (prepared.branch) {
      const auto write = branches_->Stage({.tenant = args.tenant,
                                           .branch = prepared.branch,
                                           .before = prepared.before,
                                           .keys = prepared.keys});
      if (write) {
        branches_->Commit(*write);
        branches_->GoOut(*write);
      }
    }
    return prepared;
  }
  void Finish(const Prepared& prepared, const Optimizer::FinishArgs& args) override {
    if (MaybeKill()) return;
    optimizer_->Finish(prepared, args);
    MaybeKill();
  }
  void Abandon(const Prepared& prepared) override { optimizer_->Abandon(prepared); }

  size_t num_recalled() const { return num_recalled_; }

 private:
  void Start() {
    branches_ = std::make_unique<BranchStore>(
        BranchStore::Options{.meta = meta_, .interval = std::chrono::hours(1)});
    optimizer_ = std::make_unique<Optimizer>(Optimizer::Options{.past = branches_.get()});
  }
  void End() {
    optimizer_ = nullptr;
    branches_ = nullptr;
  }
  bool MaybeKill() {
    if (random_() % 100 >= kPercentKilled) return false;
    End();
    Start();
    return true;
  }

  std::minstd_rand random_;
  store::MemoryMetaStore meta_;
  std::unique_ptr<BranchStore> branches_;
  std::unique_ptr<Optimizer> optimizer_;
  size_t num_recalled_ = 0;
};

struct Kind {
  Endpoint endpoint = Endpoint::kMessages;
  bool binds_thinking = false;
};

class KilledAgents : public ::testing::TestWithParam<Kind> {};

std::vector<uint32_t> Seeds() {
  const char* one = std::getenv("KVGATE_AGENT_SEED");
  if (one != nullptr) return {static_cast<uint32_t>(std::atoi(one))};
  return {1, 8, 18, 35, 43, 69, 132};
}

TEST_P(KilledAgents, WhatIsSentExtendsWhatWasSent) {
  for (const uint32_t seed : Seeds()) {
    size_t num_recalled = 0;
    const prompt::traffic::AgentTraffic traffic =
        prompt::traffic::AgentGenerator(seed, GetParam().endpoint,
                                        {.binds_thinking = GetParam().binds_thinking})
            .Generate();
    prompt::traffic::TrafficRun run(traffic);
    for (const Mode mode : {Mode::kPin, Mode::kStabilize}) {
      KilledGateway gateway(seed);
      const prompt::traffic::TrafficResult sent = run.Through(mode, gateway);
      num_recalled += gateway.num_recalled();
      const std::string replay = "seed " + std::to_string(seed);
      EXPECT_TRUE(sent.faults.empty())
          << replay << ", of " << sent.faults.size() << ": " << sent.faults.front();
      EXPECT_TRUE(sent.refusals.empty()) << replay << ": " << sent.refusals.front();
    }
    EXPECT_GT(num_recalled, 0U) << "no kill shows anything";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, KilledAgents,
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
}  // namespace kvgate::service
