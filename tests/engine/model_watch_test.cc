#include "engine/model_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/engine/engine_harness.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/wait_until.h"

namespace kvgate::engine {
namespace {

namespace fs = std::filesystem;

// The fixture serves a model whose file stays in place and may be overwritten.
class ModelWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    Make(path_, 3);
    model_.file = *modelfile::GgufFile::Open(path_);
    model_.tokenizer = *tokenizer::Tokenizer::Load(*model_.file);
    model_.backend = *kernels::cpu::MakeCpuBackend({.num_threads = 2, .target = ""});
  }

  static void Make(const fs::path& path, uint64_t seed) {
    const auto made = model::MakeModel({.architecture = "llama",
                                        .num_layers = 2,
                                        .hidden_dim = 64,
                                        .num_heads = 2,
                                        .num_kv_heads = 1,
                                        .ffn_dim = 128,
                                        .vocab_size = 600,
                                        .context_length = 1024,
                                        .dtype = kernels::DType::kF16,
                                        .seed = seed,
                                        .name = ""},
                                       path);
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
  }
  // Overwrites the bytes in place, as copying another file onto this one does.
  void OverwriteWithAnotherModel() const {
    const fs::path other = path_.string() + ".other";
    Make(other, 4);
    std::ifstream in(other, std::ios::binary);
    std::ofstream(path_, std::ios::in | std::ios::out | std::ios::binary) << in.rdbuf();
    fs::remove(other);
  }
  std::unique_ptr<Engine> Open(std::chrono::milliseconds watch_interval) {
    EngineOptions options{.kv_bytes = 8 << 20};
    options.model_watch_interval = watch_interval;
    return model_.Open(options, &store_);
  }
  static std::vector<TokenId> Prompt(TokenId first) {
    std::vector<TokenId> prompt;
    for (TokenId i = 0; i < 100; ++i) prompt.push_back((first + 7 * i) % 500);
    return prompt;
  }

  const TempFolder folder_;
  const fs::path path_ = folder_ / "model.gguf";
  TestModel model_;
  store::MemoryKvStore store_;
};

constexpr std::chrono::milliseconds kNever{0};
constexpr std::chrono::milliseconds kSoon{1};

TEST_F(ModelWatchTest, AModelThatWasOverwrittenAnswersAndStoresNothingMore) {
  const auto engine = Open(kNever);
  const Outcome cold = Generate(*engine, Prompt(1), 4);
  EXPECT_EQ(cold.finish.reason, FinishReason::kLength);
  ASSERT_TRUE(engine->Drain(std::chrono::seconds(60)));
  const uint64_t num_stored = store_.Stats().num_writes;
  EXPECT_GT(num_stored, 0u);

  OverwriteWithAnotherModel();
  // A part of this prompt is cached and would be a hit.
  const Outcome after = Generate(*engine, Prompt(1), 4);
  EXPECT_EQ(after.finish.reason, FinishReason::kError);
  ASSERT_TRUE(after.finish.error.has_value());
  EXPECT_EQ(after.finish.error->code, ErrorCode::kUnavailable);
  EXPECT_TRUE(after.tokens.empty());
  ASSERT_TRUE(engine->Failure().has_value());
  const auto refused =
      engine->Submit(MakeRequest(Prompt(2), 4, std::make_shared<CollectingSink>()));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  engine->CheckIntegrity();
  ASSERT_TRUE(engine->Drain(std::chrono::seconds(60)));
  EXPECT_EQ(store_.Stats().num_writes, num_stored);
}

TEST_F(ModelWatchTest, EveryoneWhoRunsOrWaitsIsTold) {
  const auto engine = Open(kNever);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (TokenId i = 0; i < 4; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->Submit(MakeRequest(Prompt(i), 800, sinks.back())).has_value());
  }
  sinks[0]->WaitForTokens(2);
  OverwriteWithAnotherModel();
  for (const auto& sink : sinks) {
    const FinishEvent& finish = sink->WaitForFinish();
    EXPECT_EQ(finish.reason, FinishReason::kError);
    EXPECT_EQ(finish.error->code, ErrorCode::kUnavailable);
  }
  engine->CheckIntegrity();
}

TEST_F(ModelWatchTest, AModelThatWasCutIsAnErrorAndNoSignal) {
  const auto engine = Open(kNever);
  fs::resize_file(path_, 4096);
  const Outcome after = Generate(*engine, Prompt(1), 4);
  EXPECT_EQ(after.finish.reason, FinishReason::kError);
  EXPECT_TRUE(engine->Failure().has_value());
}

TEST_F(ModelWatchTest, AnIdleEngineNoticesByItself) {
  const auto engine = Open(kSoon);
  EXPECT_FALSE(engine->Failure().has_value());
  OverwriteWithAnotherModel();
  ASSERT_TRUE(test::WaitUntil([&] { return engine->Failure().has_value(); }, "it fails"));
  EXPECT_EQ(engine->Failure()->code, ErrorCode::kUnavailable);
}

TEST_F(ModelWatchTest, AModelThatWasReplacedByRenameIsServedOn) {
  const auto engine = Open(kSoon);
  const Outcome before = Generate(*engine, Prompt(1), 8);
  const fs::path other = path_.string() + ".other";
  Make(other, 4);
  fs::rename(other, path_);
  EXPECT_EQ(Generate(*engine, Prompt(1), 8).tokens, before.tokens);
  EXPECT_FALSE(engine->Failure().has_value());
}

TEST_F(ModelWatchTest, OneThatWasWrittenWithTheSameBytesIsServedOn) {
  const auto engine = Open(kSoon);
  const Outcome before = Generate(*engine, Prompt(1), 8);
  std::string bytes;
  {
    std::ifstream in(path_, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary) << bytes;
  EXPECT_EQ(Generate(*engine, Prompt(1), 8).tokens, before.tokens);
  EXPECT_EQ(Generate(*engine, Prompt(2), 8).finish.reason, FinishReason::kLength);
  EXPECT_FALSE(engine->Failure().has_value());
}

TEST_F(ModelWatchTest, AFileThatIsWrittenWhileItIsLoadedIsRefused) {
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).put('G');
  const auto made = model::Model::Load(model_.file, *model_.backend, {.context_tokens = 64});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(made.error().detail.find("written while it was loaded"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::engine
