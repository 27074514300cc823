// These tests show the promise of the product: a cached prefix and a cold prefill give the same
// tokens from the same bits, from whichever tier the prefix comes. Every case also counts its hits,
// so that none passes on a miss.
#include <gtest/gtest.h>

#include <random>

#include "kernels/weight_format.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/memory_kv_store.h"

namespace kvgate::engine {
namespace {

using Tokens = std::vector<TokenId>;

Tokens RandomPrompt(int count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(3 + static_cast<TokenId>(random() % 590));
  return tokens;
}

struct Case {
  const char* name;
  const char* architecture;
  kernels::DType weights;
  kernels::DType kv;
  int num_heads = 8;  // each of 128 / num_heads dimensions; quantized KV needs multiples of 32
  bool is_device = false;
};

class EnginePromiseTest : public testing::TestWithParam<Case> {
 protected:
  EnginePromiseTest()
      : model_(TestModel::Make(GetParam().architecture, GetParam().weights, GetParam().num_heads)) {
    if (GetParam().is_device) model_.MoveToDevice();
    options_.kv_dtype = GetParam().kv;
    options_.kv_bytes = 8 << 20;
  }
  // A new engine has nothing cached.
  Outcome Cold(const Tokens& prompt, int max_tokens) {
    const auto engine = model_.Open(options_);
    Outcome outcome = Generate(*engine, prompt, max_tokens);
    EXPECT_EQ(outcome.finish.stats.num_cached_tokens, 0);
    EXPECT_EQ(outcome.finish.stats.num_computed_tokens, static_cast<int>(prompt.size()));
    return outcome;
  }

