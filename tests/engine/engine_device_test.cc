// These tests run an engine on a device: its KV lies in device memory, copies run beside the steps,
// and there are three tiers. The device is DeviceBackend (tests only), which copies as late as it
// may.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/model/capacity.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/runtime.h"
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

class EngineDeviceTest : public testing::Test {
 protected:
  EngineDeviceTest() : model_(TestModel::Make("llama", kernels::DType::kF16)) {}

  // Answers with a new engine on the CPU that has no lower tier.
  Outcome Cold(const Tokens& prompt, int max_tokens) {
    EngineOptions options;
    options.kv_bytes = 8 << 20;
    static TestModel model = TestModel::Make("llama", kernels::DType::kF16);
    return Generate(*model.Open(options), prompt, max_tokens);
  }
  size_t BlockBytes() {
    return model_.file != nullptr
               ? kernels::KvShape{.num_layers = 3, .num_kv_heads = 2, .head_dim = 16}.block_bytes()
               : 0;
  }

  TestModel model_;
  EngineOptions options_;
};

// Fifteen prompts share a pool of 24 blocks and an arena of 60: a repeated prompt is served from
// memory, host or disk or is computed, and its answer stays the same.
TEST_F(EngineDeviceTest, EveryTierAnswersAsAColdPrefillWhileManyRun) {
  std::vector<Tokens> prompts;
  std::vector<Outcome> cold;
  const Tokens common = RandomPrompt(96, 1);
  for (uint32_t i = 0; i < 15; ++i) {
    Tokens prompt = i % 3 == 0 ? Tokens{} : common;
    const Tokens own = RandomPrompt(40 + 20 * static_cast<int>(i), 50 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    cold.push_back(Cold(prompt, 6));
    prompts.push_back(std::move(prompt));
  }
  model_.MoveToDevice();
  options_.kv_bytes = 24 * BlockBytes();
  options_.host_bytes = 60 * BlockBytes();
  store::MemoryKvStore store;
  EngineStats stats;
  for (int life = 0; life < 2; ++life) {
    const auto engine = model_.Open(options_, &store);
    std::mt19937 random(static_cast<uint32_t>(life));
    for (int round = 0; round < 12; ++round) {
      std::vector<size_t> picked;
      std::vector<std::shared_ptr<CollectingSink>> sinks;
      for (int i = 0; i < 4; ++i) {
        picked.push_back(random() % prompts.size());
        sinks.push_back(std::make_shared<CollectingSink>());
        ASSERT_TRUE(engine->Submit(MakeRequest(prompts[picked.back()], 6, sinks.back())));
      }
      for (size_t i = 0; i < sinks.size(); ++i) {
        EXPECT_EQ(Collect(*sinks[i]), cold[picked[i]]) << "prompt " << picked[i];
      }
      engine->CheckIntegrity();
    }
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(10)));
    stats = engine->Stats();
  }
  EXPECT_GT(stats.num_device_tokens, 0u);
  EXPECT_GT(stats.num_host_tokens, 0u);
  EXPECT_GT(stats.num_disk_tokens, 0u);
}

TEST_F(EngineDeviceTest, CancelledWhileItsPrefixIsCopiedItLeavesNothingWrong) {
  const Tokens prompt = RandomPrompt(400, 3);
  const Outcome cold = Cold(prompt, 4);
  model_.MoveToDevice().SetPace(0.002);
  options_.kv_bytes = 20 * BlockBytes();
  options_.host_bytes = 80 * BlockBytes();
  const auto engine = model_.Open(options_);
  EXPECT_EQ(Generate(*engine, prompt, 4), cold);
  for (uint32_t i = 0; i < 10; ++i) {
    Generate(*engine, RandomPrompt(500, 30 + i), 2);  // evicts the prompt to the host
    const auto sink = std::make_shared<CollectingSink>();
    const auto id = engine->Submit(MakeRequest(prompt, 4, sink));
    ASSERT_TRUE(id.has_value());
    engine->Cancel(*id);
    Collect(*sink);
    const Outcome again = Generate(*engine, prompt, 4);
    EXPECT_EQ(again, cold);
    EXPECT_GT(again.finish.stats.num_cached_tokens, 0);
    engine->CheckIntegrity();
  }
}

