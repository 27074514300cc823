#include "engine/embed/embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/engine/embed/embedding_test_model.h"

namespace kvgate::embed {
namespace {

using ::testing::HasSubstr;

constexpr EncoderShape kShape = {.context = 100};

// The answer of one request.
class Answer {
 public:
  Embedder::Done Taker() {
    return [this](Result<Embeddings> result) {
      const std::lock_guard lock(mutex_);
      EXPECT_FALSE(result_.has_value()) << "answered twice";
      result_ = std::move(result);
      wake_.notify_all();
    };
  }
  const Result<Embeddings>& Wait() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return result_.has_value(); });
    return *result_;
  }
  bool is_there() {
    const std::lock_guard lock(mutex_);
    return result_.has_value();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<Result<Embeddings>> result_;
};

class EmbedderTest : public ::testing::Test {
 protected:
  std::unique_ptr<Embedder> Open(const EmbedderOptions& options = {}, int step_tokens = 32) {
    file_ = OpenFile(EncoderFile(kShape), FillHashed, scratch_ / "m.gguf");
    auto embedder = Embedder::Open(
        [this, step_tokens]() -> Result<Embedder::Loaded> {
          Embedder::Loaded loaded = {.backend = CpuBackend(1), .model = nullptr};
          KVGATE_TRY(loaded.model,
                     EmbeddingModel::Load(file_, *loaded.backend, {.step_tokens = step_tokens}));
          return loaded;
        },
        options);
    EXPECT_TRUE(embedder.has_value()) << embedder.error().ToString();
    return *std::move(embedder);
  }
  // A request that holds the embedder until Release, in its `done`.
  void Hold(Embedder& embedder) {
    const auto submitted = embedder.Submit({.texts = {{1}}, .tenant = "holder"}, [this](auto) {
      is_held_ = true;
      while (!released_) std::this_thread::yield();
    });
    ASSERT_TRUE(submitted.has_value());
    while (!is_held_) std::this_thread::yield();
  }
  void Release() { released_ = true; }

  const TempFolder scratch_;
  std::shared_ptr<const modelfile::ModelFile> file_;
  std::atomic<bool> is_held_{false};
  std::atomic<bool> released_{false};
};

TEST_F(EmbedderTest, GivesEachTextItsVectorWhateverSharesItsSteps) {
  const auto embedder = Open();
  EXPECT_EQ(embedder->info().dimensions, kShape.hidden);
  EXPECT_EQ(embedder->info().context_tokens, kShape.context);
  std::vector<std::vector<std::vector<TokenId>>> requests;
  for (unsigned i = 0; i < 12; ++i) {
    std::vector<std::vector<TokenId>> texts;
    for (unsigned j = 0; j <= i % 4; ++j) {
      texts.push_back(RandomText(1 + (i * 17 + j * 29) % 90, kShape.vocab, i * 10 + j));
    }
    requests.push_back(std::move(texts));
  }
  std::vector<Answer> answers(requests.size());
  Hold(*embedder);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto id = embedder->Submit(
        {.texts = requests[i], .tenant = "tenant " + std::to_string(i % 3)}, answers[i].Taker());
    ASSERT_TRUE(id.has_value()) << id.error().ToString();
  }
  Release();
  const auto backend = CpuBackend(2);
  const auto model = *EmbeddingModel::Load(file_, *backend);
  uint64_t num_texts = 1;
  for (size_t i = 0; i < requests.size(); ++i) {
    const Result<Embeddings>& got = answers[i].Wait();
    ASSERT_TRUE(got.has_value()) << got.error().ToString();
    std::vector<float> want;
    uint64_t num_tokens = 0;
    for (const auto& text : requests[i]) {
      const std::vector<float> vector = EmbedTogether(*model, {text})[0];
      want.insert(want.end(), vector.begin(), vector.end());
      num_tokens += text.size();
      ++num_texts;
    }
    EXPECT_EQ(got->vectors, want) << i;
    EXPECT_EQ(got->num_tokens, num_tokens);
    EXPECT_GT(got->compute_seconds, 0);
  }
  const EmbedderStats stats = embedder->Stats();
  EXPECT_EQ(stats.num_texts, num_texts);
  EXPECT_LT(stats.num_steps, num_texts);  // short texts share steps
  EXPECT_EQ(stats.num_waiting, 0u);
}

TEST_F(EmbedderTest, ALongRequestDelaysAnotherTenantsByAStepAtMost) {
  const auto embedder = Open();
  Hold(*embedder);
  Answer long_answer;
  Answer short_answer;
  std::vector<std::vector<TokenId>> many(50, RandomText(32, kShape.vocab, 1));
  uint64_t steps_before_short = 0;
  ASSERT_TRUE(embedder->Submit({.texts = many, .tenant = "a"}, long_answer.Taker()).has_value());
  ASSERT_TRUE(embedder
                  ->Submit({.texts = {RandomText(30, kShape.vocab, 2)}, .tenant = "b"},
                           [&](Result<Embeddings> result) {
                             steps_before_short = embedder->Stats().num_steps;
                             EXPECT_FALSE(long_answer.is_there());
                             short_answer.Taker()(std::move(result));
                           })
                  .has_value());
  Release();
  EXPECT_TRUE(short_answer.Wait().has_value());
  EXPECT_LE(steps_before_short, 3u);  // the held one, one of each tenant
  EXPECT_TRUE(long_answer.Wait().has_value());
}

