// These tests use models with sliding windows: from whichever tier the KV of a prefix comes, and
// however much of its windows is gone, the answer is the one that the model gives without an
// engine.
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/engine_harness.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/engine/window_model.h"

namespace kvgate::engine {
namespace {

using Tokens = std::vector<TokenId>;

Tokens RandomPrompt(int count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(3 + static_cast<TokenId>(random() % 590));
  return tokens;
}

// Returns a prompt that agrees with `tokens` in its first `count` tokens and differs from there on.
Tokens Branch(Tokens tokens, int count, uint32_t seed) {
  const Tokens other = RandomPrompt(static_cast<int>(tokens.size()) - count, seed);
  std::ranges::copy(other, tokens.begin() + count);
  tokens[static_cast<size_t>(count)] += tokens[static_cast<size_t>(count)] == 3 ? 1 : -1;
  return tokens;
}

class EngineWindowsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    tokens_ = new TestModel(TestModel::Make("llama", kernels::DType::kF32));
  }
  static void TearDownTestSuite() { delete tokens_; }
  EngineWindowsTest() { options_.kv_bytes = 1 << 20; }

  std::unique_ptr<Engine> Open(store::kv::KvStore* store = nullptr) {
    // With a store, the first steps are slow, so that loads pay on any machine; else the tests
    // would see other tiers than they ask for.
    model_options_.warm_up_delay = std::chrono::milliseconds(store != nullptr ? 100 : 0);
    auto engine = Engine::Open(options_, std::make_unique<WindowModel>(model_options_),
                               *tokens_->backend, *tokens_->tokenizer, store);
    EXPECT_TRUE(engine.has_value()) << engine.error().ToString();
    return std::move(*engine);
  }
  // Generates, and expects the model's own answer.
  FinishEvent Ask(Engine& engine, const Tokens& prompt, int max_tokens = 20) {
    const Outcome outcome = Generate(engine, prompt, max_tokens);
    EXPECT_EQ(outcome.tokens, Answer(prompt, max_tokens));
    engine.CheckIntegrity();
    return outcome.finish;
  }
  Tokens Answer(const Tokens& prompt, int max_tokens) const {
    return WindowModel(model_options_).Answer(prompt, max_tokens);
  }
  void Store(const Tokens& prompt, store::kv::KvStore& store) {
    const auto engine = Open(&store);
    Ask(*engine, prompt);
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
  }

  static inline TestModel* tokens_ = nullptr;
  WindowModel::Options model_options_;
  EngineOptions options_;
};

TEST_F(EngineWindowsTest, AMemoryHitAnswersAsAColdPrefill) {
  const auto engine = Open();
  const Tokens prompt = RandomPrompt(333, 1);
  EXPECT_EQ(Ask(*engine, prompt).stats.num_cached_tokens, 0);
  EXPECT_EQ(Ask(*engine, prompt).stats.num_device_tokens, 320);
  // This prompt has another end; the blocks that slid out of the window are still cached.
  EXPECT_EQ(Ask(*engine, Branch(prompt, 300, 2)).stats.num_device_tokens, 288);
}

TEST_F(EngineWindowsTest, APromptOfWholeBlocksHitsAllButItsLastOne) {
  const auto engine = Open();
  for (const int window : {1, 2, 32, 33, 34, 64, 65, 500}) {
    model_options_.windows = {0, window};
    const auto other = Open();
    const Tokens prompt = RandomPrompt(320, 3);
    Ask(*other, prompt);
    EXPECT_EQ(Ask(*other, prompt).stats.num_device_tokens, 288) << window;
  }
}

TEST_F(EngineWindowsTest, ADiskHitInANewEngineAnswersAsAColdPrefill) {
  const Tokens prompt = RandomPrompt(333, 2);
  store::MemoryKvStore store;
  Store(prompt, store);
  const auto engine = Open(&store);
  const FinishEvent hit = Ask(*engine, prompt);
  EXPECT_EQ(hit.stats.num_disk_tokens, 320);
  EXPECT_EQ(hit.stats.num_computed_tokens, 13);
}

TEST_F(EngineWindowsTest, ABranchFromTheMiddleOfAStoredPrefixHitsOnDisk) {
  const Tokens prompt = RandomPrompt(700, 2);
  store::MemoryKvStore store;
  Store(prompt, store);
  const auto engine = Open(&store);
  EXPECT_EQ(Ask(*engine, Branch(prompt, 400, 5)).stats.num_disk_tokens, 384);
}