TEST_F(EngineDeviceTest, ItsPoolIsWhatTheDeviceHasLeftAndThePlanSaysSo) {
  constexpr uint64_t kMemory = uint64_t{64} << 20;
  kernels::DeviceBackend& device = model_.MoveToDevice(kMemory);
  options_.kv_bytes = 0;
  options_.step_tokens_max = 256;
  options_.sequences_max = 4;
  const auto engine = model_.Open(options_);
  const EngineInfo& info = engine->info();
  const auto shape = *model::ReadCapacityShape(*model_.file);
  const model::Capacity plan =
      *model::ComputeCapacity(shape, {.context_tokens = 1024,
                                      .num_sequences = 4,
                                      .weight_bytes = model_.file->total_bytes(),
                                      .memory_bytes = kMemory,
                                      .is_device = true,
                                      .step_tokens = 256});
  const auto near = [](uint64_t planned, uint64_t real) {
    return std::abs(static_cast<double>(planned) / static_cast<double>(real) - 1) < 0.03;
  };
  EXPECT_EQ(info.activation_bytes, plan.overhead_bytes);
  EXPECT_TRUE(near(plan.kv_room_bytes, info.kv_bytes))
      << plan.kv_room_bytes << ' ' << info.kv_bytes;
  EXPECT_TRUE(
      near(plan.weight_bytes + plan.overhead_bytes + plan.kv_room_bytes, device.bytes_used()))
      << plan.weight_bytes << ' ' << info.weight_bytes << ' ' << device.bytes_used();
  EXPECT_LT(device.bytes_used(), kMemory - model::DeviceReserveBytes(kMemory) / 2);
  EXPECT_EQ(Generate(*engine, RandomPrompt(300, 4), 5).tokens.size(), 5u);
}

TEST_F(EngineDeviceTest, KvMemoryThatDoesNotFitIsRefusedWithWhatWould) {
  model_.MoveToDevice(uint64_t{64} << 20);
  options_.kv_bytes = uint64_t{63} << 20;
  const auto refused =
      Engine::Open(options_, model_.file, *model_.backend, *model_.tokenizer, nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().field, "kv_memory");
  EXPECT_NE(refused.error().detail.find("64.0 MiB"), std::string::npos) << refused.error().detail;
}

TEST_F(EngineDeviceTest, KvMemoryThatIsTooSmallIsRefusedByTheNameOfItsKey) {
  model_.MoveToDevice(uint64_t{64} << 20);
  options_.kv_bytes = 1;
  const auto refused =
      Engine::Open(options_, model_.file, *model_.backend, *model_.tokenizer, nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().field, "kv_memory");
}

TEST_F(EngineDeviceTest, OfNumericsThatAreNotInvariantWhatDecodeWroteIsNotAHit) {
  model_.MoveToDevice().SetVariant();
  options_.kv_bytes = 8 << 20;
  const auto engine = model_.Open(options_);
  Tokens conversation = RandomPrompt(75, 4);
  const Outcome first = Generate(*engine, conversation, 90);
  conversation.insert(conversation.end(), first.tokens.begin(), first.tokens.end());
  conversation.push_back(7);
  // The KV of the prompt may be a hit: its whole blocks, and the rest that prefill itself computed.
  // The KV written by decode may not.
  const int cached = Generate(*engine, conversation, 5).finish.stats.num_cached_tokens;
  EXPECT_GE(cached, 64);
  EXPECT_LE(cached, 75);
  engine->CheckIntegrity();
}

// These tests run the CUDA backend's own code on the emulated device, with few tokens because it is
// slow.
struct CudaCase {
  std::string architecture;
  kernels::DType kv_dtype = kernels::DType::kF16;
};
class EngineCudaTest : public testing::TestWithParam<CudaCase> {};
INSTANTIATE_TEST_SUITE_P(Of, EngineCudaTest,
                         testing::Values(CudaCase{"llama"},
                                         CudaCase{"llama", kernels::DType::kF8E4M3},
                                         CudaCase{"qwen2moe"}),
                         [](const auto& test) {
                           return fmt::format("{}_{}", test.param.architecture,
                                              kernels::DTypeName(test.param.kv_dtype));
                         });

TEST_P(EngineCudaTest, ColdMemoryHostAndDiskGiveTheSameBits) {
  TestModel model = TestModel::Make(GetParam().architecture, kernels::DType::kF16);
  model.backend = *kernels::cuda::MakeCudaBackend({});
  ASSERT_FALSE(model.backend->Info().kv_host_visible);
  const Tokens prompt = RandomPrompt(75, 1);
  const kernels::KvShape shape{
      .num_layers = 3, .num_kv_heads = 2, .head_dim = 16, .dtype = GetParam().kv_dtype};
  const size_t block_bytes = shape.block_bytes();
  EngineOptions options;
  options.kv_dtype = GetParam().kv_dtype;
  options.step_tokens_max = 64;
  options.sequences_max = 2;
  options.kv_bytes = 5 * block_bytes;
  options.host_bytes = 16 * block_bytes;
  store::MemoryKvStore store;
  Outcome cold;
  {
    const auto engine = model.Open(options, &store);
    cold = Generate(*engine, prompt, 3);
    EXPECT_EQ(cold.finish.stats.num_cached_tokens, 0);
    const Outcome memory = Generate(*engine, prompt, 3);
    EXPECT_EQ(memory, cold);
    EXPECT_EQ(memory.finish.stats.num_device_tokens, 74);
    Generate(*engine, RandomPrompt(150, 2), 1);  // takes the whole pool
    const Outcome host = Generate(*engine, prompt, 3);
    EXPECT_EQ(host, cold);
    EXPECT_EQ(host.finish.stats.num_host_tokens, 64);
    engine->CheckIntegrity();
    ASSERT_TRUE(engine->Drain(std::chrono::seconds(60)));
  }
  const auto engine = model.Open(options, &store);
  const Outcome disk = Generate(*engine, prompt, 3);
  EXPECT_EQ(disk, cold);
  EXPECT_EQ(disk.finish.stats.num_disk_tokens, 64);
}

