// These fakes are a tokenizer of bytes, an engine that follows a script, and a store in memory, so
// that the gateway's tests run without a model.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/seal.h"
#include "engine/engine.h"
#include "engine/text/chat/chat_format.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "gateway/local/local.h"
#include "gateway/metrics/gateway_metrics.h"
#include "gateway/service/service.h"
#include "store/kv/kv_store.h"

namespace kvgate::test {

// FakeTokenizer has one token per byte.
class FakeTokenizer final : public tokenizer::Tokenizer {
 public:
  std::vector<TokenId> Encode(std::string_view text,
                              const tokenizer::EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  tokenizer::MarkedTokens EncodeMarked(const tokenizer::MarkedText& text) const override {
    return {.tokens = Encode(text.text, {}), .offsets = {text.offsets.begin(), text.offsets.end()}};
  }
  std::string TokenBytes(TokenId token, bool) const override {
    return std::string(1, static_cast<char>(token));
  }
  std::string Decode(std::span<const TokenId> tokens, bool) const override {
    std::string text;
    for (const TokenId token : tokens) text += static_cast<char>(token);
    return text;
  }
  int vocab_size() const override { return 256; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  bool adds_bos() const override { return false; }
  bool adds_space_prefix() const override { return false; }
  bool is_end_of_generation(TokenId) const override { return false; }
  std::optional<TokenId> FindSpecial(std::string_view) const override { return std::nullopt; }
  std::optional<std::string_view> chat_template() const override { return std::nullopt; }
  Fingerprint fingerprint() const override { return {}; }
};

// FakeChatFormat renders "role: content\n" per message, then "assistant:".
class FakeChatFormat final : public chat::ChatFormat {
 public:
  std::string_view name() const override { return "fake"; }
  std::span<const std::string> stop_strings() const override { return stops_; }
  Result<chat::RenderedChat> Render(const chat::ChatRequest& request) const override {
    chat::RenderedChat rendered;
    std::vector<size_t> ends;
    for (const chat::ChatMessage& message : request.messages) {
      rendered.text += message.role + ": " + message.content + "\n";
      ends.push_back(rendered.text.size());
    }
    if (!request.wanted_ends) rendered.message_ends = ends;
    for (const size_t index : request.wanted_ends.value_or(std::span<const size_t>())) {
      rendered.message_ends.push_back(ends[index]);
    }
    rendered.text += "assistant:";
    return rendered;
  }

 private:
  std::vector<std::string> stops_ = {"\nuser:"};
};

// The answer of FakeEngine to every request.
struct Script {
  std::vector<std::string> pieces = {"Hello", " world", "!"};
  std::chrono::milliseconds first_delay{0};
  std::chrono::milliseconds piece_delay{0};
  bool forever = false;   // repeats the pieces until cancelled
  bool numbered = false;  // pieces begin with the request's number, so no two agree
  engine::FinishReason reason = engine::FinishReason::kStop;
  std::optional<Error> error = {};
  int num_device_tokens = 0;
  int num_disk_tokens = 0;
};

class FakeEngine final : public engine::Engine {
 public:
  explicit FakeEngine(Script script) : script_(std::move(script)) {
    info_.context_tokens_max = 4096;
    info_.model.architecture = "fake";
    info_.backend.name = "fake";
  }
  ~FakeEngine() override {
    {
      const std::lock_guard lock(mutex_);
      for (auto& [id, cancelled] : cancelled_) cancelled = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Result<RequestId> Submit(engine::GenerationRequest request) override {
    const std::lock_guard lock(mutex_);
    if (refuse_ && requests_.size() >= num_accepted_) return *refuse_;
    const RequestId id{++last_id_};
    cancelled_[id] = false;
    requests_.push_back(request);
    requests_.back().sink = nullptr;
    num_running_.fetch_add(1);
    threads_.emplace_back([this, id, request = std::move(request)] { Play(id, request); });
    return id;
  }
  void Cancel(RequestId id) override {
    {
      const std::lock_guard lock(mutex_);
      const auto found = cancelled_.find(id);
      if (found == cancelled_.end()) return;
      found->second = true;
    }
    changed_.notify_all();
  }
  void Pin(engine::PinnedPrefix pin) override {
    const std::lock_guard lock(mutex_);
    pinned_.push_back(std::move(pin));
  }
  std::vector<engine::PinnedPrefix> pins() {
    const std::lock_guard lock(mutex_);
    return pinned_;
  }
  std::optional<std::vector<engine::KvPlace>> Locate(std::vector<BlockHash> blocks,
                                                     std::chrono::milliseconds) override {
    if (is_busy) return std::nullopt;
    std::vector<engine::KvPlace> found;
    for (const BlockHash& block : blocks) {
      const auto place = places.find(block);
      found.push_back(place == places.end() ? engine::KvPlace::kAbsent : place->second);
    }
    num_located += blocks.size();
    return found;
  }
  // Set before the engine is asked.
  std::map<BlockHash, engine::KvPlace> places;
  bool is_busy = false;  // Locate times out
  size_t num_located = 0;
  bool Drain(std::chrono::milliseconds) override { return true; }
  const engine::EngineInfo& info() const override { return info_; }
  engine::EngineStats Stats() const override {
    engine::EngineStats stats;
    stats.num_requests = last_id_;
    stats.num_running = static_cast<uint64_t>(num_running_.load());
    stats.num_device_tokens = 96;
    return stats;
  }
  void CheckIntegrity() override {}

  int num_running() const { return num_running_.load(); }
  int num_cancelled() const { return num_cancelled_.load(); }
  engine::GenerationRequest last_request() {
    const std::lock_guard lock(mutex_);
    return requests_.back();
  }
  // Returns all accepted requests, without their sinks.
  std::vector<engine::GenerationRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // Refuses every request after the first `num_accepted` ones.
  void RefuseWith(Error error, size_t num_accepted = 0) {
    refuse_ = std::move(error);
    num_accepted_ = num_accepted;
  }
  engine::EngineInfo& mutable_info() { return info_; }

 private:
  // Sleeps. Returns false if the request was cancelled meanwhile.
  bool Wait(RequestId id, std::chrono::milliseconds delay) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, delay, [&] { return cancelled_[id]; });
  }

  void Play(RequestId id, const engine::GenerationRequest& request) {
    engine::FinishEvent finish;
    finish.reason = script_.reason;
    finish.error = script_.error;
    int num_tokens = 0;
    bool going = Wait(id, script_.first_delay);
    do {
      for (const std::string& piece : script_.pieces) {
        if (!going) break;
        if (num_tokens == request.max_tokens) {
          finish.reason = engine::FinishReason::kLength;
          break;
        }
        engine::TokenEvent event{
            .token = static_cast<unsigned char>(piece[0]),
            .text = script_.numbered ? std::to_string(id.value) + piece : piece,
            .logprob = -0.5f,
            .top_logprobs = {}};
        for (int k = 0; k < request.sampling.num_logprobs; ++k) {
          event.top_logprobs.push_back({.token = 'a' + k, .logprob = -0.5f - k});
        }
        request.sink->OnToken(std::move(event));
        ++num_tokens;
        going = Wait(id, script_.piece_delay);
      }
    } while (going && script_.forever && num_tokens < request.max_tokens);
    if (!going) {
      finish.reason = engine::FinishReason::kCancelled;
      num_cancelled_.fetch_add(1);
    }
    finish.stats.num_prompt_tokens = static_cast<int>(request.prompt.size());
    finish.stats.num_device_tokens = script_.num_device_tokens;
    finish.stats.num_disk_tokens = script_.num_disk_tokens;
    finish.stats.num_cached_tokens = script_.num_device_tokens + script_.num_disk_tokens;
    finish.stats.num_output_tokens = num_tokens;
    finish.stats.ttft_seconds = 0.25;
    finish.stats.total_seconds = 0.5;
    finish.stats.logits_hash = request.hash_logits ? 0xabcdef : 0;
    num_running_.fetch_sub(1);
    request.sink->OnFinish(std::move(finish));
  }

  const Script script_;
  engine::EngineInfo info_;
  std::optional<Error> refuse_;
  size_t num_accepted_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, bool> cancelled_;
  std::vector<std::thread> threads_;
  std::vector<engine::GenerationRequest> requests_;
  std::vector<engine::PinnedPrefix> pinned_;
  std::atomic<uint64_t> last_id_{0};
  std::atomic<int> num_running_{0};
  std::atomic<int> num_cancelled_{0};
};

// FakeKvStore lists the prefixes it was given.
class FakeKvStore final : public store::kv::KvStore {
 public:
  std::vector<store::kv::KvPrefix> prefixes;

  bool Contains(const store::kv::KvKey&) const override { return false; }
  Result<void> Put(std::span<const store::kv::KvRecord>) override { return {}; }
  Result<void> Get(const store::kv::KvLookup&) override {
    return MakeError(ErrorCode::kNotFound, "store", "empty");
  }
  void Touch(std::span<const store::kv::KvKey>) override {}
  void CountHits(std::span<const store::kv::KvKey>, const store::kv::KvUse&) override {}
  Result<void> Flush() override { return {}; }
  store::kv::KvStoreStats Stats() const override {
    store::kv::KvStoreStats stats;
    stats.num_records = 7;
    return stats;
  }
  std::vector<store::kv::KvPrefix> ListPrefixes() const override { return prefixes; }
  Result<std::vector<store::kv::KvKey>> Chain(const BlockHash&) const override {
    return MakeError(ErrorCode::kNotFound, "store", "empty");
  }
  Result<std::vector<store::kv::KvKey>> Chain(const store::kv::KvKey&) const override {
    return MakeError(ErrorCode::kNotFound, "store", "empty");
  }
  std::vector<store::kv::KvKey> WindowKeys(const store::kv::KvKey&) const override { return {}; }
  Result<store::kv::KvBlock> Read(const store::kv::KvKey&) override {
    return MakeError(ErrorCode::kNotFound, "store", "empty");
  }
  Result<void> Pin(const store::kv::KvKey&, int64_t) override { return {}; }
  void Unpin(const store::kv::KvKey&) override {}
  Result<uint64_t> RemovePrefix(const BlockHash& leaf) override {
    const size_t before = prefixes.size();
    std::erase_if(prefixes, [&](const auto& prefix) { return prefix.leaf.hash == leaf; });
    return uint64_t{before - prefixes.size()};
  }
  Result<uint64_t> RemoveAll() override { return uint64_t{std::exchange(prefixes, {}).size()}; }
  Result<store::kv::KvVerifyReport> Verify(std::function<void(uint64_t, uint64_t)>) override {
    return store::kv::KvVerifyReport{.num_checked = 7, .num_dropped = 1, .num_orphans = 0};
  }
};

// Gateway is a whole gateway over the fakes, without sockets.
struct Gateway {
  explicit Gateway(Script script = {}, store::kv::KvStore* kv = nullptr,
                   store::meta::TurnStore* turns = nullptr, service::Prompts* prompts = nullptr,
                   ledger::Ledger* ledger = nullptr, session::Sessions* sessions = nullptr)
      : engine(std::move(script)),
        service({.registry = registry,
                 .metrics = metrics,
                 .kv = kv,
                 .keyring = kv != nullptr ? keyring.get() : nullptr,
                 .ledger = ledger,
                 .turns = turns,
                 .sessions = sessions,
                 .prompts = prompts,
                 .no_disk_reason = "switched off",
                 .system_fingerprint = "kvgate-test"}) {
    service.SetLocal(std::make_unique<local::LocalProvider>(
        local::LocalProvider::Parts{.engine = engine,
                                    .tokenizer = tokenizer,
                                    .chat_format = std::make_unique<FakeChatFormat>(),
                                    .names = {"fake-model", "local"},
                                    .metrics = &metrics,
                                    .created_unix = 1}));
  }

  metrics::Registry registry;
  metrics::GatewayMetrics metrics{registry};
  FakeTokenizer tokenizer;
  FakeEngine engine;
  std::unique_ptr<Keyring> keyring = Keyring::Generate();
  service::Service service;
};

}  // namespace kvgate::test
