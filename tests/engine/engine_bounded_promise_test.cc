// These tests show the promise of the product under every context policy: an answer depends on its
// request alone, not on what was cached of it, on chunks, neighbours or preemptions. Every case
// also counts its hits, so that none passes on a miss.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/engine/memory_kv_store.h"

namespace kvgate::engine {
namespace {

using schedule::ContextPolicy;
using Tokens = std::vector<TokenId>;

constexpr int kBudget = 256;   // KV tokens kept by a bounded policy
constexpr int kPrompt = 1729;  // several times the budget
constexpr int kOutput = 40;

Tokens RandomPrompt(int count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(3 + static_cast<TokenId>(random() % 590));
  return tokens;
}

Tokens Beginning(const Tokens& tokens, int count) {
  return {tokens.begin(), tokens.begin() + count};
}

struct Case {
  const char* name;
  kernels::DType kv;
  int num_heads = 8;
  bool is_device = false;
};

using Param = std::tuple<Case, ContextPolicy>;

class EngineBoundedPromiseTest : public testing::TestWithParam<Param> {
 protected:
  EngineBoundedPromiseTest()
      : model_(TestModel::Make("llama", kernels::DType::kQ8_0, std::get<0>(GetParam()).num_heads)) {
    const Case& tested = std::get<0>(GetParam());
    if (tested.is_device) model_.MoveToDevice();
    options_.kv_dtype = tested.kv;
    options_.kv_bytes = 16 << 20;
    options_.context_policy = policy();
    options_.context_policy_tokens = kBudget;
  }
  static ContextPolicy policy() { return std::get<1>(GetParam()); }
  static bool is_bounded() { return policy() != ContextPolicy::kNone; }
  // A new engine has nothing cached.
  Outcome Cold(const Tokens& prompt) {
    const auto engine = model_.Open(options_);
    Outcome outcome = Generate(*engine, prompt, kOutput);
    EXPECT_EQ(outcome.finish.stats.num_cached_tokens, 0);
    return outcome;
  }