// Prompts of several lengths run in one engine at once. In a mixture of experts, rows of other
// prompts share the experts, and the steps use other kernels than a prompt that runs alone.
TEST_P(EngineCudaTest, InABatchEachGivesTheBitsItGivesAlone) {
  TestModel model = TestModel::Make(GetParam().architecture, kernels::DType::kQ8_0);
  model.backend = *kernels::cuda::MakeCudaBackend({});
  EngineOptions options;
  options.step_tokens_max = 64;
  options.mixed_step_tokens_max = 48;
  options.sequences_max = 4;
  options.kv_bytes = 1 << 20;
  std::vector<Outcome> alone;
  for (uint32_t i = 0; i < 4; ++i) {
    alone.push_back(Generate(*model.Open(options), RandomPrompt(3 + 14 * i, i), 3));
  }
  const auto engine = model.Open(options);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (uint32_t i = 0; i < 4; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->Submit(MakeRequest(RandomPrompt(3 + 14 * i, i), 3, sinks.back())));
  }
  for (size_t i = 0; i < sinks.size(); ++i) EXPECT_EQ(Collect(*sinks[i]), alone[i]) << i;
}

// Counts what one decode step of a single sequence asks of the emulated device.
struct StepCounts {
  uint64_t num_waits = 0;
  uint64_t num_launches = 0;
  uint64_t num_graphs = 0;
};
StepCounts CountDecodeStep(const TestModel& test_model) {
  const auto model = *model::Model::Load(test_model.file, *test_model.backend);
  EXPECT_TRUE(model->Reserve(16, 2).has_value());
  const auto arena =
      *test_model.backend->AllocateKv(model->config().kv_shape(kernels::DType::kF16), 1);
  const BlockId block{0};
  const int row = 0;
  const float scale = 1;
  StepCounts counts;
  for (int position = 0; position < 6; ++position) {
    const TokenId token = 5 + position;
    const kernels::SequenceRows sequence = {
        .first_row = 0, .num_rows = 1, .first_position = position, .block_table = {&block, 1}};
    const model::StepGroup group = {.arena = arena.get(), .sequences = {&sequence, 1}};
    model::LogitHeads heads;
    heads.count = 4;
    const auto before = kernels::cuda::emulator::CurrentCounts();
    const Result<void> computed =
        model->ForwardHeads({.tokens = {&token, 1}, .groups = {&group, 1}, .logit_rows = {&row, 1}},
                            {&scale, 1}, heads);
    EXPECT_TRUE(computed.has_value());
    const auto after = kernels::cuda::emulator::CurrentCounts();
    counts = {.num_waits = after.num_waits - before.num_waits,
              .num_launches = after.num_launches - before.num_launches,
              .num_graphs = after.num_graphs - before.num_graphs};
  }
  return counts;
}

// The step waits once, for the heads of its logits; every launch is in the graph that an earlier
// step left.
TEST_P(EngineCudaTest, ADecodeStepWaitsOnceAndIsOneGraph) {
  TestModel model = TestModel::Make(GetParam().architecture, kernels::DType::kQ8_0);
  model.backend = *kernels::cuda::MakeCudaBackend({});
  const StepCounts counts = CountDecodeStep(model);
  EXPECT_EQ(counts.num_waits, 1u);
  EXPECT_EQ(counts.num_graphs, 1u);
  EXPECT_EQ(counts.num_launches, 0u);
}

TEST_P(EngineCudaTest, ActivationsTakeWhatThePlanSays) {
  TestModel model = TestModel::Make(GetParam().architecture, kernels::DType::kF16);
  model.backend = *kernels::cuda::MakeCudaBackend({});
  const auto loaded = *model::Model::Load(model.file, *model.backend);
  const uint64_t bytes_free = model.backend->Memory().bytes_free;
  ASSERT_TRUE(loaded->Reserve(64, 4).has_value());
  const auto used = static_cast<double>(bytes_free - model.backend->Memory().bytes_free);
  const auto shape = *model::ReadCapacityShape(*model.file);
  const auto plan = *model::ComputeCapacity(shape, {.context_tokens = 1024,
                                                    .num_sequences = 4,
                                                    .weight_bytes = model.file->total_bytes(),
                                                    .is_device = true,
                                                    .step_tokens = 64});
  EXPECT_NEAR(static_cast<double>(plan.overhead_bytes) / used, 1, 0.03);
}

}  // namespace
}  // namespace kvgate::engine
