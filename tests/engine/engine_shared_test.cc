// These tests give several engines one store that they share: what one of them computed is restored
// by the others to the same bits, and whatever the store does, answers stay what they are.
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/engine_harness.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/engine/memory_shared_store.h"
#include "tests/engine/window_model.h"

namespace kvgate::engine {
namespace {

using Tokens = std::vector<TokenId>;
using std::chrono::milliseconds;
using std::chrono::seconds;
using store::MemoryKvStore;
using store::MemorySharedStore;
using store::SharedBlocks;

Tokens RandomPrompt(int count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(3 + static_cast<TokenId>(random() % 590));
  return tokens;
}

// A gateway's engine: its own seed of hashes, and its own knowledge of what is shared.
struct Member {
  explicit Member(SharedBlocks& blocks) : shared(blocks) {}
  MemorySharedStore shared;
  std::unique_ptr<Engine> engine;
};

class EngineSharedTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new TestModel(TestModel::Make("llama", kernels::DType::kF32));
  }
  static void TearDownTestSuite() { delete model_; }

  // `windows`: of the layers; the first steps are slow, so that loads pay on any machine.
  std::unique_ptr<Member> Open(uint64_t seed, MemoryKvStore* disk = nullptr,
                               std::vector<int> windows = {}) {
    auto member = std::make_unique<Member>(blocks_);
    WindowModel::Options model;
    model.windows = windows.empty() ? std::vector{0} : std::move(windows);
    model.warm_up_delay = milliseconds(100);
    EngineOptions options;
    options.kv_bytes = 1 << 20;
    options.hash_seed = seed;
    auto engine = Engine::Open(options, std::make_unique<WindowModel>(model), *model_->backend,
                               *model_->tokenizer, Stores(disk, &member->shared));
    EXPECT_TRUE(engine.has_value()) << engine.error().ToString();
    member->engine = std::move(*engine);
    options_ = model;
    return member;
  }
  RequestStats Ask(Member& member, const Tokens& prompt) {
    const Outcome outcome = Generate(*member.engine, prompt, 20);
    EXPECT_EQ(outcome.tokens, WindowModel(options_).Answer(prompt, 20));
    member.engine->CheckIntegrity();
    return outcome.finish.stats;
  }
  void Share(const Tokens& prompt, std::vector<int> windows = {}) {
    const auto first = Open(1, nullptr, std::move(windows));
    EXPECT_EQ(Ask(*first, prompt).num_cached_tokens, 0);
    ASSERT_TRUE(first->engine->Drain(seconds(10)));
  }

  static inline TestModel* model_ = nullptr;
  WindowModel::Options options_;
  SharedBlocks blocks_;
};

TEST_F(EngineSharedTest, WhatOneEngineComputedAnotherRestores) {
  const Tokens prompt = RandomPrompt(333, 1);
  Share(prompt);
  EXPECT_GE(blocks_.size(), 10u);
  const auto second = Open(2);
  const RequestStats hit = Ask(*second, prompt);
  EXPECT_EQ(hit.num_shared_tokens, 320);
  EXPECT_EQ(hit.num_disk_tokens, 0);
  EXPECT_EQ(hit.num_cached_tokens, 320);
  EXPECT_EQ(hit.num_computed_tokens, 13);
  EXPECT_EQ(second->engine->Stats().num_shared_tokens, 320u);
  EXPECT_GT(second->engine->Stats().shared.moved.load_bytes, 0u);
  // From then on it is in memory, and nobody is asked.
  const int num_asked = second->shared.num_look_ups;
  EXPECT_GE(Ask(*second, prompt).num_device_tokens, 320);
  EXPECT_EQ(second->shared.num_look_ups, num_asked);
}

TEST_F(EngineSharedTest, WindowsAreRestoredWithTheirBlocks) {
  const Tokens prompt = RandomPrompt(700, 2);
  Share(prompt, {0, 64});
  const auto second = Open(2, nullptr, {0, 64});
  EXPECT_EQ(Ask(*second, prompt).num_shared_tokens, 672);
}

TEST_F(EngineSharedTest, TheSharedStoreGoesOnWhereTheDiskEnds) {
  const Tokens prompt = RandomPrompt(700, 3);
  const Tokens beginning(prompt.begin(), prompt.begin() + 333);
  Share(prompt);
  MemoryKvStore disk;
  {
    const auto before = Open(2, &disk);
    (void)Ask(*before, beginning);
    ASSERT_TRUE(before->engine->Drain(seconds(10)));
  }
  const auto second = Open(2, &disk);
  const RequestStats hit = Ask(*second, prompt);
  EXPECT_EQ(hit.num_disk_tokens, 320);
  EXPECT_EQ(hit.num_shared_tokens, 672 - 320);
}