TEST_F(EngineWindowsTest, AHitThatIsInMemoryInPartIsRestoredFromDiskForTheRest) {
  const Tokens prompt = RandomPrompt(700, 2);
  store::MemoryKvStore store;
  Store(prompt, store);
  const auto engine = Open(&store);
  Ask(*engine, Branch(prompt, 400, 5));
  const FinishEvent hit = Ask(*engine, prompt);
  EXPECT_EQ(hit.stats.num_device_tokens, 384);
  EXPECT_EQ(hit.stats.num_disk_tokens, 672 - 384);
}

TEST_F(EngineWindowsTest, AHitInTheHostArenaAnswersAsAColdPrefill) {
  const size_t block_bytes = Open()->info().kv_block_bytes;
  // Each group gets 16 blocks; a block of group 0 costs one unit, one of group 1 two.
  options_.kv_bytes = 48 * block_bytes;
  options_.host_bytes = 400 * block_bytes;
  options_.context_tokens_max = 512;
  const auto engine = Open();
  ASSERT_LT(engine->info().num_kv_blocks, 20u);
  const Tokens prompt = RandomPrompt(333, 7);
  Ask(*engine, prompt);
  Ask(*engine, RandomPrompt(480, 8));  // takes all blocks of group 0
  Ask(*engine, RandomPrompt(480, 9));
  EXPECT_EQ(Ask(*engine, prompt).stats.num_host_tokens, 320);
}

TEST_F(EngineWindowsTest, ADamagedWindowOnDiskIsComputedAnew) {
  const Tokens prompt = RandomPrompt(333, 3);
  store::MemoryKvStore store;
  Store(prompt, store);
  store.fail_gets_of_group = 1;
  const auto engine = Open(&store);
  const FinishEvent outcome = Ask(*engine, prompt);
  EXPECT_EQ(outcome.stats.num_cached_tokens, 0);
  EXPECT_EQ(outcome.stats.num_computed_tokens, 333);
}

TEST_F(EngineWindowsTest, ADamagedBlockBesideGoodWindowsIsComputedAnew) {
  const Tokens prompt = RandomPrompt(333, 3);
  store::MemoryKvStore store;
  Store(prompt, store);
  store.fail_gets_from_depth = 6;
  const auto engine = Open(&store);
  EXPECT_EQ(Ask(*engine, prompt).stats.num_cached_tokens, 0);
}

TEST_F(EngineWindowsTest, AHitIsCutToTheLastPlaceWhoseWindowsAreThere) {
  const Tokens prompt = RandomPrompt(700, 3);
  store::MemoryKvStore store;
  Store(prompt, store);
  store.RemoveGroup(1, 12);  // removes the window blocks at depth 12 and deeper
  const auto engine = Open(&store);
  const FinishEvent hit = Ask(*engine, prompt);
  EXPECT_EQ(hit.stats.num_disk_tokens, 11 * 32);
  EXPECT_EQ(hit.stats.num_computed_tokens, 700 - 11 * 32);
}

TEST_F(EngineWindowsTest, WhereAHitWasCutTheNextOneIsWhole) {
  model_options_.windows = {0, 130};
  options_.step_tokens_max = 128;
  options_.kv_bytes = 90 << 10;
  const auto engine = Open();
  ASSERT_LT(engine->info().kv_groups[1].num_blocks, 70u);
  const Tokens prompt = RandomPrompt(1000, 3);
  Ask(*engine, prompt);
  // The blocks that slid out of the first prompt's windows are evicted to make room.
  for (uint32_t i = 0; i < 5; ++i) Ask(*engine, RandomPrompt(600, 20 + i));
  const FinishEvent cut = Ask(*engine, Branch(prompt, 500, 4));
  EXPECT_EQ(cut.stats.num_device_tokens, 0);
  for (uint32_t i = 0; i < 3; ++i) Ask(*engine, RandomPrompt(600, 30 + i));
  EXPECT_EQ(Ask(*engine, Branch(prompt, 500, 5)).stats.num_device_tokens, 480);
}

TEST_F(EngineWindowsTest, KvWrittenByDecodeServesTheNextTurn) {
  const auto engine = Open();
  Tokens conversation = RandomPrompt(75, 4);
  for (int turn = 0; turn < 6; ++turn) {
    const Outcome answer = Generate(*engine, conversation, 90);
    EXPECT_EQ(answer.tokens, Answer(conversation, 90));
    const int num_known = turn == 0 ? 0 : 75 + turn * 110 - 20;
    EXPECT_GE(answer.finish.stats.num_device_tokens, num_known - 32);
    conversation.insert(conversation.end(), answer.tokens.begin(), answer.tokens.end());
    const Tokens question = RandomPrompt(20, 50 + static_cast<uint32_t>(turn));
    conversation.insert(conversation.end(), question.begin(), question.end());
  }
}

