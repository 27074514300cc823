// Allocations fail on the engine's thread, at the first, the second, ... of a request's whole life.
// Only a request may fail: the engine does not abort, loses no block and gives no answer but the
// cold one.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "tests/engine/engine_harness.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/engine/window_model.h"

namespace {

// Set on the engine's thread only; allocations of other threads never fail.
thread_local bool t_is_engine = false;
std::atomic<int64_t> g_calls_left{-1};  // allocations until one fails; negative: none does
std::atomic<int> g_failures_left{0};    // consecutive failures, counting the first
std::atomic<uint64_t> g_num_failed{0};

bool FailsNow() {
  if (!t_is_engine || g_calls_left.load(std::memory_order_relaxed) < 0) return false;
  if (g_calls_left.load() > 0) {
    g_calls_left.fetch_sub(1);
    return false;
  }
  if (g_failures_left.fetch_sub(1) <= 0) {
    g_calls_left = -1;
    return false;
  }
  g_num_failed.fetch_add(1);
  return true;
}

void* Allocate(size_t bytes, size_t alignment = alignof(std::max_align_t)) {
  if (FailsNow()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* AllocateOrThrow(size_t bytes, size_t alignment = alignof(std::max_align_t)) {
  void* const memory = Allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return AllocateOrThrow(bytes); }
void* operator new[](size_t bytes) { return AllocateOrThrow(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace kvgate::engine {
namespace {

using Tokens = std::vector<TokenId>;

struct Setting {
  const char* name;
  std::vector<int> windows = {0};
  schedule::ContextPolicy policy = schedule::ContextPolicy::kNone;
};

// MarkingSink marks the engine's thread, and keeps its own allocations out of the count.
class MarkingSink final : public TokenSink {
 public:
  void OnToken(TokenEvent event) override {
    t_is_engine = false;
    sink_.OnToken(std::move(event));
    t_is_engine = true;
  }
  void OnFinish(FinishEvent event) override {
    t_is_engine = false;
    sink_.OnFinish(std::move(event));
    t_is_engine = true;
  }
  CollectingSink& sink() { return sink_; }

 private:
  CollectingSink sink_;
};

class EngineMemoryTest : public testing::TestWithParam<Setting> {
 protected:
  EngineMemoryTest() : model_(TestModel::Make("llama", kernels::DType::kF16)) {
    // The pool holds only a few prompts (256 bytes a block without windows), so blocks are evicted
    // all the time.
    options_.kv_bytes = is_bounded()                    ? 24 << 10
                        : GetParam().windows.size() > 1 ? 20 << 10
                                                        : 8 << 10;
    options_.host_bytes = 4 << 10;
    options_.step_tokens_max = 96;
    options_.context_policy = GetParam().policy;
    if (is_bounded()) options_.context_policy_tokens = schedule::kContextPolicyTokensMin;
  }
  void TearDown() override { g_calls_left = -1; }
  static bool is_bounded() { return GetParam().policy != schedule::ContextPolicy::kNone; }

  std::unique_ptr<Engine> Open() {
    auto engine = Engine::Open(options_, std::make_unique<WindowModel>(WindowModelOptions()),
                               *model_.backend, *model_.tokenizer, &store_);
    EXPECT_TRUE(engine.has_value()) << engine.error().ToString();
    return std::move(*engine);
  }
  static WindowModel::Options WindowModelOptions() {
    WindowModel::Options options;
    options.windows = GetParam().windows;
    return options;
  }
  // Returns a prompt; all variants share their beginning.
  static Tokens Prompt(int variant) {
    Tokens prompt;
    for (int i = 0; i < (is_bounded() ? 150 : 100) + variant; ++i) {
      prompt.push_back(3 + (i < 40 ? i : i * (variant + 7)) % 590);
    }
    return prompt;
  }
  std::shared_ptr<MarkingSink> Submit(Engine& engine, const Tokens& prompt, int max_tokens) {
    auto sink = std::make_shared<MarkingSink>();
    GenerationRequest request = MakeRequest(prompt, max_tokens, sink);
    request.hash_logits = false;
    request.sampling.temperature = 0;
    EXPECT_TRUE(engine.Submit(std::move(request)).has_value());
    return sink;
  }
  // Returns true if the request got an answer, and expects it to be the cold one.
  bool Answers(MarkingSink& sink, const Tokens& expected) {
    const FinishEvent& finish = sink.sink().WaitForFinish();
    if (finish.reason == FinishReason::kError) {
      EXPECT_TRUE(finish.error.has_value());
      EXPECT_EQ(finish.error->code, ErrorCode::kOverloaded) << finish.error->ToString();
      return false;
    }
    EXPECT_EQ(sink.sink().tokens(), expected);
    return true;
  }
  // Runs requests side by side while the n-th allocation fails. Returns true if one did fail.
  bool Try(Engine& engine, int64_t n, int num_failures) {
    constexpr int kTokens = 5;
    std::vector<std::shared_ptr<MarkingSink>> sinks;
    const auto variant = static_cast<int>(n % 11);
    std::vector<Tokens> expected;
    for (int i = 0; i < 3; ++i) expected.push_back(Expected(variant + i, kTokens));
    Generate(engine, 20 + variant);  // marks the thread, and fills the pool
    const uint64_t before = g_num_failed;
    g_failures_left = num_failures;
    g_calls_left = n;
    for (int i = 0; i < 3; ++i) sinks.push_back(Submit(engine, Prompt(variant + i), kTokens));
    int num_errors = 0;
    for (int i = 0; i < 3; ++i) {
      const auto index = static_cast<size_t>(i);
      num_errors += !Answers(*sinks[index], expected[index]);
    }
    g_calls_left = -1;
    EXPECT_LE(num_errors, static_cast<int>(g_num_failed - before)) << n;
    num_errors_ += num_errors;
    engine.CheckIntegrity();
    Generate(engine, variant);
    return g_num_failed > before;
  }
  void Generate(Engine& engine, int variant) {
    const auto sink = Submit(engine, Prompt(variant), 3);
    EXPECT_TRUE(Answers(*sink, Expected(variant, 3)));
  }
  const Tokens& Expected(int variant, int num_tokens) {
    Tokens& known = expected_[{variant, num_tokens}];
    if (!known.empty()) return known;
    if (!is_bounded()) {
      return known = WindowModel(WindowModelOptions()).Answer(Prompt(variant), num_tokens);
    }
    const auto engine = Open();
    const auto sink = Submit(*engine, Prompt(variant), num_tokens);
    sink->sink().WaitForFinish();
    return known = sink->sink().tokens();
  }

  TestModel model_;
  EngineOptions options_;
  store::MemoryKvStore store_;
  std::map<std::pair<int, int>, Tokens> expected_;
  int num_errors_ = 0;
};

bool IsFull() {
  const char* full = std::getenv("KVGATE_TEST_FULL");
  return full != nullptr && std::string_view(full) == "1";
}

TEST_P(EngineMemoryTest, AnAllocationThatFailsEndsARequestAndNothingElse) {
  const auto engine = Open();
  const int64_t stride = IsFull() ? 1 : 3;
  int num_failed = 0;
  for (const int num_failures : {1, 4}) {
    // When n is past the last allocation of all requests, none fails, and the loop ends.
    int num_without = 0;
    for (int64_t n = 0; num_without < 5 && n < 100'000; n += stride) {
      const bool has_failed = Try(*engine, n, num_failures);
      num_failed += has_failed;
      num_without = has_failed ? 0 : num_without + 1;
      ASSERT_FALSE(HasFailure()) << "call " << n << ", failures " << num_failures;
    }
  }
  EXPECT_GT(num_failed, 20);
  EXPECT_GT(num_errors_, 0);
  RecordProperty("failed_allocations", static_cast<int>(g_num_failed));
  ASSERT_TRUE(engine->Drain(std::chrono::seconds(60)));
  engine->CheckIntegrity();
}

INSTANTIATE_TEST_SUITE_P(
    Settings, EngineMemoryTest,
    testing::Values(Setting{.name = "Plain"}, Setting{.name = "Windows", .windows = {0, 40}},
                    Setting{.name = "Bounded", .policy = schedule::ContextPolicy::kSlidingWindow}),
    [](const auto& setting) { return std::string(setting.param.name); });

}  // namespace
}  // namespace kvgate::engine