TEST_F(EngineSharedTest, WhatWasRestoredGoesToTheDisk) {
  const Tokens prompt = RandomPrompt(333, 4);
  Share(prompt);
  MemoryKvStore disk;
  {
    const auto second = Open(2, &disk);
    EXPECT_EQ(Ask(*second, prompt).num_shared_tokens, 320);
    ASSERT_TRUE(second->engine->Drain(seconds(10)));
  }
  blocks_.Keep(0);
  const auto again = Open(2, &disk);
  EXPECT_EQ(Ask(*again, prompt).num_disk_tokens, 320);
}

TEST_F(EngineSharedTest, ABlockThatIsGoneSinceTheQuestionIsComputed) {
  const Tokens prompt = RandomPrompt(333, 5);
  for (const bool has_windows : {false, true}) {
    const std::vector<int> windows = has_windows ? std::vector{0, 64} : std::vector{0};
    Share(prompt, windows);
    const auto second = Open(2, nullptr, windows);
    second->shared.loses_half = true;
    const RequestStats stats = Ask(*second, prompt);
    EXPECT_LT(stats.num_shared_tokens, 320);
    EXPECT_GT(second->shared.num_gets, 0);
    EXPECT_EQ(stats.given_up.reason, "damaged");
    blocks_.Keep(0);
  }
}

TEST_F(EngineSharedTest, AStoreThatHangsIsWaitedForBrieflyAndHoldsUpNobodyElse) {
  const Tokens prompt = RandomPrompt(333, 6);
  Share(prompt);
  const auto second = Open(2);
  const Tokens other = RandomPrompt(100, 7);
  (void)Ask(*second, other);
  second->shared.hangs = true;
  const auto began = std::chrono::steady_clock::now();
  const auto sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(second->engine->Submit(MakeRequest(prompt, 5, sink)));
  // What is in memory needs no answer and is served meanwhile.
  EXPECT_GE(Ask(*second, other).num_device_tokens, 96);
  const RequestStats stats = Collect(*sink).finish.stats;
  EXPECT_EQ(stats.num_shared_tokens, 0);
  EXPECT_LT(stats.queue_seconds, 2.0);
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(20));
}

TEST_F(EngineSharedTest, APausedStoreIsNotAskedAndTakesNothing) {
  const Tokens prompt = RandomPrompt(333, 8);
  Share(prompt);
  const auto second = Open(2);
  second->shared.paused = true;
  EXPECT_EQ(Ask(*second, prompt).num_cached_tokens, 0);
  EXPECT_EQ(second->shared.num_look_ups, 0);
  ASSERT_TRUE(second->engine->Drain(seconds(10)));
  EXPECT_EQ(second->shared.num_gets, 0);
}

TEST_F(EngineSharedTest, ARequestThatLeavesWhileTheStoreIsAskedIsForgotten) {
  const auto second = Open(2);
  second->shared.hangs = true;
  for (int i = 0; i < 5; ++i) {
    const auto sink = std::make_shared<CollectingSink>();
    const auto id = second->engine->Submit(
        MakeRequest(RandomPrompt(400, 20 + static_cast<uint32_t>(i)), 5, sink));
    ASSERT_TRUE(id);
    second->engine->Cancel(*id);
    EXPECT_EQ(sink->WaitForFinish().reason, FinishReason::kCancelled);
  }
  second->engine->CheckIntegrity();
}

TEST_F(EngineSharedTest, AnEngineThatEndsWithRequestsUnderWayCancelsThem) {
  MemoryKvStore disk;
  for (const bool hangs : {false, true}) {
    const auto second = Open(2, &disk);
    second->shared.hangs = hangs;
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    for (uint32_t i = 0; i < 4; ++i) {
      sinks.push_back(std::make_shared<CollectingSink>());
      ASSERT_TRUE(
          second->engine->Submit(MakeRequest(RandomPrompt(100, 40 + i), 1'000, sinks.back())));
    }
    sinks.front()->WaitForTokens(hangs ? 0 : 3);
    second->engine.reset();
    for (const auto& sink : sinks) {
      EXPECT_EQ(sink->WaitForFinish().reason, FinishReason::kCancelled);
    }
  }
}

TEST_F(EngineSharedTest, TenantsShareNothing) {
  const Tokens prompt = RandomPrompt(333, 9);
  Share(prompt);
  const auto second = Open(2);
  const auto sink = std::make_shared<CollectingSink>();
  GenerationRequest request = MakeRequest(prompt, 5, sink);
  request.cache_salt = "another";
  ASSERT_TRUE(second->engine->Submit(std::move(request)));
  EXPECT_EQ(Collect(*sink).finish.stats.num_cached_tokens, 0);
}

}  // namespace
}  // namespace kvgate::engine
