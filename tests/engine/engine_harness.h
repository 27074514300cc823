// This harness has an engine over a tiny random-weight model, and a sink that collects its events.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model/make_model.h"
#include "engine/modelfile/gguf.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/base/temp_folder.h"
#include "tests/engine/device_backend.h"

namespace kvgate::engine {

// A request that has not ended by then never will, and the test fails.
inline constexpr std::chrono::minutes kRequestTimeMax{5};

// Collects one request's events; other threads may wait for them.
class CollectingSink : public TokenSink {
 public:
  void OnToken(TokenEvent event) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(finished_) << "a token after the end";
    tokens_.push_back(event.token);
    text_ += event.text;
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  void OnFinish(FinishEvent event) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(finished_) << "finished twice";
    finished_ = true;
    text_ += event.text;
    finish_ = std::move(event);
    changed_.notify_all();
  }
  const FinishEvent& WaitForFinish() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kRequestTimeMax, [this] { return finished_; }))
        << "the request does not end";
    return finish_;
  }
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kRequestTimeMax,
                                  [&] { return finished_ || tokens_.size() >= count; }))
        << "the request has " << tokens_.size() << " tokens and not " << count;
  }
  bool has_finished() {
    const std::lock_guard lock(mutex_);
    return finished_;
  }
  size_t num_tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_.size();
  }
  // These may be read only after the end.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::string& text() const { return text_; }
  const std::vector<TokenEvent>& events() const { return events_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  std::vector<TokenEvent> events_;
  std::string text_;
  FinishEvent finish_;
  bool finished_ = false;
};

// The result of one request. Two are equal if their tokens, texts and logits hashes are.
struct Outcome {
  std::vector<TokenId> tokens;
  std::string text;
  FinishEvent finish;
  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.tokens == b.tokens && a.text == b.text &&
           a.finish.stats.logits_hash == b.finish.stats.logits_hash;
  }
};

// A model file with its tokenizer and backend. One is made per architecture and shared by the tests
// of a process.
struct TestModel {
  std::shared_ptr<const modelfile::GgufFile> file;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<kernels::Backend> backend;

  static TestModel Make(const std::string& architecture, kernels::DType dtype, int num_heads = 8) {
    const TempFolder folder;
    const std::filesystem::path path = folder / "model.gguf";
    const auto made = model::MakeModel({.architecture = architecture,
                                        .num_layers = 3,
                                        // Formats with blocks of 256 need rows of that length.
                                        .hidden_dim = std::max(128, kernels::DTypeElements(dtype)),
                                        .num_heads = num_heads,
                                        .num_kv_heads = 2,
                                        .ffn_dim = 256,
                                        .vocab_size = 600,
                                        .context_length = 4096,
                                        .dtype = dtype,
                                        .seed = 3,
                                        .name = ""},
                                       path);
    EXPECT_TRUE(made.has_value()) << made.error().ToString();
    TestModel model;
    model.file = *modelfile::GgufFile::Open(path);
    // The folder goes with its file: the mapping keeps the bytes.
    model.tokenizer = *tokenizer::Tokenizer::Load(*model.file);
    model.backend = *kernels::cpu::MakeCpuBackend({.num_threads = 2, .target = ""});
    return model;
  }

  // Moves the model to a DeviceBackend: its KV gets its own memory, and copies run beside the
  // steps.
  kernels::DeviceBackend& MoveToDevice(uint64_t memory_bytes = 0) {
    auto device = std::make_unique<kernels::DeviceBackend>(std::move(backend), memory_bytes);
    kernels::DeviceBackend& moved = *device;
    backend = std::move(device);
    return moved;
  }

  std::unique_ptr<Engine> Open(const EngineOptions& options, store::kv::KvStore* store = nullptr) {
    auto engine = Engine::Open(options, file, *backend, *tokenizer, store);
    EXPECT_TRUE(engine.has_value()) << engine.error().ToString();
    return std::move(*engine);
  }
};

inline GenerationRequest MakeRequest(std::vector<TokenId> prompt, int max_tokens,
                                     std::shared_ptr<TokenSink> sink) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.ignore_end_of_generation = true;
  request.hash_logits = true;
  request.sink = std::move(sink);
  return request;
}

inline Outcome Collect(CollectingSink& sink) {
  const FinishEvent finish = sink.WaitForFinish();
  return {.tokens = sink.tokens(), .text = sink.text(), .finish = finish};
}

// Submits a request, waits for its end and returns its outcome.
inline Outcome Generate(Engine& engine, std::vector<TokenId> prompt, int max_tokens) {
  const auto sink = std::make_shared<CollectingSink>();
  const auto id = engine.Submit(MakeRequest(std::move(prompt), max_tokens, sink));
  EXPECT_TRUE(id.has_value()) << id.error().ToString();
  return Collect(*sink);
}

}  // namespace kvgate::engine