  TestModel model_;
  EngineOptions options_;
};

TEST_P(EngineBoundedPromiseTest, TheSecondAndTheThirdAnswerAreTheFirst) {
  const auto engine = model_.Open(options_);
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    const Tokens prompt = RandomPrompt(kPrompt, seed);
    const Outcome first = Generate(*engine, prompt, kOutput);
    EXPECT_EQ(first.finish.stats.num_cached_tokens, 0);
    for (int again = 0; again < 2; ++again) {
      const Outcome hit = Generate(*engine, prompt, kOutput);
      EXPECT_EQ(hit, first) << "prompt " << seed;
      EXPECT_EQ(hit.finish.stats.num_device_tokens, is_bounded() ? kBudget : kPrompt - 1);
    }
  }
  engine->CheckIntegrity();
}

TEST_P(EngineBoundedPromiseTest, ChunksOfAnySizeGiveTheSameBits) {
  const Tokens prompt = RandomPrompt(kPrompt, 4);
  const Outcome whole = Cold(prompt);
  for (const int chunk : {32, 100, 320}) {
    options_.step_tokens_max = chunk;
    EXPECT_EQ(Cold(prompt), whole) << "chunks of " << chunk;
  }
}

TEST_P(EngineBoundedPromiseTest, AHitOfAnyLengthAnswersAsAColdPrefill) {
  const Tokens prompt = RandomPrompt(kPrompt, 5);
  const Outcome cold = Cold(prompt);
  for (const int length : {20, 250, 256, 300, 540, 1300}) {
    const auto engine = model_.Open(options_);
    Generate(*engine, Beginning(prompt, length), kOutput);
    const Outcome hit = Generate(*engine, prompt, kOutput);
    EXPECT_EQ(hit, cold) << "behind a hit of " << length;
    EXPECT_EQ(hit.finish.stats.num_device_tokens,
              is_bounded() ? std::min(length, kBudget) : length);
  }
}

TEST_P(EngineBoundedPromiseTest, HitsOnDiskAndInTheHostArenaAnswerAsAColdPrefill) {
  const Tokens prompt = RandomPrompt(kPrompt, 6);
  const Outcome cold = Cold(prompt);
  const int length = 333;  // tokens of the prompt that get stored: 10 full blocks
  store::MemoryKvStore store;
  {
    const auto engine = model_.Open(options_, &store);
    Generate(*engine, Beginning(prompt, length), 1);
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
  }
  const Outcome restored = Generate(*model_.Open(options_, &store), prompt, kOutput);
  EXPECT_EQ(restored, cold);
  EXPECT_EQ(restored.finish.stats.num_disk_tokens, is_bounded() ? kBudget : 320);
  const size_t block_bytes = model_.Open(options_)->info().kv_block_bytes;
  options_.kv_bytes = 58 * block_bytes;
  options_.host_bytes = 64 * block_bytes;
  const auto engine = model_.Open(options_);
  Generate(*engine, Beginning(prompt, length), 1);
  for (uint32_t seed = 7; seed < 12; ++seed) Generate(*engine, RandomPrompt(480, seed), 1);
  const Outcome copied = Generate(*engine, prompt, kOutput);
  EXPECT_EQ(copied, cold);
  EXPECT_EQ(copied.finish.stats.num_host_tokens, is_bounded() ? kBudget : 320);
  engine->CheckIntegrity();
}

// Generated tokens are computed anew in chunks after a preemption, and are part of the prompt in
// the next turn: neither may change the answer.
TEST_P(EngineBoundedPromiseTest, AnAnswerGoesOnAsIfItsBeginningHadBeenThePrompt) {
  const auto engine = model_.Open(options_);
  Tokens conversation = RandomPrompt(400, 12);
  const Outcome whole = Generate(*engine, conversation, 400);
  const auto half = whole.tokens.begin() + 200;
  conversation.insert(conversation.end(), whole.tokens.begin(), half);
  const Outcome rest = Generate(*engine, conversation, 200);
  EXPECT_EQ(rest.tokens, Tokens(half, whole.tokens.end()));
  EXPECT_GE(rest.finish.stats.num_device_tokens, is_bounded() ? kBudget : 599);
  EXPECT_EQ(Generate(*model_.Open(options_), conversation, 200), rest);
}

TEST_P(EngineBoundedPromiseTest, ManyInAPoolThatIsTooSmallAnswerAsIfAlone) {
  std::vector<Tokens> prompts;
  std::vector<Outcome> alone;
  for (uint32_t i = 0; i < 6; ++i) {
    prompts.push_back(RandomPrompt(500 + 90 * static_cast<int>(i), 20 + i));
    alone.push_back(Cold(prompts.back()));
  }
  const size_t block_bytes = model_.Open(options_)->info().kv_block_bytes;
  options_.kv_bytes = 50 * block_bytes;  // three bounded sequences fit, without room for copies
  const auto engine = model_.Open(options_);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (const Tokens& prompt : prompts) {
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->Submit(MakeRequest(prompt, kOutput, sinks.back())));
  }
  for (size_t i = 0; i < sinks.size(); ++i) EXPECT_EQ(Collect(*sinks[i]), alone[i]) << i;
  engine->CheckIntegrity();
}

// F16 runs under every policy, Q8 and a device under kLeastAttended alone because it keeps the most
// state; with KVGATE_TEST_FULL every KV type runs under all policies.
std::vector<Param> Params() {
  constexpr Case kCases[] = {{"KvF16", kernels::DType::kF16},
                             {"KvQ8", kernels::DType::kQ8_0, 4},
                             {"KvF16OnADevice", kernels::DType::kF16, 8, true},
                             {"KvF32", kernels::DType::kF32},
                             {"KvBf16", kernels::DType::kBF16},
                             {"KvFp8", kernels::DType::kF8E4M3},
                             {"KvQ4", kernels::DType::kQ4_0, 4}};
  const bool is_full = std::getenv("KVGATE_TEST_FULL") != nullptr;
  std::vector<Param> params;
  for (const Case& tested : kCases) {
    for (const ContextPolicy policy :
         {ContextPolicy::kNone, ContextPolicy::kSlidingWindow, ContextPolicy::kAttentionSink,
          ContextPolicy::kLeastAttended}) {
      const bool is_first = &tested == &kCases[0];
      const bool is_usual = tested.kv == kernels::DType::kF16 || tested.kv == kernels::DType::kQ8_0;
      if (is_full || is_first || (is_usual && policy == ContextPolicy::kLeastAttended)) {
        params.emplace_back(tested, policy);
      }
    }
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(Policies, EngineBoundedPromiseTest, testing::ValuesIn(Params()),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) + "_" +
                                  std::string(
                                      schedule::ContextPolicyName(std::get<1>(tested.param)));
                         });

}  // namespace
}  // namespace kvgate::engine