TEST_F(EmbedderTest, BeyondItsBoundsRequestsAreRefused) {
  const auto embedder =
      Open({.queue_max = 4, .texts_max = 3, .request_tokens_max = 100, .queue_tokens_max = 150});
  const auto submit = [&](size_t num_texts, size_t length, const std::string& tenant,
                          Answer& answer) {
    return embedder->Submit(
        {.texts = std::vector(num_texts, RandomText(length, kShape.vocab, 1)), .tenant = tenant},
        answer.Taker());
  };
  Answer never;
  auto refused = submit(4, 1, "a", never);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().detail, HasSubstr("4 texts; a request may have 3"));
  refused = submit(2, 51, "a", never);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().detail, HasSubstr("102 tokens"));
  Hold(*embedder);  // has ended, so that it takes no place
  std::vector<Answer> answers(4);
  ASSERT_TRUE(submit(1, 60, "a", answers[0]).has_value());
  refused = submit(1, 91, "b", never);  // 60 + 91 tokens
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_TRUE(refused.error().retryable);
  ASSERT_TRUE(submit(1, 1, "a", answers[1]).has_value());
  refused = submit(1, 1, "a", never);  // half of the places
  EXPECT_THAT(refused.error().detail, HasSubstr("2 of them yours"));
  ASSERT_TRUE(submit(1, 1, "b", answers[2]).has_value());
  ASSERT_TRUE(submit(1, 1, "b", answers[3]).has_value());
  refused = submit(1, 1, "c", never);
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_EQ(embedder->Stats().num_refused, 3u);
  Release();
  for (Answer& answer : answers) EXPECT_TRUE(answer.Wait().has_value());
  EXPECT_FALSE(never.is_there());
  EXPECT_TRUE(submit(1, 1, "c", never).has_value());
  EXPECT_TRUE(never.Wait().has_value());
}

TEST_F(EmbedderTest, ACancelledRequestIsAnsweredAtOnceAndItsPlaceIsFree) {
  const auto embedder = Open({.queue_max = 2});
  Hold(*embedder);
  Answer cancelled;
  Answer other;
  const auto id =
      embedder->Submit({.texts = std::vector(40, RandomText(32, kShape.vocab, 1)), .tenant = "a"},
                       cancelled.Taker());
  ASSERT_TRUE(id.has_value());
  embedder->Cancel(*id);
  EXPECT_EQ(cancelled.Wait().error().code, ErrorCode::kCancelled);
  embedder->Cancel(*id);  // has no effect
  EXPECT_EQ(embedder->Stats().num_waiting, 0u);
  ASSERT_TRUE(embedder->Submit({.texts = {{1, 2}}, .tenant = "a"}, other.Taker()).has_value());
  Release();
  EXPECT_TRUE(other.Wait().has_value());
  EXPECT_EQ(embedder->Stats().num_texts, 2u);
}

TEST_F(EmbedderTest, RequestsAreCancelledWhileTheyRun) {
  const auto embedder = Open();
  for (int round = 0; round < 20; ++round) {
    Answer answer;
    const auto id = embedder->Submit(
        {.texts = std::vector(30, RandomText(32, kShape.vocab, 1)), .tenant = "a"}, answer.Taker());
    ASSERT_TRUE(id.has_value());
    const uint64_t seen = embedder->Stats().num_steps;
    while (embedder->Stats().num_steps < seen + 2 && !answer.is_there()) std::this_thread::yield();
    embedder->Cancel(*id);
    const Result<Embeddings>& got = answer.Wait();
    EXPECT_TRUE(got.has_value() || got.error().code == ErrorCode::kCancelled);
  }
  EXPECT_EQ(embedder->Stats().num_waiting, 0u);
}

TEST_F(EmbedderTest, WhatWaitsAtTheEndIsCancelled) {
  auto embedder = Open();
  Answer answer;
  Hold(*embedder);
  ASSERT_TRUE(embedder->Submit({.texts = {{1}}, .tenant = "a"}, answer.Taker()).has_value());
  std::thread ends([&] { embedder.reset(); });
  Release();
  ends.join();
  const Result<Embeddings>& got = answer.Wait();
  EXPECT_TRUE(got.has_value() || got.error().code == ErrorCode::kCancelled);
}

TEST_F(EmbedderTest, AModelThatCannotBeLoadedIsTheErrorOfOpen) {
  const auto embedder = Embedder::Open([]() -> Result<Embedder::Loaded> {
    return MakeError(ErrorCode::kDataLoss, "test", "no such model");
  });
  ASSERT_FALSE(embedder.has_value());
  EXPECT_EQ(embedder.error().detail, "no such model");
}

TEST_F(EmbedderTest, AFileThatIsCutFailsTheRequestsOfItsStep) {
  const auto embedder = Open();
  std::filesystem::resize_file(scratch_ / "m.gguf", 100);
  Answer answer;
  ASSERT_TRUE(embedder->Submit({.texts = {{1, 2}}, .tenant = "a"}, answer.Taker()).has_value());
  EXPECT_FALSE(answer.Wait().has_value());
  EXPECT_EQ(embedder->Stats().num_waiting, 0u);
}

}  // namespace
}  // namespace kvgate::embed