TEST_F(EngineWindowsTest, ChunksOfAnySizeGiveTheSameAnswer) {
  for (const int chunk : {32, 64, 100, 512}) {
    options_.step_tokens_max = chunk;
    const auto engine = Open();
    Ask(*engine, RandomPrompt(700, 6));
  }
}

TEST_F(EngineWindowsTest, SeveralWindowsAreGroupsOfTheirOwn) {
  model_options_.windows = {0, 33, 200};
  store::MemoryKvStore store;
  Store(RandomPrompt(700, 6), store);
  const auto engine = Open(&store);
  ASSERT_EQ(engine->info().kv_groups.size(), 3u);
  EXPECT_EQ(Ask(*engine, RandomPrompt(700, 6)).stats.num_disk_tokens, 672);
  EXPECT_EQ(Ask(*engine, RandomPrompt(700, 6)).stats.num_device_tokens, 672);
}

TEST_F(EngineWindowsTest, ABatchInASmallPoolIsPreemptedAndAnswersAsAlone) {
  options_.context_tokens_max = 1024;
  options_.step_tokens_max = 64;
  options_.kv_bytes = 14 << 10;
  const auto engine = Open();
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (uint32_t i = 0; i < 12; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->Submit(
        MakeRequest(RandomPrompt(20 + 13 * static_cast<int>(i), 10 + i), 150, sinks[i])));
  }
  for (uint32_t i = 0; i < 12; ++i) {
    EXPECT_EQ(Collect(*sinks[i]).tokens,
              Answer(RandomPrompt(20 + 13 * static_cast<int>(i), 10 + i), 150));
  }
  EXPECT_GT(engine->Stats().num_preemptions, 0u);
  engine->CheckIntegrity();
}

TEST_F(EngineWindowsTest, RequestsWithOneColdPrefixPrefillItOnce) {
  model_options_.token_delay = std::chrono::microseconds(100);
  options_.step_tokens_max = 128;
  const auto engine = Open();
  const Tokens prompt = RandomPrompt(600, 3);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  int num_computed = 0;
  for (uint32_t i = 0; i < 6; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->Submit(MakeRequest(Branch(prompt, 400, 40 + i), 10, sinks[i])));
  }
  for (uint32_t i = 0; i < 6; ++i) {
    const Outcome outcome = Collect(*sinks[i]);
    EXPECT_EQ(outcome.tokens, Answer(Branch(prompt, 400, 40 + i), 10));
    num_computed += outcome.finish.stats.num_computed_tokens;
  }
  EXPECT_LE(num_computed, 600 + 5 * (600 - 384));
  EXPECT_EQ(engine->Stats().num_single_flight, 5u);
}

TEST_F(EngineWindowsTest, ALongPromptHoldsOnlyItsWindowAndTheStepsBlocks) {
  options_.step_tokens_max = 64;
  options_.context_tokens_max = 4096;
  options_.kv_bytes = 128 * 256 + 8 * 512 + 20 * 512;
  const auto engine = Open();
  const KvGroupInfo& window = engine->info().kv_groups[1];
  EXPECT_LT(window.num_blocks, 30u);  // group 0 has 128
  Ask(*engine, RandomPrompt(2000, 6));
  EXPECT_EQ(engine->Stats().num_window_blocks_used, 0u);
}

TEST_F(EngineWindowsTest, CollidingHashesAreMissesAndNothingElse) {
  options_.hash_bits = 5;
  store::MemoryKvStore store;
  for (int round = 0; round < 3; ++round) {
    const auto engine = Open(&store);
    for (uint32_t i = 0; i < 8; ++i) Ask(*engine, RandomPrompt(300, 60 + i));
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
  }
}

TEST_F(EngineWindowsTest, AFullDiskAndASpentBudgetCostHitsOnly) {
  store::MemoryKvStore store;
  store.fail_put = true;
  Store(RandomPrompt(333, 2), store);
  EXPECT_EQ(store.Stats().num_records, 0u);
  store.fail_put = false;
  // The budget covers the bytes of one request, after which only valuable blocks are written:
  // windows in the middle of a prefix are not.
  const size_t block_bytes = Open()->info().kv_block_bytes;
  options_.write_admission = std::make_shared<tier::WriteAdmission>(
      tier::WriteAdmission::Options{.bytes_per_day = 1, .burst_bytes_min = 20 * block_bytes});
  Store(RandomPrompt(333, 2), store);
  EXPECT_GT(store.Stats().num_records, 0u);
  EXPECT_LT(store.Stats().num_records, 20u);
  options_.write_admission = nullptr;
  const auto engine = Open(&store);
  Ask(*engine, RandomPrompt(333, 2));
}