  TestModel model_;
  EngineOptions options_;
};

TEST_P(EnginePromiseTest, AMemoryHitAnswersAsAColdPrefill) {
  const Tokens prompt = RandomPrompt(333, 1);
  const Outcome cold = Cold(prompt, 20);
  const auto engine = model_.Open(options_);
  EXPECT_EQ(Generate(*engine, prompt, 20), cold);
  const Outcome hit = Generate(*engine, prompt, 20);
  EXPECT_EQ(hit, cold);
  EXPECT_EQ(hit.finish.stats.num_device_tokens, 332);
  // This prompt leaves the cached one in the middle of a block.
  Tokens other = prompt;
  other[300] = 5;
  const Outcome diverged = Generate(*engine, other, 20);
  EXPECT_EQ(diverged.finish.stats.num_device_tokens, 300);
  EXPECT_EQ(diverged, Cold(other, 20));
  engine->CheckIntegrity();
}

TEST_P(EnginePromiseTest, ADiskHitInANewEngineAnswersAsAColdPrefill) {
  const Tokens prompt = RandomPrompt(333, 2);
  const Outcome cold = Cold(prompt, 20);
  store::MemoryKvStore store;
  {
    const auto engine = model_.Open(options_, &store);
    Generate(*engine, prompt, 20);
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
  }
  const auto engine = model_.Open(options_, &store);
  const Outcome hit = Generate(*engine, prompt, 20);
  EXPECT_EQ(hit, cold);
  EXPECT_EQ(hit.finish.stats.num_disk_tokens, 320);
  EXPECT_EQ(hit.finish.stats.num_device_tokens, 0);
  EXPECT_EQ(hit.finish.stats.num_computed_tokens, 13);
}

TEST_P(EnginePromiseTest, AHitInTheHostArenaAnswersAsAColdPrefill) {
  const Tokens prompt = RandomPrompt(333, 7);
  const Outcome cold = Cold(prompt, 20);
  const size_t block_bytes = model_.Open(options_)->info().kv_block_bytes;
  options_.kv_bytes = 16 * block_bytes;
  options_.host_bytes = 64 * block_bytes;
  const auto engine = model_.Open(options_);
  Generate(*engine, prompt, 20);
  Generate(*engine, RandomPrompt(480, 8), 20);  // takes the whole pool
  const Outcome hit = Generate(*engine, prompt, 20);
  EXPECT_EQ(hit, cold);
  EXPECT_EQ(hit.finish.stats.num_host_tokens, 320);
  engine->CheckIntegrity();
}

TEST_P(EnginePromiseTest, ADamagedBlockOnDiskIsComputedAnew) {
  const Tokens prompt = RandomPrompt(333, 3);
  const Outcome cold = Cold(prompt, 20);
  store::MemoryKvStore store;
  {
    const auto engine = model_.Open(options_, &store);
    Generate(*engine, prompt, 20);
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
  }
  store.fail_gets_from_depth = 6;
  const auto engine = model_.Open(options_, &store);
  const Outcome outcome = Generate(*engine, prompt, 20);
  EXPECT_EQ(outcome, cold);
  EXPECT_EQ(outcome.finish.stats.num_disk_tokens, 6 * 32);
}

TEST_P(EnginePromiseTest, KvWrittenByDecodeServesTheNextTurnAsAColdPrefillWould) {
  const auto engine = model_.Open(options_);
  Tokens conversation = RandomPrompt(75, 4);
  const Outcome first = Generate(*engine, conversation, 90);
  conversation.insert(conversation.end(), first.tokens.begin(), first.tokens.end());
  const Tokens question = RandomPrompt(20, 5);
  conversation.insert(conversation.end(), question.begin(), question.end());
  const Outcome second = Generate(*engine, conversation, 20);
  // The hit covers all of the first turn but its last token, which was sampled and never computed.
  EXPECT_EQ(second.finish.stats.num_device_tokens, 75 + 90 - 1);
  EXPECT_EQ(second, Cold(conversation, 20));
}

TEST_P(EnginePromiseTest, ChunksOfAnySizeGiveTheSameBits) {
  const Tokens prompt = RandomPrompt(700, 6);
  const Outcome whole = Cold(prompt, 10);
  for (const int chunk : {32, 64, 100, 512}) {
    options_.step_tokens_max = chunk;
    EXPECT_EQ(Cold(prompt, 10), whole) << "chunks of " << chunk;
  }
}

TEST_P(EnginePromiseTest, ASequenceInABatchOfSevenGivesTheBitsItGivesAlone) {
  std::vector<Outcome> alone;
  for (uint32_t i = 0; i < 7; ++i) alone.push_back(Cold(RandomPrompt(20 + 50 * i, 10 + i), 30));
  const auto engine = model_.Open(options_);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (uint32_t i = 0; i < 7; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->Submit(MakeRequest(RandomPrompt(20 + 50 * i, 10 + i), 30, sinks[i])));
  }
  for (uint32_t i = 0; i < 7; ++i) EXPECT_EQ(Collect(*sinks[i]), alone[i]) << i;
  // They did run together: seven times thirty tokens took far fewer steps.
  EXPECT_LT(engine->Stats().num_steps, 100u);
}

TEST_P(EnginePromiseTest, PreemptedSequencesAnswerAsIfTheyHadNeverBeen) {
  std::vector<Outcome> alone;
  for (uint32_t i = 0; i < 6; ++i) alone.push_back(Cold(RandomPrompt(100, 20 + i), 100));
  const size_t block_bytes = model_.Open(options_)->info().kv_block_bytes;
  options_.kv_bytes = 20 * block_bytes;  // six sequences would need 42
  const auto engine = model_.Open(options_);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (uint32_t i = 0; i < 6; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->Submit(MakeRequest(RandomPrompt(100, 20 + i), 100, sinks[i])));
  }
  for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(Collect(*sinks[i]), alone[i]) << i;
  EXPECT_GT(engine->Stats().num_preemptions, 0u);
  engine->CheckIntegrity();
}

// With hashes cut to 8 bits, lookups collide in memory and on disk, at every depth.
TEST_P(EnginePromiseTest, ForgedHashCollisionsNeverServeWrongKv) {
  constexpr int kPrompts = 24;
  std::vector<Outcome> cold;
  const auto prompt_of = [](int i) {
    Tokens prompt = RandomPrompt(40 * (1 + i % 4), 100);  // prompts share their beginnings
    const Tokens tail = RandomPrompt(100 + i, 200 + static_cast<uint32_t>(i));
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    return prompt;
  };
  for (int i = 0; i < kPrompts; ++i) cold.push_back(Cold(prompt_of(i), 4));
  options_.hash_bits = 5;
  store::MemoryKvStore store;
  uint64_t num_mismatches = 0;
  uint64_t num_cached = 0;
  for (int round = 0; round < 3; ++round) {
    const auto engine = model_.Open(options_, &store);
    for (int i = 0; i < kPrompts; ++i) {
      const Outcome outcome = Generate(*engine, prompt_of(i), 4);
      EXPECT_EQ(outcome, cold[static_cast<size_t>(i)]) << "prompt " << i << " round " << round;
      num_cached += static_cast<uint64_t>(outcome.finish.stats.num_cached_tokens);
    }
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
    num_mismatches += engine->Stats().num_digest_mismatches + store.Stats().num_misses;
  }
  EXPECT_GT(num_mismatches, 10u);
  EXPECT_GT(num_cached, 1000u);
}

