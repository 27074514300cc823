// An engine over a tiny random-weight model, and a sink that collects what it says.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model/gguf.h"
#include "engine/model/make_model.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/device_backend.h"

namespace kvgate::engine {

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
    changed_.wait(lock, [this] { return finished_; });
    return finish_;
  }
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_ || tokens_.size() >= count; });
  }
  bool has_finished() {
    const std::lock_guard lock(mutex_);
    return finished_;
  }
  size_t num_tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_.size();
  }
  // After the end.
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

// What a request came to.
struct Outcome {
  std::vector<TokenId> tokens;
  std::string text;
  FinishEvent finish;
  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.tokens == b.tokens && a.text == b.text &&
           a.finish.stats.logits_hash == b.finish.stats.logits_hash;
  }
};

// Model file, tokenizer and backend; made once per architecture and shared by the tests of a
// process.
struct TestModel {
  std::shared_ptr<const model::GgufFile> file;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<kernels::Backend> backend;

  static TestModel Make(const std::string& architecture, kernels::DType dtype, int num_heads = 8) {
    const auto path = std::filesystem::temp_directory_path() /
                      ("kvgate-engine-test-" + std::to_string(::getpid()) + ".gguf");
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
    model.file = *model::GgufFile::Open(path);
    std::filesystem::remove(path);  // the mapping keeps the bytes
    model.tokenizer = *tokenizer::Tokenizer::Load(*model.file);
    model.backend = *kernels::cpu::MakeCpuBackend({.num_threads = 2, .target = ""});
    return model;
  }

  // As a device: its KV in memory of its own, copies beside the steps.
  kernels::DeviceBackend& MoveToDevice(uint64_t memory_bytes = 0) {
    auto device = std::make_unique<kernels::DeviceBackend>(std::move(backend), memory_bytes);
    kernels::DeviceBackend& moved = *device;
    backend = std::move(device);
    return moved;
  }

  std::unique_ptr<Engine> Open(const EngineOptions& options, store::KvStore* store = nullptr) {
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

// Submits, waits, and says what came of it.
inline Outcome Generate(Engine& engine, std::vector<TokenId> prompt, int max_tokens) {
  const auto sink = std::make_shared<CollectingSink>();
  const auto id = engine.Submit(MakeRequest(std::move(prompt), max_tokens, sink));
  EXPECT_TRUE(id.has_value()) << id.error().ToString();
  return Collect(*sink);
}

}  // namespace kvgate::engine