TEST_F(EngineWindowsTest, APinnedPrefixKeepsTheWindowsBeforeItsEnd) {
  options_.context_tokens_max = 2048;
  options_.kv_bytes = 150 << 10;
  const auto engine = Open();
  const Tokens prompt = RandomPrompt(640, 3);
  engine->Pin(
      {.tokens = Tokens(prompt.begin(), prompt.begin() + 320), .cache_salt = "", .priority = 1});
  Ask(*engine, prompt);
  for (uint32_t i = 0; i < 12; ++i) Ask(*engine, RandomPrompt(900, 80 + i));
  EXPECT_EQ(Ask(*engine, Branch(prompt, 325, 6)).stats.num_device_tokens, 320);
}

TEST_F(EngineWindowsTest, ABoundedContextIsRefusedByName) {
  options_.context_policy = schedule::ContextPolicy::kSlidingWindow;
  options_.context_policy_tokens = 256;
  const auto engine = Engine::Open(options_, std::make_unique<WindowModel>(model_options_),
                                   *tokens_->backend, *tokens_->tokenizer, nullptr);
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine.error().field, "context_policy");
}

// Conversations grow and branch, requests are cancelled, several tenants share little memory of
// every kind, and the store fails now and then: the answers stay the model's own.
TEST_F(EngineWindowsTest, RandomTrafficIsAnsweredAsTheModelAnswers) {
  std::mt19937 random(11);
  const auto pick = [&](int count) {
    return static_cast<int>(random() % static_cast<uint32_t>(count));
  };
  for (int round = 0; round < 6; ++round) {
    model_options_.windows = round % 2 == 0 ? std::vector<int>{0, 40} : std::vector<int>{0, 1, 100};
    options_.context_tokens_max = 1024;
    options_.kv_bytes = static_cast<uint64_t>(24 + 8 * pick(4)) << 10;
    options_.host_bytes = round % 3 == 0 ? 0 : 24 << 10;
    options_.hash_bits = round < 4 ? 128 : 7;
    options_.step_tokens_max = 64 << pick(3);
    options_.tenant_kv_share = round % 2 == 0 ? 1.0 : 0.8;
    store::MemoryKvStore store;
    std::vector<Tokens> conversations{RandomPrompt(200, 1), RandomPrompt(90, 2)};
    for (int life = 0; life < 3; ++life) {
      const auto engine = Open(&store);
      store.fail_gets_of_group = life == 1 ? pick(3) : -1;
      for (int turn = 0; turn < 12; ++turn) {
        struct Asked {
          Tokens prompt;
          std::shared_ptr<CollectingSink> sink;
          RequestId id;
        };
        std::vector<Asked> asked;
        for (int i = 0; i <= pick(5); ++i) {
          Tokens prompt = conversations[random() % conversations.size()];
          if (pick(2) == 0)
            prompt.resize(static_cast<size_t>(1 + pick(static_cast<int>(prompt.size()))));
          const Tokens more = RandomPrompt(1 + pick(120), random());
          prompt.insert(prompt.end(), more.begin(), more.end());
          prompt.resize(std::min<size_t>(prompt.size(), 600));
          const auto sink = std::make_shared<CollectingSink>();
          GenerationRequest request = MakeRequest(prompt, pick(60), sink);
          request.cache_salt = pick(4) == 0 ? "b" : "a";
          const auto id = engine->Submit(std::move(request));
          if (!id) continue;  // over the tenant's quota
          asked.push_back({.prompt = prompt, .sink = sink, .id = *id});
          if (pick(8) == 0) engine->Cancel(*id);
        }
        for (Asked& one : asked) {
          const Outcome outcome = Collect(*one.sink);
          const auto count = static_cast<int>(outcome.tokens.size());
          ASSERT_EQ(outcome.tokens, Answer(one.prompt, count)) << round << " " << life;
          conversations.push_back(one.prompt);
          conversations.back().insert(conversations.back().end(), outcome.tokens.begin(),
                                      outcome.tokens.end());
        }
        if (conversations.size() > 12)
          conversations.erase(conversations.begin(), conversations.end() - 12);
        engine->CheckIntegrity();
      }
      ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
      engine->CheckIntegrity();
    }
  }
}

}  // namespace
}  // namespace kvgate::engine