TEST_P(EnginePromiseTest, TenantsShareNoPrefix) {
  const auto engine = model_.Open(options_);
  const Tokens prompt = RandomPrompt(200, 9);
  const auto run = [&](const std::string& salt) {
    const auto sink = std::make_shared<CollectingSink>();
    GenerationRequest request = MakeRequest(prompt, 5, sink);
    request.cache_salt = salt;
    EXPECT_TRUE(engine->Submit(std::move(request)).has_value());
    return Collect(*sink);
  };
  const Outcome a = run("a");
  const Outcome b = run("b");
  EXPECT_EQ(b.finish.stats.num_cached_tokens, 0);
  EXPECT_EQ(a, b);
  EXPECT_EQ(run("a").finish.stats.num_cached_tokens, 199);
}

// Every weight format is tested briefly: half of the prompt comes from memory, then from disk, and
// the text continues in the same way.
class WeightFormatPromiseTest : public testing::TestWithParam<kernels::DType> {};

TEST_P(WeightFormatPromiseTest, ColdMemoryAndDiskGiveTheSameBits) {
  TestModel model = TestModel::Make("llama", GetParam());
  EngineOptions options;
  options.kv_bytes = 8 << 20;
  store::MemoryKvStore store;
  const Tokens prompt = RandomPrompt(200, 21);
  Outcome cold;
  {
    const auto engine = model.Open(options, &store);
    cold = Generate(*engine, prompt, 24);
    EXPECT_EQ(cold.finish.stats.num_cached_tokens, 0);
    EXPECT_EQ(cold.tokens.size(), 24u);
    const Outcome memory = Generate(*engine, prompt, 24);
    EXPECT_EQ(memory, cold);
    EXPECT_EQ(memory.finish.stats.num_cached_tokens, 199);
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
  }
  const auto engine = model.Open(options, &store);
  const Outcome disk = Generate(*engine, prompt, 24);
  EXPECT_EQ(disk, cold);
  EXPECT_EQ(disk.finish.stats.num_disk_tokens, 192);
}

INSTANTIATE_TEST_SUITE_P(Formats, WeightFormatPromiseTest, testing::ValuesIn([] {
                           std::vector<kernels::DType> dtypes;
                           for (const auto& format : kernels::WeightFormats()) {
                             dtypes.push_back(format.dtype);
                           }
                           return dtypes;
                         }()),
                         [](const testing::TestParamInfo<kernels::DType>& tested) {
                           return std::string(kernels::DTypeName(tested.param));
                         });

INSTANTIATE_TEST_SUITE_P(
    Models, EnginePromiseTest,
    testing::Values(Case{"LlamaF32KvF32", "llama", kernels::DType::kF32, kernels::DType::kF32},
                    Case{"LlamaQ8KvF16", "llama", kernels::DType::kQ8_0, kernels::DType::kF16},
                    Case{"Qwen2F16KvF16", "qwen2", kernels::DType::kF16, kernels::DType::kF16},
                    Case{"Qwen2Q8KvBf16", "qwen2", kernels::DType::kQ8_0, kernels::DType::kBF16},
                    Case{"LlamaF16KvQ8", "llama", kernels::DType::kF16, kernels::DType::kQ8_0, 4},
                    Case{"Qwen2Q8KvQ4", "qwen2", kernels::DType::kQ8_0, kernels::DType::kQ4_0, 2},
                    Case{"LlamaQ8KvFp8", "llama", kernels::DType::kQ8_0, kernels::DType::kF8E4M3},
                    Case{"LlamaF16KvF16OnADevice", "llama", kernels::DType::kF16,
                         kernels::DType::kF16, 8, true},
                    Case{"Qwen2F16KvFp8OnADevice", "qwen2", kernels::DType::kF16,
                         kernels::DType::kF8E4M3, 8, true}),
    [](const testing::TestParamInfo<Case>& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace kvgate::engine
